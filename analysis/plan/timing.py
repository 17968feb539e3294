"""A finished run -> TrainingTime: steps, time of a step, hours and overheads of its longest phase.

All times come from the spans and the step time that `gputel report` shows. An attempt's first record counts as long
as its steps usually take: the rest, mostly compiling, belongs to the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align import per_step
from gputel.analysis.align.join import measured
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.step_time import SURE, StepTime, logged_step_time
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.runs.printed_times import contains_others

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

COARSE_S = 1.0  # resolution of timestamps from which on hours may differ from the time of their steps
SETTLED = 10
"""Steps until compilation and warm-up are over."""


@dataclass(frozen=True)
class Overheads:
    """Time besides steps; None if nothing tells it."""

    start_s: float | None
    evaluations: int
    evaluation_s: float | None
    checkpoints: int
    checkpoint_s: float | None

    @property
    def eval_hours(self) -> float | None:
        return None if self.evaluation_s is None else self.evaluations * self.evaluation_s / 3600

    @property
    def save_hours(self) -> float | None:
        return None if self.checkpoint_s is None else self.checkpoints * self.checkpoint_s / 3600


@dataclass(frozen=True)
class TrainingTime:
    """`rows` are records after warm-up, without those whose step time contains an evaluation or a checkpoint.

    `hours` are those of the completed `steps` alone.
    """

    rows: pl.DataFrame
    steps: int
    step: StepTime | None
    hours: float | None
    did: Overheads
    resolution_s: float = 0.0

    @property
    def errors(self) -> dict[str, float]:
        """The errors of the measured figures, by their names in `plan --check`: 90 % ranges."""
        if self.step is None:
            return {}
        relative, cut_s = self.step.error_s / self.step.seconds, SURE * self.resolution_s / 6**0.5
        pauses = self.did.evaluations + self.did.checkpoints
        borders_s = math.hypot(cut_s * (pauses + 1) ** 0.5, pauses * self.step.error_s)
        errors = {"dt_ms": 1000 * self.step.error_s, "start_s": math.hypot(cut_s, self.step.error_s)}
        for name, count in (("eval_hours", self.did.evaluations), ("save_hours", self.did.checkpoints)):
            errors[name] = math.hypot(cut_s * count**0.5, count * self.step.error_s) / 3600
        if self.hours is not None:
            apart = (
                abs(self.hours - self.steps * self.step.seconds / 3600)
                if self.resolution_s >= COARSE_S
                else 0.0
            )
            errors["train_hours"] = max(borders_s / 3600, relative * self.hours, apart)
        return errors


def training_time(subject: RunData) -> TrainingTime:
    """Measures the phase of a run that has the most steps, of base, mid and SFT."""
    phase = longest_phase(subject.log.steps)
    records, spans = phase.filter(~contains_others(phase, subject.log)), _spans(subject, phase)
    each = per_step.of_spans(spans)
    each = each.filter((pl.col("attempt") == pl.col("attempt").max().over("step")) | pl.col("step").is_null())
    placed = timed_log(subject)
    rows = settled(records)
    alone = None if len(per_step.mixed_phases(spans)) else settled(each)
    step, steps = logged_step_time(settled(phase), alone, placed), steps_completed(phase)
    if step is None:
        return TrainingTime(rows, steps, None, None, _overheads(spans, 0.0))
    if not placed.stamped:  # nanochat's total time stands still during the first steps
        untimed = pl.col("duration_s") <= 0
        each = each.with_columns(duration_s=pl.when(untimed).then(step.seconds).otherwise("duration_s"))
    extra_s = (pl.col("duration_s") - step.seconds).clip(0) * pl.col("steps")
    extra = each.group_by("attempt", maintain_order=True).agg(extra_s.first().alias("seconds"))
    seconds = float((each["duration_s"] * each["steps"]).sum()) - float(extra["seconds"].sum())
    hours = (seconds if each.height else steps * step.seconds) / 3600
    compiled_s = float(extra["seconds"][0]) if extra.height else 0.0
    return TrainingTime(rows, steps, step, hours, _overheads(spans, compiled_s), placed.resolution_s)


def longest_phase(steps: pl.DataFrame) -> pl.DataFrame:
    """Keeps the phase with the most steps; the one with the most lines may have fewer."""
    phases = steps.partition_by("phase", maintain_order=True)
    return max(phases, key=steps_completed, default=steps)


def settled(rows: pl.DataFrame) -> pl.DataFrame:
    """Drops the first steps, if enough others remain; rows without a step count one each."""
    number = pl.coalesce(pl.col("step") - pl.col("step").min(), pl.int_range(pl.len()))
    return rows.filter(number >= pl.min_horizontal(pl.lit(SETTLED), (number.max() + 1) // 2))


def steps_completed(steps: pl.DataFrame) -> int:
    """Returns how many steps the rows stand for: a log may print every tenth only."""
    numbers = steps["step"].drop_nulls()
    if numbers.is_empty():
        return steps.height
    first: Any = numbers.min()
    last: Any = numbers.max()
    every: Any = numbers.unique().sort().diff().median()
    begins_at_first = first <= (every or 1)
    return int(last if begins_at_first and first else last - first + 1)


def _spans(subject: RunData, phase: pl.DataFrame) -> pl.DataFrame:
    """Returns the spans of a phase, with `duration_s`."""
    spans = cut_spans(subject)
    return measured(spans.filter(pl.col("phase").is_in(phase["phase"].unique().to_list())), None)


def _overheads(spans: pl.DataFrame, compiled_s: float) -> Overheads:
    """Averages evaluations and checkpoints; the start is that of the first attempt, with its compilation."""
    if "node" in spans.columns:
        spans = spans.filter(pl.col("node").eq_missing(pl.col("node").first()))
    start = spans.filter((pl.col("kind") == "start") & (pl.col("attempt") == pl.col("attempt").min()))
    evaluations, checkpoints = (
        spans.filter(pl.col("kind") == kind)["duration_s"] for kind in ("eval", "checkpoint")
    )
    return Overheads(
        float(start["duration_s"].sum()) + compiled_s if start.height else None,
        len(evaluations),
        _mean(evaluations),
        len(checkpoints),
        _mean(checkpoints),
    )


def _mean(seconds: pl.Series) -> float | None:
    return float(seconds.sum()) / len(seconds) if len(seconds) else None
