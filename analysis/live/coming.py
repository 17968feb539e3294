"""What comes next in a run, with its date: the next checkpoint, evaluation and epoch border, and the end.

Nothing is assumed of what a training does every so many steps: it is told by what the log has printed so far, and
twice at least. What is overdue is not foretold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputel.analysis.live.story import Story


@dataclass(frozen=True)
class Coming:
    """`kind` is checkpoint, eval, epoch or end; `at` is None where nobody knows how long a step takes."""

    kind: str
    step: int
    at: datetime | None


def coming(
    story: Story, total: int | None, seconds_a_step: float | None, now: datetime, eta_s: float | None
) -> list[Coming]:
    """In the order in which it will be."""
    if story.step is None:
        return []
    evals = max((curve for curve in story.evals.values()), key=len, default=None)
    steps = {
        "checkpoint": _next(sorted(story.saves), story.step),
        "eval": _next([round(step) for step in evals.points().step.tolist()[-3:]], story.step)
        if evals
        else None,
        "epoch": _border(story),
    }
    found = [
        (kind, step) for kind, step in steps.items() if step is not None and (total is None or step <= total)
    ]

    def date(step: int) -> datetime | None:
        left = (step - (story.step or 0)) * seconds_a_step if seconds_a_step is not None else None
        return None if left is None else now + timedelta(seconds=left)

    dated = [Coming(kind, step, date(step)) for kind, step in found]
    if total is not None and total > story.step:
        dated.append(Coming("end", total, date(total) if eta_s is None else now + timedelta(seconds=eta_s)))
    return sorted(dated, key=lambda one: one.step)


def _next(steps: Sequence[int], here: int) -> int | None:
    """What the last two were apart, from the last one on."""
    if len(steps) < 2 or steps[-1] <= steps[-2]:
        return None
    every = steps[-1] - steps[-2]
    expected = steps[-1] + every
    return expected if expected > here else None


def _border(story: Story) -> int | None:
    """The step at which the epoch that is running ends."""
    borders = list(story.borders)
    if story.epoch is None or len(borders) < 2:
        return None
    if any(not epoch.is_integer() for epoch, _ in borders):
        (first, begun), (last, here) = borders[0], borders[-1]
        if last <= first:
            return None
        return here + round((floor(last) + 1 - last) * (here - begun) / (last - first))
    lengths = [(later - step) for (_, step), (_, later) in pairwise(borders)]
    if len(lengths) < 2 or lengths[-1] <= 0:
        return None
    expected = borders[-1][1] + lengths[-1]
    return expected if expected > (story.step or 0) else None
