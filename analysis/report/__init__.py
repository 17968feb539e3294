"""One run -> Report: where its time and energy went, what each GPU did, and verdicts on it.

make_report   everything that the terminal, the page and the JSON of `gputel report` show
answer        the JSON of a report
judge_run     the verdicts: bottleneck, headroom, MFU, overfitting, stragglers

verdicts      Verdict and its evidence; MFU, headroom, stragglers
bottleneck    compute, memory bandwidth, input or communication
overfitting   validation against training loss; the best checkpoint
doubts        figures that cannot both be right
gpu_totals    per GPU of a recording: power, energy, memory, throttling
summary       what ends a recording, and what `gputel info` shows
checkup       a trial recording of this machine's GPUs, for `gputel doctor`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align import join, offsets, timestamps
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.offsets import overlap
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.step_time import SURE, step_time
from gputel.analysis.align.timestamps import TimedLog, timed_log
from gputel.analysis.document import as_json
from gputel.analysis.report import bottleneck, overfitting, summary, verdicts
from gputel.analysis.report.bottleneck import bottleneck_verdict
from gputel.analysis.report.doubts import Findings, report_doubts
from gputel.analysis.report.overfitting import overfitting_verdict
from gputel.analysis.report.summary import RecordingSummary, recording_summary
from gputel.analysis.report.verdicts import (
    UNKNOWN,
    Case,
    Verdict,
    headroom_verdict,
    mfu_verdict,
    straggler_verdict,
)
from gputel.analysis.runs import sensors

if TYPE_CHECKING:
    from gputel.analysis.align.samples import Readings
    from gputel.analysis.doubts import Doubt
    from gputel.analysis.runs import RunData

CLOSELY_S = 1800  # of a table of readings: enough to find refresh rates

__all__ = ["UNKNOWN", "Case", "Report", "Verdict", "answer", "judge_run", "make_report"]
JUDGES: Mapping[str, Callable[[Case], Verdict]] = {
    bottleneck.QUESTION: bottleneck_verdict,
    verdicts.HEADROOM_QUESTION: headroom_verdict,
    verdicts.MFU_QUESTION: mfu_verdict,
    overfitting.QUESTION: overfitting_verdict,
    verdicts.STRAGGLER_QUESTION: straggler_verdict,
}
BY_GPU_READINGS = (bottleneck.QUESTION, verdicts.HEADROOM_QUESTION, verdicts.STRAGGLER_QUESTION)
WITHOUT_TRAINING = (verdicts.HEADROOM_QUESTION, verdicts.STRAGGLER_QUESTION)


@dataclass(frozen=True)
class Report:
    """A run with measured `spans`, sums of them, and verdicts; `gpus` has a row per GPU over the training.

    Without a log, `gpus` covers the busy period. `shared` is the overlap of log and readings, None without either.
    `account` is the `recording_summary` of a recording, None for a table of readings or a bare log.
    """

    subject: RunData
    placed: TimedLog
    readings: Readings | None
    spans: pl.DataFrame
    shared: dict[str, Any] | None
    steps: pl.DataFrame
    totals: pl.DataFrame
    phases: pl.DataFrame
    gpus: pl.DataFrame
    account: RecordingSummary | None
    verdicts: list[Verdict]

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Figures that cannot both be right."""
        findings = Findings(self.shared, self.totals, self.gpus, self.verdicts)
        return report_doubts(self.subject, findings)


def make_report(subject: RunData, *, keep_idle: bool = False) -> Report:
    """Reports on a run. `keep_idle` keeps what was recorded before its first line and after its last work."""
    sampled = gpu_samples(subject)
    edges = sampled.edges if sampled else None
    spans = cut_spans(subject)
    shown = offsets.widened(spans, edges) if keep_idle else offsets.cut(spans)
    measured, gpus = join.with_gpus(shown, sampled, _stretch(shown, sampled, keep_idle=keep_idle))
    tokens = subject.facts.tokens_per_step
    steps = join.of_spans(measured, float(tokens.value) if tokens else None)
    placed = timed_log(subject)
    return Report(
        subject=subject,
        placed=placed,
        readings=sampled,
        spans=measured,
        shared=overlap(spans, edges),
        steps=steps,
        totals=join.totals(measured),
        phases=_phases(steps, subject),
        gpus=gpus,
        account=recording_summary(subject.recording.path) if subject.recording else None,
        verdicts=judge_run(
            Case(subject, steps, gpus, placed.uncertainty_s or 0.0),
            trained=not subject.log.records.is_empty(),
        ),
    )


