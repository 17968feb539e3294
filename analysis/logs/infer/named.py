"""A value of a shape with its printed name, and with the column that it means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gputel.analysis.logs.names import legal

PLACES = {"step": "total_steps", "iteration": "total_steps", "batch": "total_steps", "epoch": "epochs"}
STEPS = ("step", "iteration", "batch")
SETTING = "setting"  # the column of a value that says how the next one is measured


@dataclass(frozen=True)
class Slot:
    """One value of a shape. `key` is its printed name or None; `column` says what it is if not a named value."""

    at: int
    kind: str  # number, clock, stamp
    key: str | None
    unit: str | None = None
    column: str | None = None
    scale: str = ""  # k, M: the number was shortened, apart from its unit


@dataclass(frozen=True)
class Named:
    """One value with its column; `column` is None for a value that says nothing of the training."""

    slot: Slot
    column: str | None
    unit: str | None = None
    source: str = ""
    guessed: bool = False  # its values say that it is a place, and not its name
    only: str = ""  # lines with this text in its place alone are meant
    never: str = ""  # lines with this text in its place are not

    @property
    def at(self) -> int:
        return self.slot.at


def is_place(cell: Named) -> bool:
    return cell.column in (*PLACES, *PLACES.values(), "index", "length", "count", "total")


def places_alone(cells: Iterable[Named]) -> tuple[Named, ...]:
    """The values of a line of which only the place is to be read."""
    return tuple(replace(cell, column=cell.column if is_place(cell) else None) for cell in cells)


def is_unknown(cell: Named) -> bool:
    """Whether a value has its own printed name, which may be that of a place: `count_`."""
    return cell.column in (legal(cell.source), f"{legal(cell.source)}_")
