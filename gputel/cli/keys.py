"""Whether there is a terminal to draw on, and keys to be read from it."""

from __future__ import annotations

import os
import sys


def taken() -> int | None:
    """The descriptor of what is piped in; standard input is the keyboard from here on. None without a terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if sys.stdin.isatty():
        return 0
    try:
        keyboard = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None
    piped = os.dup(0)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    return piped
