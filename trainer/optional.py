"""Packages that only some runs need, imported where they are used: a module, or one line that says how to
get it."""

import importlib
from typing import Any

from gputel.trainer.errors import TrainerError


def optional(module: str, package: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise TrainerError(wanted_by, f"needs the package {package}", f"pip install {package}") from missing
