"""The command line of a process of our own: with the modules of this one, and none of the training's."""

from __future__ import annotations

import os
import sys

from gputel.telemetry.user_folders import working_folder

IRREPLACEABLE = ("PYTHONHOME", "PYTHONIOENCODING")
"""Variables that a Python without its environment would miss: no option says the same."""


def argv(module: str, *words: str) -> list[str]:
    """Arguments that start the module's `main` with these words."""
    return [sys.executable, *options(), "-c", code(module), *words]


def options() -> list[str]:
    """Keeps a sitecustomize.py on the training's PYTHONPATH out of our process: it may print, or take long."""
    if any(variable in os.environ for variable in IRREPLACEABLE):
        return []
    found = ["-E"]
    found += ["-B"] if sys.dont_write_bytecode else []
    found += ["-s"] if sys.flags.no_user_site else []
    found += ["-X", "utf8"] if sys.flags.utf8_mode else []
    return found + (["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else [])


def code(module: str) -> str:
    """With the user's folder last on the path: a file there may have the name of one of our modules."""
    here = working_folder()
    places = [str(here / place) for place in sys.path if place]
    places.sort(key=lambda place: place == str(here))
    return f"import sys; sys.path[:] = {places!r}; from {module} import main; main(*sys.argv[1:])"
