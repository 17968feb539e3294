"""Libraries of other tools that the user has, imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gputel.telemetry.errors import GputelError


def library(name: str) -> Any:
    """Imports a library; raises GputelError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise GputelError(f"--to {name}", f"needs {name}: {error}", f"pip install {name}") from None
    except Exception as error:  # an old version may not go with newer packages around it
        fault = f"{name} cannot be imported: {type(error).__name__}: {error}"
        raise GputelError(f"--to {name}", fault, f"pip install --upgrade {name}") from None
