"""An engine's hits as rows: runs of lines of one pattern that printed the same fields, in file order, with time
and rank.

Time and rank are read from what stands before a record, once a line and in the order of the file: timestamps
without a date count the midnights between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import line_pairs, prefixes
from gputel.analysis.logs.line_kinds import LinePlan, plan
from gputel.analysis.logs.line_pairs import LineOrder
from gputel.analysis.logs.lines import Chunk, line_at, positions
from gputel.analysis.logs.patterns import Field, Hits, Pattern
from gputel.analysis.logs.prefixes import Letters
from gputel.analysis.logs.regex_engine import last_digits

Ints = npt.NDArray[np.int64]
Moments = npt.NDArray[np.int64]
SHORTEST_PREFIX = 3  # `0: `; a shorter prefix has no rank and no time


class KnownHeads(NamedTuple):
    """Times and ranks of all rows of a table that were read before; no times if the rows have none."""

    times: Moments
    ranks: list[str]

    def head(self, row: int) -> tuple[int | None, str]:
        return (int(self.times[row]) if len(self.times) else None), self.ranks[row]


class HitTable:
    """The hits of one pattern in one chunk, by row and by column."""

    def __init__(self, hits: Hits, chunk: Chunk, known: KnownHeads | None = None) -> None:
        self.pattern: Pattern = hits.pattern
        self.lines = hits.lines
        self.numbers = chunk.number(hits.lines)
        self.heads: dict[int, tuple[int | None, str | None]] = {}  # time and rank, by row, once read
        self.known = known
        self._hits, self._chunk, self._data = hits, chunk, chunk.data
        # where the prefixes start: what a carrier put before a line is part of them
        self._starts = positions(chunk)[0][hits.lines] if chunk.begins is not None else hits.starts
        self._fields: list[Field] = [*hits.values, *hits.texts]
        masks = [values.present for values in hits.values.values()]
        masks += [texts.present for texts in hits.texts.values()]
        self._stamps = next((texts for what, texts in hits.texts.items() if what.column == "time"), None)
        self._present = np.array(masks, dtype=np.bool_).reshape(len(masks), len(hits.lines))
        self._plans: dict[bytes, LinePlan] = {}  # by what is present

    def ordered(self, rows: Ints, known: KnownHeads) -> HitTable:
        """These rows in this order, with times and ranks that are known."""
        return HitTable(self._hits.take(rows), self._chunk, known)

    def breaks(self) -> npt.NDArray[np.bool_]:
        """Whether each row after the first printed other fields than the row before."""
        changed: npt.NDArray[np.bool_] = (self._present[:, 1:] != self._present[:, :-1]).any(axis=0)
        return changed

    def plan(self, row: int) -> LinePlan:
        present = self._present[:, row].tobytes()
        if present not in self._plans:
            fields = tuple(what for what, there in zip(self._fields, present, strict=True) if there)
            self._plans[present] = plan(self.pattern, fields)
        return self._plans[present]

    def shapes(self, rows: Ints) -> Iterator[tuple[LinePlan, Ints]]:
        """The given rows, grouped by shape."""
        while len(rows):
            alike = (self._present[:, rows] == self._present[:, rows[:1]]).all(axis=0)
            yield self.plan(int(rows[0])), rows[alike]
            rows = rows[~alike]

    def cells(self, shape: LinePlan, row: int) -> dict[str, float]:
        columns = (*shape.columns.items(), *shape.evals.items())
        return {
            name: self._hits.values[what].numbers.item(row) for name, what in columns if what.kind != "text"
        }

    def last_digits(self, shape: LinePlan, row: int) -> dict[str, float]:
        """What the last printed digit of each number of a line stands for, in the unit of its column."""
        start = int(self._hits.starts[row])
        digits = last_digits(line_at(self._data, start), self.pattern)
        return {name: digits[what] for name, what in shape.columns.items() if what in digits}

    def texts(self, shape: LinePlan, row: int) -> dict[str, str]:
        found = {name: self._hits.texts[what][row] for name, what in shape.texts.items()}
        return {name: text.decode(errors="replace") for name, text in found.items() if text is not None}

    def columns(self, shape: LinePlan, rows: slice | Ints) -> dict[str, npt.NDArray[np.float64]]:
        return {name: self._hits.values[what].numbers[rows] for name, what in shape.columns.items()}

    def evaluations(self, shape: LinePlan, rows: slice | Ints) -> dict[str, npt.NDArray[np.float64]]:
        return {name: self._hits.values[what].numbers[rows] for name, what in shape.evals.items()}

    @cached_property
    def has_heads(self) -> bool:
        return self.prefixed(0, len(self.lines)) or self.stamped(0, len(self.lines))

    def prefixed(self, first: int, end: int) -> bool:
        return bool((self.prefix_lengths(first, end) >= SHORTEST_PREFIX).any())

    def prefix_lengths(self, first: int, end: int) -> Ints:
        return self._hits.begins[first:end] - self._starts[first:end]

    def prefixes(self, rows: slice | Ints) -> Letters | None:
        """The prefixes of these records, one per column; None unless all have the same length."""
        return _letters(self._data, self._starts[rows], self._hits.begins[rows])

    def prefix(self, row: int) -> bytes:
        return self._data[int(self._starts[row]) : int(self._hits.begins[row])]

    def stamped(self, first: int, end: int) -> bool:
        """Whether one of these records has a timestamp among its own fields."""
        return self._stamps is not None and bool(self._stamps.present[first:end].any())

    def stamps(self, first: int, end: int) -> Letters | None:
        """The timestamps among the fields of these records, one per column, as in `prefixes`."""
        if self._stamps is None:
            return None
        return _letters(self._stamps.data, self._stamps.begins[first:end], self._stamps.ends[first:end])

    def stamp(self, row: int) -> bytes | None:
        return self._stamps[row] if self._stamps else None


def _letters(data: bytes, begins: Ints, ends: Ints) -> Letters | None:
    size = int(ends[0] - begins[0])
    if size <= 0 or (begins < 0).any() or (ends - begins != size).any():
        return None
    every: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    letters: Letters = every[begins].view(np.uint8).reshape(-1, size).T
    return letters


class HitRun(NamedTuple):
    """Rows of one pattern and one shape that follow each other in the file; `below` has the line below each."""

    table: HitTable
    shape: LinePlan
    first: int
    end: int
    below: HitRun | None = None

    def within(self, first: int, end: int) -> HitRun:
        if self.below is None:
            return self._replace(first=first, end=end)
        ahead = self.below.first - self.first
        return self._replace(first=first, end=end, below=self.below.within(first + ahead, end + ahead))


class Aside(NamedTuple):
    """Evaluations of one table and one shape inside a run; `before` is the row of the run that follows each."""

    table: HitTable
    shape: LinePlan
    rows: Ints
    before: Ints

    def within(self, first: int, end: int) -> Aside:
        """The evaluations before these rows of the run."""
        here = slice(*np.searchsorted(self.before, [first, end]).tolist())
        return self._replace(rows=self.rows[here], before=self.before[here])


def stretches(tables: Sequence[HitTable]) -> Iterator[tuple[HitRun, list[Aside]]]:
    """Runs in the order of their lines; evaluations do not interrupt a run of single lines, but come with it."""
    others = [table for table in tables if table.pattern.role != "eval"]
    in_pairs = line_pairs.may_be_pairs([(table.pattern, len(table.lines)) for table in others])
    if not others or len(others) == len(tables) or in_pairs or any(table.has_heads for table in tables):
        yield from ((run, []) for run in runs(tables, in_pairs=in_pairs))
        return
    whole = list(runs(others))
    firsts = np.array([run.table.lines[run.first] for run in whole])
    lasts = np.array([run.table.lines[run.end - 1] for run in whole])
    found = list(zip(firsts.tolist(), whole, strict=True))
    asides: dict[int, list[Aside]] = {}
    for table in (table for table in tables if table.pattern.role == "eval"):
        begins = np.searchsorted(table.lines, firsts, side="right").tolist()
        ends = np.searchsorted(table.lines, lasts).tolist()
        alone = np.ones(len(table.lines), dtype=np.bool_)
        for (first, run), begin, end in zip(found, begins, ends, strict=False):
            if begin < end:
                alone[begin:end] = False
                asides.setdefault(first, []).extend(_beside(run, table, np.arange(begin, end)))
        rows = np.flatnonzero(alone).tolist()
        found += [(int(table.lines[row]), HitRun(table, table.plan(row), row, row + 1)) for row in rows]
    for line, run in sorted(found, key=lambda pair: pair[0]):
        yield run, asides.get(line, [])


def _beside(run: HitRun, table: HitTable, rows: Ints) -> Iterator[Aside]:
    before = np.searchsorted(run.table.lines, table.lines[rows])
    for shape, some in table.shapes(rows):
        yield Aside(table, shape, some, before[some - rows[0]])


def runs(tables: Sequence[HitTable], *, in_pairs: bool = False) -> Iterator[HitRun]:
    """All rows of the tables as runs, in the order of their lines; `in_pairs`: two may make each record."""
    if not tables:
        return
    if len(tables) == 1:
        table = tables[0]
        firsts = [0, *(np.flatnonzero(table.breaks()) + 1).tolist()]
        for first, end in zip(firsts, [*firsts[1:], len(table.lines)], strict=True):
            yield HitRun(table, table.plan(first), first, end)
        return
    lines = _in_file_order(tables)
    begins = lines.breaks | np.append(True, lines.owners[1:] != lines.owners[:-1])
    paired = _paired(tables, lines) if in_pairs else {}
    for place, run in paired.items():
        length = 2 * (run.end - run.first)
        begins[place : place + length] = False
        begins[place::length][:2] = True
    firsts = np.flatnonzero(begins).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(begins)], strict=True):
        yield paired.get(first) or _run(tables, lines, first, end - first)


def _in_file_order(tables: Sequence[HitTable]) -> LineOrder:
    owners = np.concatenate([np.full(len(t.lines), i) for i, t in enumerate(tables)])
    rows = np.concatenate([np.arange(len(t.lines)) for t in tables])
    breaks = np.concatenate([np.concatenate([[True], t.breaks()]) for t in tables])
    numbers = np.concatenate([t.lines for t in tables])
    order = np.argsort(numbers, kind="stable")
    return LineOrder(numbers[order], owners[order], rows[order], breaks[order])


def _run(tables: Sequence[HitTable], lines: LineOrder, place: int, count: int) -> HitRun:
    table, row = tables[int(lines.owners[place])], int(lines.rows[place])
    return HitRun(table, table.plan(row), row, row + count)


def _paired(tables: Sequence[HitTable], lines: LineOrder) -> dict[int, HitRun]:
    """Runs of lines with a part right below each, by the place of their first line."""
    found = {}
    for place, count in line_pairs.pairs(lines, [table.pattern for table in tables]):
        above, below = (_run(tables, lines, place + at, count) for at in (0, 1))
        if line_pairs.only_adds(below.table.pattern, below.shape, above.shape):
            found[place] = above._replace(below=below)
    return found


class Heads:
    """Reads time and rank of rows; `stamps` counts the days that have passed."""

    def __init__(self) -> None:
        self.stamps = prefixes.Stamps()

    def time_and_rank(self, table: HitTable, row: int) -> tuple[int | None, str | None]:
        """Reads time and rank of one row, once."""
        if table.known:
            return table.known.head(row)
        if row not in table.heads:
            prefix, stamp = table.prefix(row), table.stamp(row)
            time, rank = (self.stamps.read(prefix), prefixes.rank(prefix)) if prefix else (None, None)
            table.heads[row] = ((self.stamps.read(stamp) if stamp else None) or time, rank)
        return table.heads[row]

    def times(self, table: HitTable, first: int, end: int, rank: str | None) -> Moments | None:
        """Times of these rows, empty if they have none; None if only some have one, or not all are of this rank."""
        if table.known:
            return table.known.times[first:end] if {*table.known.ranks[first:end]} == {rank} else None
        times = self._together(table, first, end, rank)
        if times is not None:
            return times
        heads = [self.time_and_rank(table, row) for row in range(first, end)]
        found = [time for time, _ in heads if time is not None]
        if {other for _, other in heads} != {rank} or len(found) not in (0, len(heads)):
            return None
        return np.array(found, dtype=np.int64)

    def _together(self, table: HitTable, first: int, end: int, rank: str | None) -> Moments | None:
        """Does what `times` does at once, where all prefixes differ only in digits."""
        stamped = table.stamped(first, end)
        if not table.prefixed(first, end):
            letters = table.stamps(first, end) if stamped and rank is None else None
        elif stamped:
            return None
        else:
            letters = table.prefixes(slice(first, end))
            if letters is not None and prefixes.rank_of_all(letters) != rank:
                return None
        return None if letters is None else self.stamps.read_together(letters)
