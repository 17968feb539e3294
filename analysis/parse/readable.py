"""Rows as they were read -> frames as people read them: phases by name, moments on the calendar.

Making a frame costs what parsing a thousand lines does, and a folder may hold thousands of small logs. So the rows
of logs that were read together become one frame, and that of each log is a slice of it. For the same reason columns
are handled one by one here and not in expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.parse.log import DEFAULT_PHASE
from gputel.analysis.parse.rows import Rows, constant, joined

Place = tuple[str, int]  # name of the phase, and attempt of that name
Places = dict[tuple[int, int], Place]  # by number of the phase, and attempt
Frame = Callable[[], pl.DataFrame]

DATED = 10**18  # September 2001: moments before it are still counted in years or days of the log's own
UTC = pl.Datetime("ns", "UTC")
TYPES: dict[str, type[pl.DataType] | pl.DataType] = {
    **dict.fromkeys(("phase", "name", "rank", "kind", "text"), pl.String),
    **dict.fromkeys(("attempt", "step", "line"), pl.Int64),
    "value": pl.Float64,
    "time": UTC,
}


@dataclass(frozen=True)
class Kind:
    """Columns that are there even where no row has them, and the order of all of them."""

    first: tuple[str, ...]
    order: Callable[[list[str]], list[str]] = list


RECORDS = Kind(("phase", "attempt", "line", "step", "time", "rank"), columns.in_order)
PARTIALS = Kind(RECORDS.first)
EVALS = Kind(("phase", "attempt", "step", "name", "value", "line", "time", "rank"))


class Together:
    """Takes the rows of logs one after the other, and makes the frames of all of them at once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Kind, Place, int], _Group] = {}

    def add(self, kind: Kind, rows: Rows, places: Places, shift: int) -> Frame:
        """The frame is to be asked for when all have been added."""
        if len(places) > 1:
            return lambda: readable(unnamed(kind, rows), places, shift)
        key = (kind, next(iter(places.values()), (DEFAULT_PHASE, 1)), shift)
        group = _Group(*key) if rows.is_spread else self._groups.setdefault(key, _Group(*key))
        number = len(group.rows)
        group.rows.append(rows)
        return lambda: group.frame(number)

    def make(self) -> None:
        """Now, and not when the first is asked for: rows take more room than frames do."""
        for group in self._groups.values():
            group.make()


@dataclass
class _Group:
    """Logs whose columns that are not rows' own are the same."""

    kind: Kind
    place: Place
    shift: int
    rows: list[Rows] = field(default_factory=list)
    frames: list[pl.DataFrame] | None = None

    def frame(self, number: int) -> pl.DataFrame:
        return (self.frames or self.make())[number]

    def make(self) -> list[pl.DataFrame]:
        """A slice for each, with the columns that it alone has; the rows are gone then."""
        phase, attempt = self.place
        names = [rows.names(self.kind.first, self.kind.order) for rows in self.rows]
        edges = np.cumsum([0, *(rows.count for rows in self.rows)]).tolist()
        whole = joined(self.rows) if len(self.rows) > 1 else self.rows[0]
        self.rows = []
        frame = whole.frame(self.kind.first, {"phase": phase, "attempt": attempt}, self.kind.order)
        frame = _dated(frame, self.shift)
        self.frames = [
            _in_order(_with(frame.slice(start, end - start), own))
            for own, (start, end) in zip(names, pairwise(edges), strict=True)
        ]
        return self.frames


def unnamed(kind: Kind, rows: Rows) -> pl.DataFrame:
    """The rows of one log in the order of their lines, with numbers for phases."""
    return _in_order(rows.frame(kind.first, order=kind.order))


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame if frame["line"].is_sorted() else frame.sort("line", maintain_order=True)


def _with(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return frame if frame.columns == names else frame[names]


def begun(frame: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """(number of the phase, attempt) of each row that differs from the one before."""
    phases, attempts = frame["phase"].to_numpy(), frame["attempt"].to_numpy()
    changed = (phases[1:] != phases[:-1]) | (attempts[1:] != attempts[:-1])
    for row in [0, *(np.flatnonzero(changed) + 1).tolist()] if len(phases) else []:
        yield int(phases[row]), int(attempts[row])


def readable(frame: pl.DataFrame, places: Places, shift: int) -> pl.DataFrame:
    """Phases by name, moments as moments."""
    if len(places) <= 1:
        phase, attempt = next(iter(places.values()), (DEFAULT_PHASE, 1))
        named = _replaced(frame, constant("phase", phase, pl.String, frame.height))
        named = _replaced(named, constant("attempt", attempt, pl.Int64, frame.height))
    else:
        keys = pl.DataFrame(
            [(*key, *place) for key, place in places.items()],
            schema={"phase": pl.Int64, "attempt": pl.Int64, "_phase": pl.String, "_attempt": pl.Int64},
            orient="row",
        )
        joined = frame.join(keys, on=["phase", "attempt"], how="left", maintain_order="left")
        named = joined.with_columns(phase="_phase", attempt="_attempt").drop("_phase", "_attempt")
    return _dated(named, shift)


def _dated(named: pl.DataFrame, shift: int) -> pl.DataFrame:
    if named["time"].null_count() == named.height:
        return _replaced(named, constant("time", None, UTC, named.height))
    moment = pl.col("time") + pl.when(pl.col("time") < DATED).then(shift).otherwise(0)
    return named.with_columns(moment.cast(pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _replaced(frame: pl.DataFrame, column: pl.Series) -> pl.DataFrame:
    """In place: the frame is ours until it is given away."""
    return frame.replace_column(frame.columns.index(column.name), column)
