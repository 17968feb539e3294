"""The user's own folders for settings, state and cache, where the XDG specification puts them."""

from __future__ import annotations

import os
from pathlib import Path

OTHERWISE = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}


def user_folder(purpose: str) -> Path:
    """`gputel` under XDG_CONFIG_HOME, XDG_STATE_HOME or XDG_CACHE_HOME; a relative path in them does not count."""
    home = Path(os.environ.get(f"XDG_{purpose}_HOME", ""))
    return (home if home.is_absolute() else Path.home() / OTHERWISE[purpose]) / "gputel"
