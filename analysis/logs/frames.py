"""Rows of a log -> polars frames: phases by name, times as dates.

Rows come one by one or in blocks of columns. A column is numbers with a mask, so null (not printed) and NaN
(printed) stay different things.

Making a frame costs as much as parsing a thousand lines, and a folder may hold thousands of small logs. So the
rows of logs that were read together become one frame, and the frame of each log is a slice of it. For the same
reason columns are handled one by one here and not in expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs.date_order import AHEAD, AMBIGUOUS, DATED, DAY, Calendar
from gputel.analysis.logs.log import DEFAULT_PHASE

Numbers = npt.NDArray[np.float64]
Column = npt.NDArray[Any]  # of float64, or of int64 where the name is in WHOLE
Row = dict[str, "float | str | None"]
TEXTS = ("rank", "name")
SAME = (*TEXTS, "phase", "attempt")  # columns that mostly have one value in all rows
AT_ONCE = 1 << 16  # rows that may wait to be written into columns
SMALL = 1 << 20  # bytes; a smaller column is copied to free the room that it does not use
MOST = 2**63  # whole numbers must be below it; a larger step is null
WHOLE = ("phase", "attempt", "line", "step", "after", "total_steps", "time")


class RowBlock(NamedTuple):
    """`size` rows with the same columns; a column in `same` has one value for all of them."""

    size: int
    columns: Mapping[str, Column]
    same: Mapping[str, float | str | None]


class Rows:
    """Rows that grow one by one or by blocks, and become one frame."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._at: list[int] = []
        self._waiting: list[tuple[int, RowBlock]] = []
        self._columns: dict[str, _GrowingColumn] = {}
        self._same: list[tuple[int, int, Mapping[str, float | str | None]]] = []
        self._met: dict[str, int] = {}  # the first row with each name
        self._places: dict[tuple[int, int], None] = {}
        self.count = 0

    def append(self, row: Row) -> None:
        self._rows.append(row)
        self._at.append(self.count)
        self._meet(row, row)
        self.count += 1

    def extend(self, block: RowBlock) -> None:
        self._same.append((self.count, block.size, block.same))
        self._meet((*block.same, *block.columns), block.same)
        self._waiting.append((self.count, block))
        self.count += block.size
        if sum(block.size for _, block in self._waiting) > AT_ONCE:
            self._spread(0)

    def _spread(self, count: int) -> None:
        """Writes waiting blocks into columns, which are made for `count` rows."""
        for at, block in self._waiting:
            for name, values in block.columns.items():
                if name not in self._columns:
                    self._columns[name] = _GrowingColumn(name, count)
                self._columns[name].put(at, values)
        self._waiting.clear()

    def _meet(self, names: Iterable[str], where: Mapping[str, Any]) -> None:
        for name in names:
            self._met.setdefault(name, self.count)
        if "phase" in where:
            self._places[where["phase"], where["attempt"]] = None

    def places(self) -> list[tuple[int, int]]:
        """The (number of the phase, attempt) of all rows, each once."""
        return list(self._places)

    @property
    def is_spread(self) -> bool:
        """Whether there are so many rows that some columns have been written already."""
        return bool(self._columns)

    def names(self, first: tuple[str, ...], order: Callable[[list[str]], list[str]] = list) -> list[str]:
        return order([*first, *(name for name in self._met if name not in first)])

    def frame(
        self,
        first: tuple[str, ...],
        same: Mapping[str, str | int] | None = None,
        order: Callable[[list[str]], list[str]] = list,
    ) -> pl.DataFrame:
        """All rows in the order in which they came; the columns in `first` are there even if no row has them.

        `same` gives columns with one value in all rows. Each column is released as the frame gets it, so that not
        all of them are in memory twice.
        """
        self._spread(self.count)
        names, same = self.names(first, order), same or {}
        frame = pl.DataFrame([self._series(name) for name in names if name not in same])
        # a literal takes no memory until its column is asked for
        alike = [pl.lit(value, pl.String if isinstance(value, str) else pl.Int64) for value in same.values()]
        return frame.with_columns(**dict(zip(same, alike, strict=True))).select(names) if same else frame

    def _series(self, name: str) -> pl.Series:
        if name not in self._columns:
            values = {same.get(name) for _, _, same in self._same} | {row.get(name) for row in self._rows}
            if values <= {None} or (len(values) == 1 and name in SAME):
                return constant(name, next(iter(values), None), _kind(name), self.count)
        return self._texts(name) if name in TEXTS else self._numbers(name)

    def _numbers(self, name: str) -> pl.Series:
        column = self._columns.pop(name, None) or _GrowingColumn(name, self.count)
        for at, size, same in self._same:
            value = same.get(name)
            if isinstance(value, (int, float)):
                column.put(at, np.full(size, value))
        column.reach(self.count)
        column.scatter(self._at, [row.get(name) for row in self._rows])
        numbers, present = column.close(self.count)
        series = pl.Series(name, numbers)
        return series if present is None else series.set(pl.Series(~present), None)

    def _texts(self, name: str) -> pl.Series:
        texts: list[str | None] = [None] * self.count
        for at, size, same in self._same:
            text = same.get(name)
            texts[at : at + size] = [text if isinstance(text, str) else None] * size
        for at, row in zip(self._at, self._rows, strict=True):
            text = row.get(name)
            texts[at] = text if isinstance(text, str) else None
        return pl.Series(name, texts, dtype=pl.String)


