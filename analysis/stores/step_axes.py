"""Tags of one store that count different things as their step, such as batches and epochs -> a phase for each.

Two counts are told apart where one goes at least five times as far, and the other is written at moments that do not
fit it: epoch 9 is not written when batch 9 is. Where moments are unknown, neither count has all steps of the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.log import DEFAULT_PHASE
from gputel.analysis.stores.points import TagValues

TIMES = 5  # as far, from which on two counts may differ
FEWEST = 3  # values of a tag
FAR = 0.5  # share of the whole time, by which a moment does not fit
EPOCHS, OTHERS = "epochs", "other-steps"


class StepAxis(NamedTuple):
    """The values that share one count of steps."""

    phase: str
    points: TagValues


def step_axes(points: TagValues) -> tuple[list[StepAxis], tuple[str, ...]]:
    """Splits values by their count of steps, the longest count first; a sentence says so where there are two."""
    order = np.argsort(points.tag, kind="stable")
    edges = np.searchsorted(points.tag[order], np.arange(len(points.tags) + 1))
    of_tag = [order[start:end] for start, end in pairwise(edges)]
    usable = [at for at, rows in enumerate(of_tag) if len(rows) >= FEWEST]
    if len(usable) < 2:
        return [StepAxis(DEFAULT_PHASE, points)], ()
    longest = max(usable, key=lambda at: int(points.step[of_tag[at]].max()))
    clock = _Clock(points, of_tag[longest])
    others = [at for at in usable if at != longest and clock.is_another(points, of_tag[at])]
    if not others:
        return [StepAxis(DEFAULT_PHASE, points)], ()
    is_other = np.isin(points.tag, others)
    names = [points.tags[at] for at in others]
    phase = EPOCHS if any("epoch" in name.lower() for name in names) else OTHERS
    far, near = (int(points.step[rows].max()) for rows in (of_tag[longest], of_tag[others[0]]))
    note = (
        f"the steps of {', '.join(names[:3])} go to {near:,} and those of {points.tags[longest]} to {far:,}: "
        f"they count different things, and the former are the phase {phase}"
    )
    return [StepAxis(DEFAULT_PHASE, points.only(~is_other)), StepAxis(phase, points.only(is_other))], (note,)


class _Clock:
    """The times at which the tag that counts farthest reached its steps."""

    def __init__(self, points: TagValues, rows: npt.NDArray[np.int64]) -> None:
        self._steps, last = np.unique(points.step[rows][::-1], return_index=True)
        self._times = points.time[rows][::-1][last]
        self._duration = float(self._times.max() - self._times.min())
        self._has_times = bool((self._times > 0).all()) and self._duration > 0

    def is_another(self, points: TagValues, rows: npt.NDArray[np.int64]) -> bool:
        """Whether a tag counts something else."""
        steps, times = points.step[rows], points.time[rows]
        last = int(np.argmax(steps))
        if int(self._steps[-1]) < TIMES * max(int(steps[last]), 1):
            return False
        if self._has_times and (times > 0).all():
            expected = np.interp(float(steps[last]), self._steps, self._times - self._times[0])
            return bool(abs(float(times[last] - self._times[0]) - expected) > FAR * self._duration)
        return not (np.isin(steps, self._steps).all() or np.isin(self._steps, steps).all())
