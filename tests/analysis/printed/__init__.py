"""Whole logs as programs print them, composed: banners, records, evaluations, checkpoints, and what each must give.

No line is copied from a log; `read_in` says where the grammar was read. What must come out follows the rules of
docs/parse.md, and was written down before any parser had seen the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Printed:
    """One log. `first` and `last` are step and loss of the first and last record; `evals` are counts and minima."""

    name: str
    read_in: str
    text: str
    records: int
    first: tuple[int | None, float | None] = (None, None)
    last: tuple[int | None, float | None] = (None, None)
    evals: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    total: int | None = None
    attempts: int = 1
    events: dict[str, int] = field(default_factory=dict)
    status: str = "unknown"
    cause: str | None = None


def falling(i: int, start: float = 9.5, floor: float = 1.25) -> float:
    """A loss that falls, and is not smooth."""
    return round((start - floor) / (1 + i / 7) + floor + (i * 37 % 11) / 100, 4)


def validated(i: int) -> float:
    """The validation loss beside it, which lies above."""
    return round(falling(i) + 0.2, 4)


def val_losses(count: int, least: float) -> dict[str, tuple[int, float | None]]:
    return {"val_loss": (count, least)}


def lines(*parts: str | Iterable[str]) -> str:
    """Lines and runs of lines, one below the other."""
    flat = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    return "".join(f"{line}\n" for line in flat)


def clock(seconds: int) -> str:
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
