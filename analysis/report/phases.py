"""Measured spans and steps -> a row per phase of training, with the error of each time, energy and rate.

A rate or an energy per token has the relative error of the time or the energy that it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.align import join, per_step
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.step_time import StepTime, numbered
from gputel.analysis.align.uncertainty import BorderError, PowerSensor, border_error, with_errors

if TYPE_CHECKING:
    from gputel.analysis.align.timed_log import TimedLog
    from gputel.analysis.runs import RunData

STEP_TIMES = {
    "phase": pl.String,
    "step_s": pl.Float64,
    "step_error_s": pl.Float64,
    "step_origin": pl.String,
}
RATES = ("tok_per_sec", "j_per_step", "j_per_token")
ERRORS = {"phase": pl.String, "duration_error_s": pl.Float64, "energy_error_j": pl.Float64}


def phase_table(
    subject: RunData,
    placed: TimedLog,
    spans: pl.DataFrame,
    steps: pl.DataFrame,
    times: Mapping[str, StepTime],
    sensor: PowerSensor,
) -> pl.DataFrame:
    """Sums training by phase over all attempts; figures per step and token use only fully measured steps.

    `tok_per_sec` uses elapsed time; `tok_per_sec_printed` is the mean of the printed rates, null if their unit
    contradicts tokens and step times. A phase whose training nothing separates from its evaluations has no rates.
    """
    sums, printed = _sums(steps), printed_rates(subject)
    alone = ~pl.col("phase").is_in(per_step.mixed_phases(spans).implode())
    sums = sums.with_columns(pl.when(alone).then(name).alias(name) for name in RATES)
    if not numbered(subject.log.records):
        sums = sums.with_columns(pl.lit(None, sums.schema[name]).alias(name) for name in ("steps", *RATES))
    rows = []
    for (phase,), mine in spans.filter(pl.col("phase").is_not_null()).group_by("phase", maintain_order=True):
        border = _border(subject, placed, steps, str(phase), times.get(str(phase)))
        train = with_errors(per_step.totals(mine), border, sensor).filter(pl.col("kind") == "train")
        rows += [(phase, *train.select("duration_error_s", "energy_error_j").row(0))] if train.height else []
    errors = pl.DataFrame(rows, schema=ERRORS, orient="row")
    each = [(phase, time.seconds, time.error_s, time.origin) for phase, time in times.items()]
    for table in (pl.DataFrame(each, schema=STEP_TIMES, orient="row"), printed, errors):
        sums = sums.join(table, on="phase", how="left", maintain_order="left")
    energy = pl.col("energy_error_j") / (pl.col("j_per_step") * pl.col("_whole_steps"))
    time = pl.col("duration_error_s") / pl.col("duration_s")
    batch = subject.facts.tokens_per_step
    tokens = batch.relative_error if batch else 0.0
    return sums.with_columns(
        tok_per_sec_error=pl.col("tok_per_sec") * (time**2 + tokens**2).sqrt(),
        j_per_step_error=pl.col("j_per_step") * energy,
        j_per_token_error=pl.col("j_per_token") * (energy**2 + tokens**2).sqrt(),
    ).drop("_whole_steps")


def phases_border(
    subject: RunData, placed: TimedLog, steps: pl.DataFrame, times: Mapping[str, StepTime]
) -> BorderError | None:
    """Returns the error of the borders of all phases together, by the least certain step time."""
    worst = max(times.values(), key=lambda time: time.error_s, default=None)
    return border_error(placed, subject.log.records, steps, worst)


def _border(
    subject: RunData, placed: TimedLog, steps: pl.DataFrame, phase: str, time: StepTime | None
) -> BorderError | None:
    of_phase = pl.col("phase") == phase
    records = subject.log.records.filter(of_phase)
    return border_error(placed, records, steps.filter(of_phase), time)


def _sums(steps: pl.DataFrame) -> pl.DataFrame:
    weight = pl.col("steps")
    joules = JOULES * weight
    whole = (pl.col("measured") >= join.WHOLE) & joules.is_not_null()
    tokens, seconds = pl.col("tokens") * weight, pl.col("duration_s") * weight
    return steps.group_by("phase", maintain_order=True).agg(
        weight.sum(),
        pl.col("attempt").n_unique().alias("attempts"),
        seconds.sum(),
        _known(tokens).alias("tokens"),
        (_known(tokens) / seconds.sum()).alias("tok_per_sec"),
        _known(joules).alias("energy_j"),
        weight.filter(whole).sum().alias("_whole_steps"),
        (_known(joules.filter(whole)) / weight.filter(whole).sum()).alias("j_per_step"),
        (_known(joules.filter(whole)) / _known(tokens.filter(whole))).alias("j_per_token"),
    )


def printed_rates(subject: RunData) -> pl.DataFrame:
    """Returns the mean printed rate of each phase, null if its unit contradicts tokens and step times."""
    records = subject.log.records
    is_rate = "tok_per_sec" in records.columns and subject.step_tokens.rate_scale == 1
    rate = pl.col("tok_per_sec") if is_rate else pl.lit(None, pl.Float64)
    return records.group_by("phase", maintain_order=True).agg(
        rate.filter(rate.is_finite()).mean().alias("tok_per_sec_printed")
    )


def _known(values: pl.Expr) -> pl.Expr:
    """Sums known values; null if all are unknown."""
    return pl.when(values.count() > 0).then(values.sum())