def joined(many: Iterable[Rows]) -> Rows:
    """Joins the rows of many logs; none of them may be `is_spread`."""
    whole = Rows()
    for rows in many:
        at = whole.count
        whole._rows += rows._rows
        whole._at += [at + place for place in rows._at]
        whole._waiting += [(at + place, block) for place, block in rows._waiting]
        whole._same += [(at + place, size, same) for place, size, same in rows._same]
        whole._met.update({name: at + place for name, place in rows._met.items() if name not in whole._met})
        whole.count += rows.count
    return whole


def _kind(name: str) -> type[pl.DataType]:
    return pl.String if name in TEXTS else pl.Int64 if name in WHOLE else pl.Float64


def constant(
    name: str, value: str | float | None, kind: pl.DataType | type[pl.DataType], size: int
) -> pl.Series:
    column: pl.Series = _cell(name, value, kind).new_from_index(0, size)
    return column


@lru_cache(maxsize=64)
def _cell(name: str, value: str | float | None, kind: pl.DataType | type[pl.DataType]) -> pl.Series:
    return pl.Series(name, [value], dtype=kind)


class _GrowingColumn:
    """A column that is written in place; values that were not written are null.

    It grows to four times its size, which costs nothing: pages that were never touched take no memory.
    """

    def __init__(self, name: str, count: int) -> None:
        self._kind = np.int64 if name in WHOLE else np.float64
        self._values: Column = np.empty(count, dtype=self._kind)
        self._spans: list[tuple[int, int]] = []

    def put(self, at: int, values: Column) -> None:
        self.reach(at + len(values))
        self._values[at : at + len(values)] = values
        self._spans.append((at, at + len(values)))

    def scatter(self, places: list[int], values: list[Any]) -> None:
        """Writes single values; a whole number that an int64 cannot hold stays null."""
        for at, value in zip(places, values, strict=True):
            if value is not None and (self._kind is np.float64 or abs(value) < MOST):
                self._values[at] = value
                self._spans.append((at, at + 1))

    def close(self, count: int) -> tuple[Column, npt.NDArray[np.bool_] | None]:
        """The values, and a mask of those that are present; None if all are."""
        numbers = self._values[:count]
        if len(self._values) > count and self._values.nbytes < SMALL:
            numbers = numbers.copy()
        if sum(end - at for at, end in self._spans) == count:
            return numbers, None
        present = np.zeros(count, dtype=np.bool_)
        for at, end in self._spans:
            present[at:end] = True
        numbers[~present] = 0
        return numbers, present

    def reach(self, size: int) -> None:
        if size > len(self._values):
            smaller = self._values
            self._values = np.empty(size + max(size >> 3, 3 * len(smaller)), dtype=self._kind)
            self._values[: len(smaller)] = smaller


Place = tuple[str, int]  # name of the phase, and attempt of that name
Places = dict[tuple[int, int], Place]  # by number of the phase, and attempt
Frame = Callable[[], pl.DataFrame]

UTC = pl.Datetime("ns", "UTC")
TYPES: dict[str, type[pl.DataType] | pl.DataType] = {
    **dict.fromkeys(("phase", "name", "rank", "kind", "text"), pl.String),
    **dict.fromkeys(("attempt", "step", "after", "line"), pl.Int64),
    "value": pl.Float64,
    "time": UTC,
}


class FrameKind(NamedTuple):
    """The columns that a frame always has, and the order of all its columns."""

    first: tuple[str, ...]
    order: Callable[[list[str]], list[str]] = list


