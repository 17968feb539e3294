"""Spans and steps -> the error of each time, and of each energy, that is stated beside it: 90 % ranges.

A span has two timestamps, and its border with the training lies where a step is thought to begin. Power is late:
its sensor refreshes now and then, and many readings are means of the last second. So every border between two
levels of power moves energy from one kind to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align.join import JOULES, WHOLE
from gputel.analysis.align.spans import PRINTED, last_save
from gputel.analysis.align.step_time import SURE, StepTime
from gputel.analysis.runs.printed_times import contains_others
from gputel.analysis.runs.record_gaps import half_digit, rounding_error

if TYPE_CHECKING:
    from gputel.analysis.align.timed_log import TimedLog

QUARTILES = 1349.0  # milliseconds between the quartiles of values whose standard deviation is a second
HALF_KNOWN = 0.7  # share of the scatter of a step: a printed time is used unless it is above the usual
SAMPLED = pl.when(pl.col("energy_counter_j").is_null()).then("energy_sampling_j").fill_null(0.0)
LONGEST_PERIOD_S = 1.0  # between two refreshes, where values that seldom change do not tell


@dataclass(frozen=True)
class BorderError:
    """How far the border between training and anything else may be off, in seconds.

    `cut_s` is the resolution of the clock, `scatter_s` the deviation of a step behind a border, `drift_s` the error
    that all such steps share, and `between_s` that of steps which were not printed, and of rounded step times.
    `inner_s` is the error of all borders between an evaluation and a checkpoint, which no step is near. `clock_s`
    is how far the clocks of the log and of the readings may be apart. `save_s` is the error of when the last save
    ended; None if only the other saves tell how long it may have taken.
    """

    cut_s: float
    scatter_s: float
    drift_s: float
    between_s: float
    inner_s: float
    clock_s: float = 0.0
    save_s: float | None = 0.0


@dataclass(frozen=True)
class PowerSensor:
    """How late power is: a value is the mean of the last `mean_s`, refreshed every `period_s` if that is known."""

    mean_s: float
    period_s: float | None = None


RECORDED, IN_TABLES = PowerSensor(0.0), PowerSensor(1.0)
"""A recording asks for the power of the moment; a table of another program often has the mean of a second."""


def border_error(
    placed: TimedLog, records: pl.DataFrame, steps: pl.DataFrame, step: StepTime | None
) -> BorderError | None:
    """Returns the error of the borders of a phase; None if nothing is known of its times."""
    if placed.how is None:
        return None
    usual: Any = steps["steps"].cast(pl.Float64).median()
    covered = max(1.0, float(usual or 1.0))  # steps that fall stand for none
    longer = contains_others(records, placed)
    alone = records.filter(~longer)
    dt_ms = alone["dt_ms"].drop_nulls() if "dt_ms" in records.columns else pl.Series([], dtype=pl.Float64)
    dt_ms = dt_ms.filter(dt_ms.is_finite())
    deviation_s = (
        _deviation_s(dt_ms) if len(dt_ms) else _stamped_deviation_s(steps, covered, placed.resolution_s)
    )
    count, by_dt = float(steps["steps"].sum()), not placed.stamped and not placed.resolution_s
    rounded_s = 2 * half_digit(dt_ms, placed.dt_digit_ms) / 1000 / 12**0.5 * covered**0.5
    alike_s = count * rounding_error(dt_ms, placed.dt_digit_ms) / 1000 / SURE  # what all roundings share
    scattered = count * ((covered - 1) * deviation_s**2 + rounded_s**2)
    between_s = math.hypot(scattered**0.5, alike_s) if by_dt else 0.0
    step_s: Any = steps["duration_s"].median()
    record_s = float(step_s or 0.0) * covered
    finest_s = min(placed.resolution_s, record_s)  # lines faster than the clock ticks tell where in a second
    return BorderError(
        placed.resolution_s if placed.brief else finest_s,
        math.hypot(deviation_s * (covered**0.5 if covered > 1 or not len(dt_ms) else HALF_KNOWN), rounded_s),
        math.hypot(step.error_s * covered if step else 0.0, placed.late_error_s),
        between_s,
        _divided_error(records.filter(longer), placed)
        if by_dt
        else placed.resolution_s * (_inner_borders(placed) / 12) ** 0.5,
        _apart_s(placed),
        save.error_s if (save := last_save(placed)) else 0.0,
    )


def _apart_s(placed: TimedLog) -> float:
    """Returns how far times may be off that no stamp of a line tells."""
    return 0.0 if placed.stamped else placed.uncertainty_s or 0.0


def _deviation_s(dt_ms: pl.Series) -> float:
    low, high = (float(dt_ms.quantile(share) or 0.0) for share in (0.25, 0.75))
    return (high - low) / QUARTILES


def _stamped_deviation_s(steps: pl.DataFrame, covered: float, resolution_s: float) -> float:
    """Returns how much the time of one step scatters between timestamps, beyond what they were cut."""
    apart_s = _deviation_s(1000 * steps["duration_s"].drop_nulls()) * covered**0.5
    return math.sqrt(max(0.0, apart_s**2 - resolution_s**2 / 6 / covered))


def _divided_error(records: pl.DataFrame, placed: TimedLog) -> float:
    """Returns the error of what step times contain of both evaluations and checkpoints."""
    if records.is_empty():
        return 0.0
    divided = _inner_borders(placed)
    others = max(records.height - divided, 1)
    return _deviation_s(records["dt_ms"].drop_nulls()) * math.sqrt(divided + divided**2 / others)


def _inner_borders(placed: TimedLog) -> int:
    """Counts the checkpoints right behind or before an evaluation, without a record between them."""
    saved = placed.events.filter(pl.col("kind") == "checkpoint")
    tables = {"record": placed.records, "eval": placed.evals, "save": saved}
    lines = pl.concat([table.select("line", what=pl.lit(what)) for what, table in tables.items()])
    kinds = pl.col("what")
    return (
        lines.sort("line")
        .filter((kinds != "record") & (kinds.shift() != "record") & (kinds != kinds.shift()))
        .height
    )


def with_errors(totals: pl.DataFrame, border: BorderError | None, sensor: PowerSensor) -> pl.DataFrame:
    """Adds the errors of time, energy and power to sums by kind."""
    timed = totals.with_columns(duration_error(border).alias("duration_error_s"))
    energy, power = energy_errors(sensor, border.clock_s if border else 0.0)
    measured = JOULES.is_not_null()
    return timed.with_columns(
        energy_error_j=pl.when(measured).then(energy), power_error_w=pl.when(measured).then(power)
    )


def duration_error(border: BorderError | None) -> pl.Expr:
    """Returns the error of the time of each kind; training has those of all.

    Of rows with `kind`, `spans` and `duration_s`.
    """
    if border is None:
        return pl.lit(None, pl.Float64)
    train = pl.col("kind") == "train"
    others = pl.when(train).then(pl.col("spans").filter(~train).sum()).otherwise("spans")
    between = (
        pl.when(train)
        .then(border.between_s)
        .when(pl.col("kind").is_in(PRINTED))
        .then(border.inner_s)
        .otherwise(0.0)
    )
    usual_s = pl.col("duration_s") / pl.col("spans")
    last_s = pl.when(pl.col("kind") == "checkpoint").then(usual_s if border.save_s is None else border.save_s)
    scattered = (others + train) * border.cut_s**2 / 6 + others * border.scatter_s**2 + between**2
    return (SURE**2 * scattered + (others * border.drift_s) ** 2 + last_s.fill_null(0.0) ** 2).sqrt()


def energy_errors(sensor: PowerSensor, clock_s: float = 0.0) -> tuple[pl.Expr, pl.Expr]:
    """Returns the errors of energy and of mean power of each kind, of rows with `duration_error_s` and measures.

    An energy has the error of the time, that of the power which came late or changed between two readings, and what
    was not measured if nearly all was; a `measured` share below that says itself what is missing. `clock_s` is how
    far the clock of log and readings may be apart: so much of each kind may be another, which drew nothing at all.
    """
    power, time_s = pl.col("power_mean_w"), pl.col("duration_error_s").fill_null(0.0)
    others = (power.sum() - power) / (power.count() - 1)
    moved = (power - others).abs().fill_nan(None).fill_null(0.0)
    late = _late_s(sensor) * moved
    missing = pl.when(pl.col("measured") >= WHOLE).then(1 - pl.col("measured")).otherwise(0.0)
    within = time_s * pl.max_horizontal(power, others.fill_nan(None))
    foreign = (clock_s / pl.col("power_s")).clip(0.0, 0.5)
    shifted = power * foreign / (1 - foreign)
    sampled = SURE * SAMPLED
    energy = (
        within**2 + late**2 + sampled**2 + (missing * JOULES) ** 2 + (shifted * pl.col("power_s")) ** 2
    ).sqrt()
    measured = (late**2 + sampled**2 + (time_s * moved) ** 2).sqrt() / pl.col("power_s")
    return energy, (measured**2 + shifted**2).sqrt()


def _late_s(sensor: PowerSensor) -> pl.Expr:
    """Returns how many seconds of one level of power are counted as another, over all borders of a kind.

    A mean of the last second comes half a second late at each border; a refresh is late by a random part of it.
    """
    spans, counted = pl.col("spans"), pl.col("energy_counter_j").is_not_null()
    borders = pl.when(pl.col("kind") == "train").then(spans.sum() - spans).otherwise(spans)
    by_changes = (pl.col("duration_s") / pl.col("refreshes").clip(1)).min().clip(0, LONGEST_PERIOD_S)
    period_s = by_changes if sensor.period_s is None else pl.lit(sensor.period_s)
    always = pl.when(counted).then(0.0).otherwise((period_s + sensor.mean_s) / 2)
    return borders * always + SURE * (borders / 6).sqrt() * period_s


def elapsed_error(placed: TimedLog) -> float:
    """Returns the error of the time from a log's first line to its last: two timestamps were cut.

    Without timestamps it is what the GPUs were busy beyond the steps, if that is known.
    """
    return (
        SURE * placed.resolution_s / 6**0.5 if placed.stamped else max(placed.resolution_s, _apart_s(placed))
    )


def whole_energy_error(totals: pl.DataFrame, placed: TimedLog) -> float:
    """Returns the error of the energy of all kinds together: its two ends, its readings, what was not measured."""
    power: Any = totals["power_mean_w"].max()
    missing = pl.when(pl.col("measured") >= WHOLE).then((1 - pl.col("measured")) * JOULES)
    sampled = SURE * totals.select(SAMPLED.pow(2).sum().sqrt()).item()
    ends = elapsed_error(placed) * float(power or 0.0)
    return float(totals.select(missing.sum()).item() + math.hypot(ends, sampled))