def answer(report: Report) -> dict[str, Any]:
    """Returns a report as strict JSON; a figure that was not measured is null."""
    log, placed = report.subject.log, report.placed
    answers = {
        "schema": 1,
        "run": report.subject.name,
        "source": log.source,
        "caution": report.subject.caution,
        "doubts": [doubt.as_json() for doubt in report.doubts],
        "status": log.status,
        "cause": log.cause and {"line": log.cause.line, "text": log.cause.text},
        "clock": {"how": placed.how, "uncertainty_s": placed.uncertainty_s},
        "overlap": report.shared,
        "read": read_as(report),
        "facts": {
            name: {"value": f.value, "origin": f.origin} for name, f in report.subject.facts.known().items()
        },
        "time": report.totals.with_columns(duration_error_s=_error_of_spans(report)),
        "phases": report.phases,
        "gpus": report.gpus,
        "refresh_hz": refresh(report),
        "recording": report.account and report.account.as_json(),
        "sources": offsets.offsets(placed.records),
        "verdicts": [verdict.as_json() for verdict in report.verdicts],
        "events": events(report),
    }
    return dict(as_json(answers))


def _error_of_spans(report: Report) -> pl.Expr:
    """Returns the error of the time of each kind.

    A span has two cut timestamps, and its border with the training is where a record is thought to begin; training
    has the errors of all other kinds.
    """
    cut_s = report.placed.uncertainty_s
    if cut_s is None:
        return pl.lit(None, pl.Float64)
    others = pl.when(pl.col("kind") == "train").then(0).otherwise(pl.col("spans"))
    others = pl.when(pl.col("kind") == "train").then(others.sum()).otherwise(others)
    scatter_s, drift_s = _error_of_borders(report)
    scattered = SURE * ((others + 1) * cut_s**2 / 6 + others * scatter_s**2).sqrt()
    return scattered + others * drift_s


def _error_of_borders(report: Report) -> tuple[float, float]:
    """Returns how much a record scatters about its expected length, and the error that all expectations share."""
    records, phases = report.subject.log.records, report.phases
    covered = float(report.steps["steps"].cast(pl.Float64).median() or 1.0)
    dt_ms = records["dt_ms"].drop_nulls() if "dt_ms" in records.columns else pl.Series([], dtype=pl.Float64)
    dt_ms = dt_ms.filter(dt_ms.is_finite())
    low, high = (float(dt_ms.quantile(share) or 0.0) for share in (0.25, 0.75)) if len(dt_ms) else (0.0, 0.0)
    drift: Any = phases["step_error_s"].max() if "step_error_s" in phases.columns else None
    return (high - low) / 1349 * covered**0.5, float(drift or 0.0) * covered


def read_as(report: Report) -> str | None:
    """Returns what was read: `ticks`, or `whole seconds` of a long recording; None without readings."""
    if report.readings is None:
        return None
    return "whole seconds" if report.readings.whole_seconds else "ticks"


def events(report: Report) -> dict[str, int]:
    """Counts the events of log and recorder by kind."""
    counts = dict(report.subject.log.events.group_by("kind").len().sort("kind").iter_rows())
    recorded = report.account.events if report.account else {}
    return {**counts, **{kind: counts.get(kind, 0) + count for kind, count in recorded.items()}}


def refresh(report: Report) -> dict[str, dict[str, float | None]]:
    """Returns the true refresh rate by GPU and reading; None if there are too few changes to tell."""
    if report.account:
        return {gpu.label: summary.refreshed(gpu) for gpu in report.account.gpus}
    table = report.subject.readings
    if report.readings is None or table is None:
        return {}
    first = table.filter(pl.col("time") - pl.col("time").min() < pl.duration(seconds=CLOSELY_S))
    rates: dict[str, dict[str, float | None]] = {}
    for (gpu, name), refreshed in sensors.refresh(first).items():
        if name in summary.TELLING:
            rates.setdefault(gpu, {})[name] = refreshed.hz if refreshed else None
    return rates


