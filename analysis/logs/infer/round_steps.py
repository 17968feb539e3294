"""Evaluations that name no step: of the record above them, or of the one below?

A training evaluates at round steps. If it prints the record of step 500 first, and the evaluation between the
records of 500 and 510, all steps above the evaluations are multiples of 500, and those below them are not.
"""

from __future__ import annotations

from bisect import bisect
from math import gcd

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import integers
from gputel.analysis.logs.infer.shapes import KEPT_ROWS

_FEWEST = 3  # evaluations at different steps
_ROUNDER = 2  # times


def stands_below(line: Candidate, main: Candidate) -> bool:
    """Whether an evaluation takes its step from the record above it; the first one must not stand above all."""
    places = {"step", "iteration", "batch", "index", "epoch", "count"}
    counts = main.place is not None and main.place.column in ("step", "iteration")
    if line.role != "eval" or not counts or places.intersection(line.columns):
        return False
    beside = _steps_beside(line, main)
    above, below = ({pair[side] for pair in beside} for side in (0, 1))
    return len(above) >= _FEWEST and gcd(*above) >= _ROUNDER * gcd(*below)


def _steps_beside(line: Candidate, main: Candidate) -> list[tuple[int, int]]:
    """The steps of the records above and below each evaluation between them; none if one stands above all."""
    steps = (integers(main.shape.column(main.place.at)) if main.place else None) or []
    numbers = main.shape.lines[:KEPT_ROWS]
    if not steps or line.shape.first < numbers[0]:
        return []
    rows = [bisect(numbers, number) for number in line.shape.lines]
    beside = [(steps[row - 1], steps[row]) for row in rows if row < len(numbers)]
    return [(above, below) for above, below in beside if above < below]
