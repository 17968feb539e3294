"""The user's own folders for settings, state and cache, where the XDG specification puts them."""

from __future__ import annotations

import os
from pathlib import Path

OTHERWISE = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}


def working_folder() -> Path:
    """The working folder; of one that was deleted, as a shell may still stand in, the name that it had."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD") or "/")


def user_folder(purpose: str) -> Path:
    """`gputel` under XDG_CONFIG_HOME, XDG_STATE_HOME or XDG_CACHE_HOME; a relative path in them does not count."""
    home = Path(os.environ.get(f"XDG_{purpose}_HOME", ""))
    return (home if home.is_absolute() else Path.home() / OTHERWISE[purpose]) / "gputel"