def judge_run(case: Case, *, trained: bool = True) -> list[Verdict]:
    """Returns the verdicts; those on training need a log, and those by GPU readings need real ones."""
    recording = case.subject.recording
    simulated = recording.simulated if recording else None
    return [
        _unknown(question, simulated) if simulated and question in BY_GPU_READINGS else judge(case)
        for question, judge in JUDGES.items()
        if trained or question in WITHOUT_TRAINING
    ]


def _stretch(spans: pl.DataFrame, sampled: Readings | None, *, keep_idle: bool) -> tuple[int, int]:
    """Returns begin and end of the training in ns; without a log, of the busy period or of all readings."""
    training = spans.filter(pl.col("kind") == "train")
    if len(training):
        edges = training.select(pl.col("start").min().dt.epoch("ns"), pl.col("end").max().dt.epoch("ns"))
        start, end = edges.row(0)
        return start, end
    if sampled is None or sampled.edges is None:
        return 0, 0
    busy = None if keep_idle else timestamps.ends(sampled.together(timestamps.READINGS))
    return busy or sampled.edges


def _phases(steps: pl.DataFrame, subject: RunData) -> pl.DataFrame:
    """Sums training by phase over all attempts; figures per step and token use only fully measured steps.

    `tok_per_sec` uses elapsed time; `tok_per_sec_printed` is the mean of the printed rates, null if their unit
    contradicts tokens and step times.
    """
    records = subject.log.records
    weight = pl.col("steps")
    joules = JOULES * weight
    whole = (pl.col("measured") >= join.WHOLE) & joules.is_not_null()
    tokens, seconds = pl.col("tokens") * weight, pl.col("duration_s") * weight
    phases = steps.group_by("phase", maintain_order=True).agg(
        weight.sum(),
        pl.col("attempt").n_unique().alias("attempts"),
        seconds.sum(),
        _known(tokens).alias("tokens"),
        (_known(tokens) / seconds.sum()).alias("tok_per_sec"),
        _known(joules).alias("energy_j"),
        (_known(joules.filter(whole)) / weight.filter(whole).sum()).alias("j_per_step"),
        (_known(joules.filter(whole)) / _known(tokens.filter(whole))).alias("j_per_token"),
    )
    is_rate = "tok_per_sec" in records.columns and subject.step_tokens.rate_scale == 1
    rate = pl.col("tok_per_sec") if is_rate else pl.lit(None, pl.Float64)
    printed = records.group_by("phase").agg(rate.filter(rate.is_finite()).mean().alias("tok_per_sec_printed"))
    each = _step_times(steps, records, timed_log(subject))
    timed = phases.join(each, on="phase", how="left", maintain_order="left")
    return timed.join(printed, on="phase", how="left", maintain_order="left")


def _step_times(steps: pl.DataFrame, records: pl.DataFrame, placed: TimedLog) -> pl.DataFrame:
    """Returns the time of a step of each phase, with its error and where it comes from."""
    rows = []
    for (phase,), mine in steps.group_by("phase", maintain_order=True):
        dt_ms = records.filter(pl.col("phase") == phase)["dt_ms"] if "dt_ms" in records.columns else None
        estimate = step_time(mine, dt_ms, placed.resolution_s)
        if estimate:
            rows.append((phase, estimate.seconds, estimate.error_s, estimate.origin))
    schema = {"phase": pl.String, "step_s": pl.Float64, "step_error_s": pl.Float64, "step_origin": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _known(values: pl.Expr) -> pl.Expr:
    """Sums known values; null if all are unknown."""
    return pl.when(values.count() > 0).then(values.sum())


def _unknown(question: str, simulated: str) -> Verdict:
    """Refuses a verdict: simulated GPUs do not run the training, and a replay shows another recording's GPUs."""
    why = f"the GPU readings are simulated ({simulated}): no verdict"
    return Verdict(question, UNKNOWN, (why,), {"simulated": simulated})