RECORDS = FrameKind(("phase", "attempt", "line", "step", "time", "rank"), columns.in_order)
PARTIALS = FrameKind(RECORDS.first)
EVALS = FrameKind(tuple(column.name for column in columns.EVALS))


class Together:
    """Collects the rows of many logs and makes all their frames at once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[FrameKind, Place, Calendar], _Group] = {}

    def add(self, kind: FrameKind, rows: Rows, places: Places, calendar: Calendar) -> Frame:
        """Adds the rows of a log; call what it returns once the rows of all logs are added."""
        if len(places) > 1:
            return lambda: readable(unnamed(kind, rows), places, calendar)
        key = (kind, next(iter(places.values()), (DEFAULT_PHASE, 1)), calendar)
        group = _Group(*key) if rows.is_spread else self._groups.setdefault(key, _Group(*key))
        number = len(group.rows)
        group.rows.append(rows)
        return lambda: group.frame(number)

    def make(self) -> None:
        """Makes all frames now, because rows take more memory than frames."""
        for group in self._groups.values():
            group.make()


@dataclass
class _Group:
    """Logs that have the same phase, attempt and calendar."""

    kind: FrameKind
    place: Place
    calendar: Calendar
    rows: list[Rows] = field(default_factory=list)
    frames: list[pl.DataFrame] | None = None

    def frame(self, number: int) -> pl.DataFrame:
        return (self.frames or self.make())[number]

    def make(self) -> list[pl.DataFrame]:
        """Makes one frame, slices it by log, and lets the rows go."""
        phase, attempt = self.place
        names = [rows.names(self.kind.first, self.kind.order) for rows in self.rows]
        edges = np.cumsum([0, *(rows.count for rows in self.rows)]).tolist()
        whole = joined(self.rows) if len(self.rows) > 1 else self.rows[0]
        self.rows = []
        frame = whole.frame(self.kind.first, {"phase": phase, "attempt": attempt}, self.kind.order)
        frame = _dated(frame, self.calendar)
        self.frames = [
            _in_order(_with(frame.slice(start, end - start), own))
            for own, (start, end) in zip(names, pairwise(edges), strict=True)
        ]
        return self.frames


def unnamed(kind: FrameKind, rows: Rows) -> pl.DataFrame:
    """The rows of one log in the order of their lines, with numbers for phases."""
    return _in_order(rows.frame(kind.first, order=kind.order))


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame if frame["line"].is_sorted() else frame.sort("line", maintain_order=True)


def _with(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return frame if frame.columns == names else frame[names]


def begun(frame: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """(number of the phase, attempt) of each row where they differ from the row before."""
    phases, attempts = frame["phase"].to_numpy(), frame["attempt"].to_numpy()
    changed = (phases[1:] != phases[:-1]) | (attempts[1:] != attempts[:-1])
    for row in [0, *(np.flatnonzero(changed) + 1).tolist()] if len(phases) else []:
        yield int(phases[row]), int(attempts[row])


def readable(frame: pl.DataFrame, places: Places, calendar: Calendar) -> pl.DataFrame:
    """Replaces numbers of phases by names, and numbers of nanoseconds by times."""
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
    return _dated(named, calendar)


def _dated(named: pl.DataFrame, calendar: Calendar) -> pl.DataFrame:
    if named["time"].null_count() == named.height:
        return _replaced(named, constant("time", None, UTC, named.height))
    time = pl.col("time")
    moment = time + pl.when(time < DATED).then(calendar.shift).otherwise(0)
    last: Any = named["time"].max()
    if last >= AMBIGUOUS:
        moment = pl.when(time < AMBIGUOUS).then(moment).otherwise(_by_order(time - AHEAD, calendar.day_first))
    return named.with_columns(moment.cast(pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _by_order(moment: pl.Expr, day_first: bool) -> pl.Expr:
    """Moments that were read with the month first."""
    read = moment.cast(pl.Int64).cast(pl.Datetime("ns"))
    days = pl.date(read.dt.year(), read.dt.day(), read.dt.month()).cast(pl.Datetime("ns")).cast(pl.Int64)
    return days + moment % DAY if day_first else moment


def _replaced(frame: pl.DataFrame, column: pl.Series) -> pl.DataFrame:
    """Mutates `frame`; call it only before the frame is handed out."""
    return frame.replace_column(frame.columns.index(column.name), column)
