"""The first line of each kind that was read, with what it became: whoever looks sees what was taken for what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from gputel.analysis import text
from gputel.analysis.logs.lines import Chunk, line_at
from gputel.analysis.logs.patterns import EVALUATIONS, MEASURES, EngineResult, Hits, Pattern, Role
from gputel.analysis.logs.signs import shortened

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

LOOKED_AT = 50  # lines of a pattern, of which the fullest stands for it
PART = "part of a record"
_HEADINGS: tuple[Role, ...] = ("epoch", "header")
_SHOWN = (*MEASURES, *_HEADINGS)
_PLACES = ("after", "step", "epoch")
_ASIDE = ("phase", "attempt", "line", "time", "rank")
Row = Mapping[str, Any]


class FirstLine(NamedTuple):
    """A line that a pattern reads, and its figures by their columns."""

    number: int
    text: str
    role: Role
    figures: dict[str, float]


class ReadKind(NamedTuple):
    """Lines that one pattern reads: one of the first, how many there are, and what that one gave.

    `figures` of a record or an evaluation are those of its row, whatever lines gave them.
    """

    text: str
    lines: int
    line: int
    read_as: str
    figures: dict[str, float]

    @property
    def is_part(self) -> bool:
        """Whether its figures stand in the row of another line."""
        return self.read_as == PART

    def given(self, most: int | None = None) -> str:
        """Formats `step 20, loss 2.31, and 3 more`: the digits that were printed, but for zeros at the end.

        An evaluation that stands between two records is `after step 20, step 30`.
        """
        left = dict(self.figures)
        after, step = left.pop("after", None), left.pop("step", None)
        places = [] if step is None else [f"step {text.step(step)}"]
        if after is not None and step is not None and step - after > 1:
            places.insert(0, f"after step {text.step(after)}")
        figures = [*places, *(f"{name} {value:.10g}" for name, value in left.items())]
        more = 0 if most is None else len(figures) - most
        return ", ".join([*figures[:most], f"and {more} more"] if more > 0 else figures) or "no figure"


class FirstLines:
    """Keeps a line of each pattern, of its first ones that with the most figures, and counts the others."""

    def __init__(self) -> None:
        self._lines: dict[Pattern, FirstLine] = {}
        self._counts: Counter[Pattern] = Counter()

    def see(self, reading: EngineResult, chunk: Chunk) -> None:
        for hits in reading.hits:
            if hits.pattern.role in _SHOWN:
                if hits.pattern not in self._lines:
                    self._lines[hits.pattern] = _fullest(hits, chunk)
                self._counts[hits.pattern] += len(hits.lines)

    def found(self) -> tuple[tuple[FirstLine, int], ...]:
        """The lines, in the order of the file, and how many each stands for."""
        kinds = ((line, self._counts[pattern]) for pattern, line in self._lines.items())
        return tuple(sorted(kinds, key=lambda kind: kind[0].number))


def _fullest(hits: Hits, chunk: Chunk) -> FirstLine:
    few = hits.take(slice(LOOKED_AT))
    counts = sum((each.present for each in few.values.values()), start=few.lines * 0)
    row = int(counts.argmax())
    figures = {
        what.column: float(each.numbers[row]) for what, each in few.values.items() if each.present[row]
    }
    line = line_at(chunk.data, int(few.starts[row]))
    return FirstLine(int(chunk.number(few.lines[[row]])[0]), shortened(line), hits.pattern.role, figures)


def kinds(log: ParsedRows, lines: Sequence[tuple[FirstLine, int]]) -> tuple[ReadKind, ...]:
    """What was read, by kind of line, in the order of the file."""
    numbers = [line.number for line, _ in lines]
    records, evals = (_at(numbers, *frames) for frames in ((log.partials, log.records), (log.evals,)))
    return tuple(
        ReadKind(line.text, count, line.number, *_became(line, records[line.number], evals[line.number]))
        for line, count in lines
    )


def _at(numbers: Sequence[int], *frames: pl.DataFrame) -> defaultdict[int, list[Row]]:
    """The rows of these lines, by line."""
    rows = defaultdict[int, list[Row]](list)
    places = [float(number) for number in numbers]  # what a training sends stands between lines
    for frame in frames:
        for row in frame.filter(pl.col("line").cast(pl.Float64).is_in(places)).iter_rows(named=True):
            rows[row["line"]].append(row)
    return rows


def _became(line: FirstLine, records: Sequence[Row], evals: Sequence[Row]) -> tuple[str, dict[str, float]]:
    """What a line was read as, and the figures of its row or rows.

    A redraw shows others than its record, which holds those of the last: the line's own stand here.
    """
    if line.role in _HEADINGS:
        return "heading", line.figures
    record = _nearest(line, records)
    evals = _of_one_place(line, evals, record)
    evaluated = {row["name"]: row["value"] for row in evals}
    if record:
        given = {**_measured(record), **evaluated}
        own = {name: value for name, value in line.figures.items() if name in given and name not in _PLACES}
        return "record and evaluation" if evals else "record", given | own
    if evals:
        return "evaluation", {**_measured({name: evals[0].get(name) for name in _PLACES}), **evaluated}
    return "no row" if line.role in EVALUATIONS else PART, line.figures


def _nearest(line: FirstLine, records: Sequence[Row]) -> Row | None:
    """The record that has most of the line's figures: all of a notebook may stand on one line of its file."""
    same = [sum(row.get(name) == value for name, value in line.figures.items()) for row in records]
    return records[same.index(max(same))] if records else None


def _of_one_place(line: FirstLine, evals: Sequence[Row], record: Row | None) -> Sequence[Row]:
    """The evaluations at the record's step, or else at that of the first that has a figure of the line."""
    if len({row["step"] for row in evals}) < 2:
        return evals
    figures = {*line.figures.values()}
    known = record or next((row for row in evals if row["value"] in figures), evals[0])
    return [row for row in evals if row["step"] == known.get("step")]


def _measured(row: Row) -> dict[str, float]:
    """The figures of a row, its step and epoch first."""
    given = {name: value for name, value in row.items() if name not in _ASIDE and value is not None}
    place = {name: given[name] for name in _PLACES if name in given}
    return place | {name: value for name, value in given.items() if isinstance(value, (int, float))}
