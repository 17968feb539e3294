"""TagValues: what every store becomes first, a value of a tag at a step each. StoredRun: those of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gputel.analysis.logs.outcome import LogEvent, Status
    from gputel.analysis.logs.patterns import Reject

UNKNOWN_TIME = 0


@dataclass(frozen=True)
class TagValues:
    """Values in the order in which they were written. `tag` is an index into `tags`; a time of 0 is unknown."""

    tags: Sequence[str]
    tag: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]  # nanoseconds since 1970
    value: npt.NDArray[np.float64]
    attempt: npt.NDArray[np.int64]  # from 1

    def __len__(self) -> int:
        return len(self.tag)

    def only(self, keep: npt.NDArray[np.bool_]) -> TagValues:
        """Returns the points that are chosen by a mask."""
        rows = (self.tag[keep], self.step[keep], self.time[keep], self.value[keep], self.attempt[keep])
        return TagValues(self.tags, *rows)


@dataclass(frozen=True)
class StoredRun:
    """One run of a store, as its reader hands it over."""

    name: str
    source: str
    format: str
    points: TagValues
    config: dict[str, float | str] = field(default_factory=dict)
    summary: dict[str, float | str] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    resumes: dict[int, str] = field(default_factory=dict)  # attempt -> why it began, where the store says it
    status: Status = "unknown"
    cause: LogEvent | None = None
    live: bool = False
    fault: str | None = None
    started: int | None = None
    ended: int | None = None
    notes: tuple[str, ...] = ()  # what was counted and left aside


def no_points() -> TagValues:
    whole, numbers = np.zeros(0, np.int64), np.zeros(0, np.float64)
    return TagValues((), whole, whole, whole, numbers, whole)


def joined(several: Sequence[TagValues]) -> TagValues:
    """Joins points whose tags may have the same names, in the order given."""
    if len(several) == 1:
        return several[0]
    names = list(dict.fromkeys(tag for points in several for tag in points.tags))
    number = {name: at for at, name in enumerate(names)}
    tags = [np.array([number[tag] for tag in points.tags] or [0], np.int64)[points.tag] for points in several]
    return TagValues(
        names,
        np.concatenate([np.zeros(0, np.int64), *tags]),
        np.concatenate([np.zeros(0, np.int64), *(points.step for points in several)]),
        np.concatenate([np.zeros(0, np.int64), *(points.time for points in several)]),
        np.concatenate([np.zeros(0, np.float64), *(points.value for points in several)]),
        np.concatenate([np.zeros(0, np.int64), *(points.attempt for points in several)]),
    )


def numbered(points: TagValues, begins: Sequence[int] = ()) -> npt.NDArray[np.int64]:
    """Returns the attempt of each point: one begins at each index in `begins`, and where the steps of a tag fall.

    All tags fall at a restart, one after the other: a fall begins an attempt only where its tag has a point since
    the last one began.
    """
    order = np.argsort(points.tag, kind="stable")
    same = points.tag[order][1:] == points.tag[order][:-1]
    falls = np.flatnonzero(same & (points.step[order][1:] < points.step[order][:-1])) + 1
    before = dict(zip(order[falls].tolist(), order[falls - 1].tolist(), strict=True))
    stated = set(begins)
    attempt, edges, last = 1, [0], 0
    for at in sorted({*before, *stated}):
        if at in stated or before[at] >= last:
            attempt, last = attempt + (at > 0), at
            edges += [at] if at > 0 else []
    numbers = np.zeros(len(points), np.int64)
    numbers[np.array(edges, np.int64)[np.array(edges) < len(points)]] = 1
    return np.cumsum(numbers)
