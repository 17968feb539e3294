"""The totals of a run's phase -> their errors, which are 90 % ranges as in the report.

A mean of printed values has the error of a mean; a time has that of its two timestamps; a cost, an energy per token
and an MFU have the relative error of what they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis.align import per_step
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.per_step import of_spans
from gputel.analysis.align.step_time import SURE, logged_step_time
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.align.uncertainty import (
    IN_TABLES,
    RECORDED,
    border_error,
    elapsed_error,
    whole_energy_error,
    with_errors,
)

if TYPE_CHECKING:
    from gputel.analysis.align.step_time import StepTime
    from gputel.analysis.align.timed_log import TimedLog
    from gputel.analysis.compare.curves import RunPhase

ERRORS = {
    "tokens": "tokens_error",
    "time_s": "time_error_s",
    "energy_j": "energy_error_j",
    "cost": "cost_error",
    "tok_per_sec": "tok_per_sec_error",
    "mfu": "mfu_error",
    "j_per_token": "j_per_token_error",
}
"""The columns of the summary that have an error, and the columns that hold it."""


def with_uncertainty(track: RunPhase, row: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the errors to a row of the summary; None where a figure or its error is unknown."""
    placed = timed_log(track.subject)
    time = elapsed_error(placed) / row["time_s"] if track.clock == "stamps" and row["time_s"] else None
    energy, per_token = _of_energy(track, placed, row["energy_j"])
    batch = track.subject.facts.tokens_per_step
    computed = batch.relative_error if batch and "tokens" not in track.rows.columns else 0.0
    spent = [share for share in (time, energy) if share is not None]
    rate = time if "tok_per_sec" in track.rows.columns else _of_rate(track, placed, time)
    shares = {
        "tokens": computed or None,
        "time_s": time,
        "energy_j": energy,
        "cost": max(spent, default=None),
        "tok_per_sec": _of_mean(track, "tok_per_sec", rate),
        "mfu": _of_mean(track, "mfu", rate),
        "j_per_token": per_token,
    }
    errors = {
        ERRORS[name]: None if share is None or row.get(name) is None else share * abs(row[name])
        for name, share in shares.items()
    }
    return {**row, **errors}


def step_time(track: RunPhase, placed: TimedLog) -> StepTime | None:
    """Returns the time of a step of training alone, for rates of a log that prints none."""
    return None if track.numbered else logged_step_time(track.rows, None, placed)


def _of_rate(track: RunPhase, placed: TimedLog, otherwise: float | None) -> float | None:
    """Returns the relative error of a rate that is made of the time of a step."""
    step = step_time(track, placed) if track.subject.facts.tokens_per_step else None
    return step.error_s / step.seconds if step else otherwise


def _of_mean(track: RunPhase, name: str, otherwise: float | None) -> float | None:
    """Returns the relative error of the mean of printed values; `otherwise` where none is printed."""
    rows = track.rows
    if name not in rows.columns:
        return otherwise
    values = (track.rated if name == "tok_per_sec" else rows)[name].cast(pl.Float64).to_numpy()
    values = values[np.isfinite(values)]
    if not len(values) or not values.mean():
        return otherwise
    return float(SURE * values.std() / abs(values.mean()) / math.sqrt(len(values)))


def _of_energy(
    track: RunPhase, placed: TimedLog, energy_j: float | None
) -> tuple[float | None, float | None]:
    """Returns the relative errors of the energy of a phase, and of that of its training alone."""
    spans = track.measured.spans
    if spans is None or spans.is_empty():
        return None, None
    train = spans.filter(pl.col("kind") == "train")
    steps = of_spans(train) if train.height else train
    border = None
    if steps.height:
        time = logged_step_time(track.rows, steps, placed)
        border = border_error(placed, track.rows, steps, time)
    sensor = IN_TABLES if track.subject.recording is None else RECORDED
    totals = with_errors(per_step.totals(spans), border, sensor)
    share = totals.filter(pl.col("kind") == "train").select(pl.col("energy_error_j") / JOULES).to_series()
    whole = whole_energy_error(totals, placed) / energy_j if energy_j else None
    return whole, share[0] if len(share) else None
