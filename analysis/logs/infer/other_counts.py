"""A line with another count than the records: as records, both on one axis would be wrong."""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import integers
from gputel.analysis.logs.infer.shapes import KEPT_ROWS


def counts_otherwise(line: Candidate, main: Candidate) -> bool:
    """Whether it has steps beside more frequent records of epochs, or a rate that counts updates between batches.

    A line and records that name the epoch share one axis.
    """
    of_epochs = main.place is not None and main.place.column == "epoch" and main.loses
    return (of_epochs and line.is_fine and line.evidence and "epoch" not in line.columns) or _is_behind(
        line, main
    )


def numbers_rows(line: Candidate, main: Candidate) -> bool:
    """Whether it is a row of a list, `1. lr=0.1: acc 0.5`, `Test on task 2: acc 0.5`, between two records.

    Boosters count so as well, in brackets: `[10] valid_0's auc: 0.71`.
    """
    if line.role != "eval" or main.place is None or not (line.place and line.place.guessed):
        return False
    if (
        line.shape.first < main.shape.first
        or line.shape.words[0].strip() == b"["
        or "total_steps" in line.columns
    ):
        return False
    rows = integers(line.shape.column(line.place.at)) or []
    within = [bisect(main.shape.lines, number) for number in line.shape.lines]
    rising = [
        a == b for (a, b), (row, later) in zip(pairwise(within), pairwise(rows), strict=False) if later > row
    ]
    return bool(rising) and all(rising)


def _is_behind(line: Candidate, main: Candidate) -> bool:
    """Whether it gives no loss, and each time a smaller step than the record above it had, where records go on."""
    own = (integers(line.shape.column(line.place.at)) if line.place else None) or []
    steps = (integers(main.shape.column(main.place.at)) if main.place else None) or []
    if line.loses or not own or not steps:
        return False
    numbers = main.shape.lines[:KEPT_ROWS]
    rows = [(step, bisect(numbers, number)) for step, number in zip(own, line.shape.lines, strict=True)]
    between = [(step, steps[at - 1], steps[at]) for step, at in rows if 0 < at < len(numbers)]
    behind = [step < above for step, above, below in between if above < below]
    return len(behind) > 1 and all(behind)
