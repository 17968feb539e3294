"""Records of one place, on whose lines a number counts that was not read: it is the step.

So `[3 : 1200] loss 2.5` would be, were the first number taken for the step of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.doubts import Doubt, about_reading
from gputel.analysis.logs import line_figures
from gputel.analysis.logs.line_prefixes import strip_prefixes
from gputel.analysis.logs.parsed_rows import are_in
from gputel.analysis.logs.patterns import lazy_regex

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

FEWEST = 10  # lines that show what counts
ALIKE = 0.5  # share of the records that have the place of the one before
_NUMBER = lazy_regex(rb"(?<![\w./])\d+(?![\w.%]|\s?/\s?\d)")  # and no part of a total, as samples are
# what counts in turn within one step, and words of time
_OTHER = lazy_regex(
    rb"(?i)(?:class|label|category|layer|head|channel|rank|gpu|device|worker|client|fold|seed|time|took|elapsed|eta)\W*$"
)


def unread(log: ParsedRows) -> Iterator[Doubt]:
    """A number that rises from record to record while their step and epoch stay."""
    rows = log.records
    place = [name for name in ("phase", "attempt", "step", "epoch") if name in rows.columns]
    if rows.height < FEWEST or not rows["step"].count() or rows["rank"].count():
        return
    stays = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in place)
    staying = rows.filter(stays)
    if staying.height < ALIKE * rows.height:
        return
    taken = log.unread.taken
    kinds = line_figures.alike(
        line for line, is_in in zip(taken, are_in(taken, staying), strict=True) if is_in
    )
    lines = max(kinds, key=len, default=[])
    counted = _counters([line.line for line in lines])
    counts = next((values for values in counted if not _is_read(rows, lines[0].number, values[0])), None)
    if counts:
        first, second, third = counts[:3]
        yield about_reading(
            "unread-counter",
            f"{staying.height:,} of {rows.height:,} records have the step of the one before, and a number on their "
            f"lines counts {first:,}, {second:,}, {third:,}",
            "that is the step, and another figure was read as it",
            {"records": rows.height, "alike": staying.height, "first": first},
            lines[0].number,
        )


def _counters(lines: Sequence[bytes]) -> Iterator[list[int]]:
    """The columns of whole numbers that rise from line to line; few begin again."""
    if len(lines) < FEWEST:
        return
    bare = strip_prefixes(list(lines))
    columns = zip(*([*_NUMBER.finditer(line)] for line in bare), strict=False)
    for column in columns:
        values = [int(number[0]) for number in column]
        rises = sum(b > a for a, b in pairwise(values))
        before = column[0].string[: column[0].start()]
        if rises >= 0.9 * (len(values) - 1) and not _OTHER.search(before):
            yield values


def _is_read(rows: pl.DataFrame, line: int, value: int) -> bool:
    (row,) = rows.filter(pl.col("line") == line).head(1).rows(named=True)
    return any(cell == value for name, cell in row.items() if name != "line")
