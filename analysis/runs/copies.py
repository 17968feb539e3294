"""Which logs of a folder are other logs of one run: what it printed, its recording, the metrics that it wrote.

Two logs are of one run if every step of the shorter one is in the longer one with the same loss, as far as both
print it, no other figure that both print differs, and their places say so: one is a recording, or they lie in one
folder. The same training repeated has other times. Where neither prints a time, only equal names make them one run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from gputel.analysis import stores

if TYPE_CHECKING:
    import numpy.typing as npt

    from gputel.analysis.logs.log import Log

MOST_FILES = 3  # logs with records in the folder of one run
FEWEST = 3  # steps that both must have
MOST_COMPARED = 50  # logs with the same first loss that each log is compared with
MOST_DECIMALS = 22  # up to which a power of ten is exact
SAME = 4e-16  # relative difference of one number, rounded in two ways
CLOSE = 0.01  # difference of a figure that one log prints as 431k and another as 430,977
CLOCKS = ("dt_ms", "tok_per_sec", "total_time_min", "time")  # never the same in two runs


def find(logs: Sequence[Log]) -> dict[int, int]:
    """The index of each copy, with that of the log that is kept: a recording, else the one with most records."""
    curves = {at: _curve(log) for at, log in enumerate(logs)}
    first = {at: one for at, curve in curves.items() if (one := curve.first())}
    by_step = _by_step({at: curves[at] for at in first}, {step for step, _ in first.values()})
    worth = {at: _worth(logs[at]) for at in first}
    copies: dict[int, int] = {}
    beside = Counter(Path(logs[at].source).parent for at in first)
    for at in sorted(first, key=worth.__getitem__):
        for other in _near(by_step[first[at][0]], first[at][1]):
            is_kept = other not in copies and worth[other] >= worth[at]
            crowded = beside[Path(logs[at].source).parent] > MOST_FILES
            if other != at and is_kept and _is_copy(logs[at], logs[other], crowded=crowded):
                copies[at] = other
                break
    return {at: _root(at, copies) for at in sorted(copies)}


def _root(at: int, copies: dict[int, int]) -> int:
    while at in copies:
        at = copies[at]
    return at


def _worth(log: Log) -> tuple[bool, int, int, str]:
    return Path(log.source).is_dir(), log.records.height, len(log.records.columns), log.source


class _Curve(NamedTuple):
    """The steps of a log's records that have a loss, and that loss."""

    steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float64]

    def first(self) -> tuple[int, float] | None:
        """The first step that has a finite loss, and that loss; None for a log of few steps."""
        finite = np.flatnonzero(np.isfinite(self.losses))
        if len(finite) < FEWEST:
            return None
        return int(self.steps[finite[0]]), float(self.losses[finite[0]])

    def at(self, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, float]]:
        """The loss that is printed first at each of the wanted steps, which are sorted."""
        found = np.flatnonzero(wanted.take(np.searchsorted(wanted, self.steps), mode="clip") == self.steps)
        for step, row in zip(*np.unique(self.steps[found], return_index=True), strict=True):
            loss = float(self.losses[found[row]])
            if np.isfinite(loss):
                yield int(step), loss


def _curve(log: Log) -> _Curve:
    if "loss" not in log.records.columns:
        return _Curve(np.empty(0, dtype=np.int64), np.empty(0))
    rows = log.records.select("step", "loss").drop_nulls()
    return _Curve(rows["step"].to_numpy(), rows["loss"].to_numpy())


def _by_step(curves: dict[int, _Curve], steps: set[int]) -> dict[int, list[tuple[float, int]]]:
    """The losses at each of the steps, of every curve that has it, in ascending order, with the curve's index."""
    found: dict[int, list[tuple[float, int]]] = {step: [] for step in steps}
    wanted = np.array(sorted(steps), dtype=np.int64)
    for at, curve in curves.items():
        for step, loss in curve.at(wanted):
            found[step].append((loss, at))
    return {step: sorted(losses) for step, losses in found.items()}


