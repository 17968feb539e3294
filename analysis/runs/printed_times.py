"""A log's records -> which printed step times hold more than a step, and the time of a step alone near each.

Many logs time a step together with the evaluation or checkpoint before it. Such a time is long, as long as most
records have none before them: those tell how much steps scatter. A log that evaluates before nearly every record
has hardly another time: then the few records without a pause tell a step, else timestamps do, and without both
nothing does.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.logs.attempts import PLACE

AROUND = 51  # records, over which the usual step time is the median
LONG = 1.5  # times the usual step time: an evaluation or a checkpoint is part of it, whatever the scatter
LONGER = 1.05  # times the usual: something else may be part of it
FAR = 6.0  # standard deviations of a step
ENOUGH = 4  # records without a pause that tell what a step takes, and how much steps scatter


class LogLines(Protocol):
    """The tables of a log whose lines may stand between two records; without stamps, times tell nothing of them."""

    @property
    def stamped(self) -> bool: ...
    @property
    def evals(self) -> pl.DataFrame: ...
    @property
    def events(self) -> pl.DataFrame: ...


def usual_near(times: pl.Expr, fewest: int = 1) -> pl.Expr:
    """Returns the usual step time near each record: the median of the records around it, null of too few."""
    return times.rolling_median(AROUND, min_samples=fewest, center=True)


def long_dt(records: pl.DataFrame, log: LogLines, usual: pl.Series) -> pl.Series:
    """Marks printed step times that are longer than the scatter of the steps, and their rounding, explains.

    `usual` is that of `usual_dt`; null where it is.
    """
    alone = ~_between(records, np.concatenate(_pauses(log)))
    return records.select(_longer(pl.col("dt_ms"), pl.lit(usual), alone)).to_series()


def _longer(dt: pl.Expr, usual: pl.Expr, alone: pl.Series) -> pl.Expr:
    """Like `long_dt`: a scatter that counted pauses within step times would hide them."""
    share = dt / usual
    steps = share.filter(alone) if alone.sum() >= ENOUGH else share
    deviation = (steps.quantile(0.75) - steps.quantile(0.25)) / 1.349
    return share > 1 + (FAR * deviation).clip(LONGER - 1, LONG - 1)


def usual_dt(records: pl.DataFrame, log: LogLines) -> pl.Series:
    """Returns the printed time of a step alone near each record, in ms; null where nothing tells it.

    `records` have printed times, in the order of their lines.
    """
    pauses = _pauses(log)
    paused = _between(records, np.concatenate(pauses))
    if not _mostly_paused(records, paused):
        return _usual_of_most(records, paused)
    known = pl.col("dt_ms").is_finite()
    first = pl.int_range(pl.len()).over(PLACE) == 0  # may have been compiled
    alone: Any = records.filter(known & ~first & ~paused)["dt_ms"].median()
    behind: Any = records.filter(known & paused)["dt_ms"].median()
    if alone is None:
        alone = behind if _without_pause(records, log, paused, behind) else None
    elif behind is not None and behind <= LONGER * alone:
        return _usual_of_most(records, paused)
    return pl.repeat(alone, records.height, dtype=pl.Float64, eager=True)


def _usual_of_most(records: pl.DataFrame, paused: pl.Series) -> pl.Series:
    """Returns the median near each record; those that are long, or the first of an attempt, do not count.

    Nor do those that are `paused`, where enough are not.
    """
    dt, alone = pl.col("dt_ms"), ~paused
    near = records.select(usual_near(dt)).to_series()  # dear: none is made twice
    is_long, is_later = _longer(dt, pl.lit(near), alone), pl.int_range(pl.len()).over(PLACE) > 0
    rows = records.select(alone=alone, steady=pl.when(~is_long & is_later).then(dt))
    steady = pl.col("steady")
    steps = rows.select(usual_near(pl.when("alone").then(steady), ENOUGH)).to_series()
    if not steps.null_count():
        return steps
    return rows.select(pl.coalesce(steps, usual_near(steady), near)).to_series()


def contains_others(records: pl.DataFrame, log: LogLines) -> pl.Series:
    """Marks records whose step time contains, or may contain, the evaluation or checkpoint printed before them.

    Marks none behind evaluations if most records behind one are not long: then the printed time leaves them out.
    The same holds of checkpoints.
    """
    if "dt_ms" not in records.columns or "line" not in records.columns or records.is_empty():
        return pl.repeat(False, records.height, eager=True)
    marked = pl.repeat(False, records.height, eager=True)
    pauses = [np.unique(others) for others in _pauses(log) if len(others)]
    if not pauses:
        return marked
    usual = usual_dt(records, log)
    is_long = (long_dt(records, log, usual) | usual.is_null()).fill_null(False)
    for others in pauses:
        behind = _behind(records["line"].to_numpy(), others)
        if 2 * (is_long & behind).sum() > behind.sum():
            marked = marked | (is_long & behind)
    return marked


def seconds_by_dt(records: pl.DataFrame, log: LogLines, steps: pl.Series) -> pl.Series | None:
    """Returns the seconds of all steps that each record covers, by the printed time of the last of them.

    A printed time above the usual, as of a step that contains an evaluation, says nothing of the others. None where
    nothing tells the others.
    """
    usual = usual_dt(records, log)
    if usual.null_count() == len(usual) and (steps > 1).any():
        return None
    dt, covered, is_long = pl.col("dt_ms").clip(0) / 1000, pl.lit(steps), long_dt(records, log, usual)
    others = pl.when(is_long).then(pl.lit(usual / 1000)).otherwise(dt)
    more = pl.when(covered > 1).then((covered - 1) * others).otherwise(0.0)
    return records.select(dt * (covered > 0) + more).to_series()


def _pauses(log: LogLines) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The lines of evaluations, and those of checkpoints."""
    return log.evals["line"].to_numpy(), _saves(log)["line"].to_numpy()


