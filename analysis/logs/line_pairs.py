"""Where records are of two lines: a training line, and a part of the record right below it, time after time.

The first gives the step, the second further columns. Such lines would otherwise be runs of one line each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.line_kinds import PLACES, LinePlan
from gputel.analysis.logs.patterns import Pattern

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SHORTEST = 4  # pairs from which on they are taken together
MOSTLY = 0.9  # share of lines in pairs for which it is worth looking at evaluations one by one


class LineOrder(NamedTuple):
    """The lines of several tables in the order of the file."""

    numbers: Ints
    owners: Ints  # the tables
    rows: Ints  # of their tables
    breaks: Bools  # whether each prints other fields than the row above it in its table


def may_be_pairs(counts: Sequence[tuple[Pattern, int]]) -> bool:
    """Whether most lines may be in pairs, from how many each pattern has."""
    parts = sum(count for pattern, count in counts if pattern.role == "part")
    return 2 * parts >= MOSTLY * sum(count for _, count in counts) > 0


def pairs(order: LineOrder, patterns: Sequence[Pattern]) -> Iterator[tuple[int, int]]:
    """The place of the first line of pairs that follow each other, and how many there are."""
    numbers, owners, _, breaks = order
    begins, adds = (np.array([p.role == role for p in patterns])[owners] for role in ("train", "part"))
    firsts = np.flatnonzero(begins[:-1] & adds[1:] & (numbers[1:] == numbers[:-1] + 1))
    if not len(firsts):
        return
    above, below = firsts[:-1], firsts[1:]
    goes_on = below == above + 2
    for line in (0, 1):
        goes_on &= (owners[below + line] == owners[above + line]) & ~breaks[below + line]
    for begin, end in pairwise(np.flatnonzero(np.concatenate([[True], ~goes_on, [True]])).tolist()):
        if end - begin >= SHORTEST:
            yield int(firsts[begin]), end - begin


def only_adds(pattern: Pattern, part: LinePlan, record: LinePlan) -> bool:
    """Whether lines of the part give further figures of the record above and nothing else."""
    is_plain = not (part.evals or part.texts or pattern.stage or pattern.ends is not None)
    return is_plain and part.columns.keys().isdisjoint({*PLACES, *record.columns, *record.evals})