def _near(losses: list[tuple[float, int]], loss: float) -> Iterator[int]:
    begin = bisect_left(losses, (loss - _rounding(loss), -1))
    for value, at in losses[begin : begin + MOST_COMPARED]:
        if value > loss + _rounding(loss):
            return
        yield at


def _rounding(value: float) -> float:
    """The most that rounding to two decimals, or to three digits, changes a value."""
    return max(0.005, abs(value) * 0.005) * 1.0001


def _is_copy(log: Log, other: Log, *, crowded: bool) -> bool:
    shorter, longer = sorted((log, other), key=lambda each: each.records.height)
    places = Path(shorter.source), Path(longer.source)
    if not _are_beside(*places, has_clock=True, crowded=crowded):
        return False
    rows, others = shorter.steps, longer.steps
    both = rows.join(others, on="step", how="inner", suffix=" of the other", maintain_order="left")
    if both.height < max(FEWEST, rows["step"].drop_nulls().n_unique()):
        return False
    compared = [name for name in shorter.metrics() if _count(both, name)]
    if "loss" not in compared or not all(_agrees(both, name) for name in compared):
        return False
    has_clock = any(_varies(both, name) for name in compared if name in CLOCKS)
    return _are_beside(*places, has_clock=has_clock, crowded=crowded)


def _are_beside(path: Path, other: Path, *, has_clock: bool, crowded: bool) -> bool:
    """Whether the places of two logs with the same losses say that they are of one run."""
    folders = path.is_dir() + other.is_dir()
    if folders:
        return folders == 1 and (has_clock or other.name in path.parts)
    if path.parent == other.parent and _unpacked(path) == _unpacked(other):
        return True
    if crowded or path.parent != other.parent:
        return False
    file, run = stores.split(path)
    if run is not None and file == stores.split(other)[0]:
        return False  # two runs of one database
    return path.name.partition(".")[0] == other.name.partition(".")[0] or has_clock


def _unpacked(path: Path) -> str:
    """The name without that of a compression: `train.log.gz` beside `train.log` is the same log in any folder."""
    return path.name.removesuffix(".gz").removesuffix(".zst")


def _varies(both: pl.DataFrame, name: str) -> bool:
    return bool(both[name].drop_nulls().n_unique() > both.height // 3)


def _count(both: pl.DataFrame, name: str) -> int:
    other = f"{name} of the other"
    is_number = both.schema[name].is_numeric() and other in both.columns and both.schema[other].is_numeric()
    return (
        both.select((pl.col(name).is_not_null() & pl.col(other).is_not_null()).sum()).item()
        if is_number
        else 0
    )


def _agrees(both: pl.DataFrame, name: str) -> bool:
    """Whether two columns are one: the loss to its last printed digit, other figures within 1 %."""
    pair = both.select(pl.col(name).alias("a"), pl.col(f"{name} of the other").alias("b")).drop_nulls()
    a, b = (pair[side].to_numpy().astype(np.float64) for side in ("a", "b"))
    finite = np.isfinite(a)
    if not (finite == np.isfinite(b)).all():
        return False
    a, b = a[finite], b[finite]
    last_place = 10.0 ** -min(_decimals(a), _decimals(b))
    rounding = 0.501 * last_place + (0 if name == "loss" else CLOSE * np.abs(a))
    return bool((np.abs(a - b) <= rounding).all())


def _decimals(values: npt.NDArray[np.float64]) -> int:
    """The decimals that a column is printed with: the most that any of its values needs."""
    places = range(MOST_DECIMALS)
    return next((place for place in places if _is_rounded(values, place)), MOST_DECIMALS)


def _is_rounded(values: npt.NDArray[np.float64], decimals: int) -> bool:
    return bool((np.abs(np.round(values, decimals) - values) <= SAME * np.abs(values)).all())