def _saves(log: LogLines) -> pl.DataFrame:
    return log.events.filter(pl.col("kind") == "checkpoint")


def _mostly_paused(records: pl.DataFrame, paused: pl.Series) -> bool:
    """Whether most records have a pause before them; the pause is in one of their steps."""
    stride = _stride(records)
    return bool(2 * paused.sum() > records.height) and stride is not None and stride >= 1


def _stride(records: pl.DataFrame) -> float | None:
    strides = records.select(pl.col("step").diff().over(PLACE)).to_series()
    stride: Any = strides.filter(strides > 0).median()
    return None if stride is None else float(stride)


def _without_pause(records: pl.DataFrame, log: LogLines, paused: pl.Series, behind: float | None) -> bool:
    """Whether the printed times of records that all have a pause before them leave it out.

    Of every step printed, so do those that are as long as the first, which has no pause before it, and is seldom
    shorter than others. Else timestamps tell.
    """
    stride = _stride(records) or 1.0
    if stride > 1:
        return _fits_between_stamps(records.filter(paused))
    first: Any = records.filter(~paused & pl.col("dt_ms").is_finite())["dt_ms"].max()
    if None not in (first, behind) and max(first, behind) <= LONGER * min(first, behind):
        return True
    return log.stamped and _fits_behind_pause(records, log, paused)


def _fits_behind_pause(records: pl.DataFrame, log: LogLines, paused: pl.Series) -> bool:
    """Whether all steps, each as long as printed, fit behind the pauses, or beside them.

    A pause in them would leave no time between two records beyond what is printed. Looks at one kind of pause: an
    evaluation may be in the printed time, and a save not.
    """
    evals, saves = (
        _between(records, frame["line"].to_numpy()).alias(name)
        for name, frame in (("evals", log.evals), ("saves", _saves(log)))
    )
    alone = (evals & ~saves) if evals.sum() > saves.sum() else (saves & ~evals)
    pauses = pl.concat([log.evals.select("line", "time"), _saves(log).select("line", "time")]).sort("line")
    rows = records.with_columns(
        passed=pl.col("time").diff().over(PLACE), behind=alone if alone.any() else paused
    ).sort("line")
    rows = rows.join_asof(pauses.rename({"time": "other"}), on="line").filter("behind")
    known = rows.filter(pl.all_horizontal(pl.col("passed", "other", "dt_ms").is_not_null()))
    printed, passed, room = known.select(
        pl.col("dt_ms").sum(),
        pl.col("passed").dt.total_nanoseconds().sum() / 1e6,
        (pl.col("time") - pl.col("other")).dt.total_nanoseconds().sum() / 1e6,
    ).row(0)
    return bool(printed > 0 and (printed * LONGER <= passed or printed <= LONGER * room))


def _fits_between_stamps(paused: pl.DataFrame) -> bool:
    """Whether the steps of most records, each as long as printed, fit into the time between two of them."""
    passed = pl.col("time").diff().over(PLACE).dt.total_nanoseconds() / 1e6
    room: Any = (
        paused.select(pl.col("step").diff().over(PLACE) * pl.col("dt_ms") / passed).to_series().median()
    )
    return room is not None and bool(room <= LONGER)


def _between(records: pl.DataFrame, others: npt.NDArray[np.int64]) -> pl.Series:
    """Marks records with one of the other lines between them and the record before, on neither line."""
    lines, others = records["line"].to_numpy(), np.unique(others)
    before = np.searchsorted(others, np.append(-1, lines[:-1]), side="right")
    return pl.Series(np.searchsorted(others, lines) > before, dtype=pl.Boolean)


def _behind(lines: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> pl.Series:
    """Marks the lines with one of the others between them and the line before, or on that line."""
    return pl.Series(np.searchsorted(others, lines) > np.searchsorted(others, np.append(-1, lines[:-1])))
