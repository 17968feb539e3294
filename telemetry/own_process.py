"""Starts a module of ours as a process of its own."""

from __future__ import annotations

import sys


def argv(module: str, *words: str) -> list[str]:
    """Arguments that start the module's `main` with these words."""
    return [sys.executable, "-c", code(module), *words]


def code(module: str) -> str:
    """Without the user's folder on the path, where a file may have the name of one of our modules."""
    return f"import sys; del sys.path[:1]; from {module} import main; main(*sys.argv[1:])"
