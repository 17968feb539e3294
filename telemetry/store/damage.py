"""Reading that survives a damaged file: it costs its own content, and one warning names it.

A truncated file, a foreign one under our name, a bad disk: polars and our own checks raise one of UNREADABLE.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl

from gputel.telemetry.errors import DamagedFile

UNREADABLE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,  # a BaseException: polars' own code failed on the bytes
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
Content = TypeVar("Content")


def attempt(path: Path, read: Callable[[], Content], otherwise: Content) -> Content:
    """What `read` returns, or `otherwise` if the file is damaged; a file that has gone raises FileNotFoundError."""
    try:
        return read()
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        warnings.warn(DamagedFile(path, _reason(error)), stacklevel=2)
        return otherwise


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines and not isinstance(error, KeyError) else type(error).__name__
