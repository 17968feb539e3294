"""TagValues: a value of a tag at a step, which every store becomes first. StoredRun: all of them for one run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gputel.analysis import text

if TYPE_CHECKING:
    from gputel.analysis.logs.gpu_tables import Telemetry
    from gputel.analysis.logs.log import Provenance
    from gputel.analysis.logs.outcome import LogEvent, Status
    from gputel.analysis.logs.patterns import Reject

MOST = 2**62  # a larger number is no step
LATEST_S = 9e9  # since 1970; a later time is no moment of a run
MOST_LETTERS = 64  # letters of a cell that may be a number
DEEPEST = 8  # levels of a configuration


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
    telemetry: Telemetry | None = None  # GPU readings beside the values
    provenance: Provenance | None = None
    printed: bytes = b""  # the console output, of a run whose history has no values


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


def from_rows(rows: Iterable[tuple[int, int, Mapping[str, float]]]) -> TagValues:
    """Makes values of rows in the order in which they were written: step, time in ns, and a number per tag."""
    names: dict[str, int] = {}
    tag: list[int] = []
    step: list[int] = []
    time: list[int] = []
    value: list[float] = []
    for row_step, moment, numbers in rows:
        for name, number in numbers.items():
            tag.append(names.setdefault(name, len(names)))
            value.append(number)
        step += [row_step] * len(numbers)
        time += [moment] * len(numbers)
    values = _of_lists(list(names), tag, step, time, value)
    return replace(values, attempt=numbered(values))


def from_series(series: Mapping[str, Iterable[tuple[int, int, float]]]) -> TagValues:
    """Makes values of tags that were kept apart from each other: step, time in ns and number of each.

    Each tag counts its own attempts, since nothing says in which order values of two tags were written.
    """
    tag: list[int] = []
    step: list[int] = []
    time: list[int] = []
    value: list[float] = []
    attempt: list[int] = []
    for number, rows in enumerate(series.values()):
        count, last = 1, -(2**63)
        for row_step, moment, cell in rows:
            count += row_step < last
            last = row_step
            tag.append(number)
            step.append(row_step)
            time.append(moment)
            value.append(cell)
            attempt.append(count)
    values = _of_lists(list(series), tag, step, time, value)
    return replace(values, attempt=np.array(attempt, np.int64))


def _of_lists(
    names: list[str], tag: list[int], step: list[int], time: list[int], value: list[float]
) -> TagValues:
    steps, times = (
        np.array([each if abs(each) < MOST else MOST for each in several], np.int64)
        for several in (step, time)
    )
    ones = np.ones(len(tag), np.int64)
    return TagValues(names, np.array(tag, np.int64), steps, times, np.array(value, np.float64), ones)


def number(cell: object) -> float | None:
    """Reads a number, also one that JSON can only write as a text; None of anything else."""
    if isinstance(cell, (bool, int, float)):
        try:
            return float(cell)
        except OverflowError:
            return None
    if isinstance(cell, str) and cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(cell)
    return None


def moment_ns(seconds: float | None) -> int:
    """A moment in ns since 1970, to the microsecond; 0 of one that no run has."""
    return int(seconds * 1e6) * 1000 if seconds is not None and 0 < seconds < LATEST_S else 0


def cell_number(cell: str) -> float | None:
    """Reads the number in a cell of a CSV; None of anything else, also of `1_000`."""
    try:
        return float(cell) if len(cell) < MOST_LETTERS and "_" not in cell else None
    except ValueError:
        return None


def whole(cell: object) -> int | None:
    """Reads a step; None of anything that is no whole number."""
    value = number(cell)
    return int(value) if value is not None and math.isfinite(value) and value == int(value) else None


def setting(cell: object) -> float | str | None:
    """Reads a value of a configuration: numbers as numbers, also where they were kept as text."""
    if cell is None or isinstance(cell, (dict, list)):
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, (int, float)):
        return number(cell)
    words = str(cell).strip()
    return float(words) if text.NUMERIC.fullmatch(words) else words


def settings(nested: Mapping[str, object], prefix: str = "") -> dict[str, float | str]:
    """Flattens a configuration: `{"optimizer": {"lr": 1}}` is `optimizer.lr`."""
    flat: dict[str, float | str] = {}
    for name, cell in nested.items():
        if isinstance(cell, Mapping) and prefix.count(".") < DEEPEST:
            flat |= settings(cell, f"{prefix}{name}.")
        elif (read := setting(cell)) is not None:
            flat[f"{prefix}{name}"] = read
    return flat
