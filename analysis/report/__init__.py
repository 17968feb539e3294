"""What `gputel report` says of a run: everything that its terminal, JSON and page show, gathered once.

A subject goes in. Frames come out that panels can be drawn from (`spans`, `steps`, `totals`), and `answer` makes
JSON of the same figures.

Verdicts on a run, each with its evidence: overfitting, the bottleneck, headroom, MFU, stragglers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align import join, offsets, timestamps
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.offsets import overlap
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.timestamps import TimedLog, timed_log
from gputel.analysis.document import as_json
from gputel.analysis.report import bottleneck, overfitting, summary, verdicts
from gputel.analysis.report.bottleneck import bottleneck_verdict
from gputel.analysis.report.overfitting import overfitting_verdict
from gputel.analysis.report.summary import recording_summary
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
    from gputel.analysis.runs import RunData

CLOSELY_S = 1800  # of a table of readings, in which refresh is looked for

__all__ = ["UNKNOWN", "Case", "Verdict", "of"]
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
    """`spans` are measured; `gpus` has a row a GPU over the training, or over the work where nothing was printed.

    `shared` is how far the log and the readings overlap, None where there are no two. `account` is what
    `gputel.analysis.report.summary` says of a recording, None for a table of readings or a bare log.
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
    account: dict[str, Any] | None
    verdicts: list[Verdict]


def make_report(subject: RunData, *, keep_idle: bool = False) -> Report:
    """`keep_idle`: also what was recorded before the run's first line or after its last work."""
    sampled = gpu_samples(subject)
    edges = sampled.edges if sampled else None
    cut = cut_spans(subject)
    shown = offsets.widened(cut, edges) if keep_idle else offsets.cut(cut)
    held, gpus = join.with_gpus(shown, sampled, _stretch(shown, sampled, keep_idle=keep_idle))
    tokens = subject.facts.tokens_per_step
    each = join.of_spans(held, float(tokens.value) if tokens else None)
    return Report(
        subject=subject,
        placed=timed_log(subject),
        readings=sampled,
        spans=held,
        shared=overlap(cut, edges),
        steps=each,
        totals=join.totals(held),
        phases=_phases(each, subject.log.records),
        gpus=gpus,
        account=recording_summary(subject.recording.path) if subject.recording else None,
        verdicts=judge_run(Case(subject, each, gpus), trained=not subject.log.records.is_empty()),
    )


def answer(told: Report) -> dict[str, Any]:
    """Strict JSON: what was not measured is null."""
    log, placed = told.subject.log, told.placed
    answered = {
        "schema": 1,
        "run": told.subject.name,
        "source": log.source,
        "caution": told.subject.caution,
        "status": log.status,
        "cause": log.cause and {"line": log.cause.line, "text": log.cause.text},
        "clock": {"how": placed.how, "uncertainty_s": placed.uncertainty_s},
        "overlap": told.shared,
        "read": read_as(told),
        "facts": {
            name: {"value": f.value, "origin": f.origin} for name, f in told.subject.facts.known().items()
        },
        "time": told.totals,
        "phases": told.phases,
        "gpus": told.gpus,
        "refresh_hz": refresh(told),
        "recording": told.account,
        "sources": offsets.offsets(placed.records),
        "verdicts": [verdict.as_json() for verdict in told.verdicts],
        "events": events(told),
    }
    return dict(as_json(answered))


def read_as(told: Report) -> str | None:
    if told.readings is None:
        return None
    return "whole seconds" if told.readings.whole_seconds else "ticks"


def events(told: Report) -> dict[str, int]:
    """What the log and the recorder saw happen, by kind; none that did not."""
    counts = dict(told.subject.log.events.group_by("kind").len().sort("kind").iter_rows())
    recorded_too = told.account["events"] if told.account else {}
    return {**counts, **{kind: counts.get(kind, 0) + count for kind, count in recorded_too.items()}}


def refresh(told: Report) -> dict[str, dict[str, float | None]]:
    """By GPU and reading, how often the sensor really refreshed; None is indeterminate."""
    if told.account:
        return {_name(gpu): summary.refreshed(gpu) for gpu in told.account["gpus"]}
    table = told.subject.readings
    if told.readings is None or table is None:
        return {}
    some = table.filter(pl.col("time") - pl.col("time").min() < pl.duration(seconds=CLOSELY_S))
    found: dict[str, dict[str, float | None]] = {}
    for (gpu, name), rate in sensors.refresh(some).items():
        if name in summary.TELLING:
            found.setdefault(gpu, {})[name] = rate.hz if rate else None
    return found


def judge_run(case: Case, *, trained: bool = True) -> list[Verdict]:
    """Of readings alone, what they can tell; of simulated readings, nothing that rests on them."""
    recording = case.subject.recording
    simulated = recording.simulated if recording else None
    return [
        _unknown(question, simulated) if simulated and question in BY_GPU_READINGS else judge(case)
        for question, judge in JUDGES.items()
        if trained or question in WITHOUT_TRAINING
    ]


def _name(gpu: dict[str, Any]) -> str:
    return str(gpu["gpu"]) if gpu["node"] is None else f"{gpu['node']}/{gpu['gpu']}"


def _stretch(spans: pl.DataFrame, sampled: Readings | None, *, keep_idle: bool) -> tuple[int, int]:
    """The training, in ns; of readings alone the work, or all of them."""
    training = spans.filter(pl.col("kind") == "train")
    if len(training):
        edges = training.select(pl.col("start").min().dt.epoch("ns"), pl.col("end").max().dt.epoch("ns"))
        start, end = edges.row(0)
        return start, end
    if sampled is None or sampled.edges is None:
        return 0, 0
    found = None if keep_idle else timestamps.ends(sampled.together(timestamps.READINGS))
    return found or sampled.edges


def _phases(each: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """What training cost by phase, all attempts of it together; per step and token over what was measured whole.

    `tok_per_sec` is by the time that passed; beside it the mean of what was printed, which is what runs are
    compared by.
    """
    weight = pl.col("steps")
    joules = JOULES * weight
    whole = (pl.col("measured") >= join.WHOLE) & joules.is_not_null()
    tokens, seconds = pl.col("tokens") * weight, pl.col("duration_s") * weight
    phases = each.group_by("phase", maintain_order=True).agg(
        weight.sum(),
        pl.col("attempt").n_unique().alias("attempts"),
        seconds.sum(),
        pl.col("duration_s").median().alias("step_s"),
        _known(tokens).alias("tokens"),
        (_known(tokens) / seconds.sum()).alias("tok_per_sec"),
        _known(joules).alias("energy_j"),
        (_known(joules.filter(whole)) / weight.filter(whole).sum()).alias("j_per_step"),
        (_known(joules.filter(whole)) / _known(tokens.filter(whole))).alias("j_per_token"),
    )
    rate = pl.col("tok_per_sec") if "tok_per_sec" in records.columns else pl.lit(None, pl.Float64)
    printed = records.group_by("phase").agg(rate.filter(rate.is_finite()).mean().alias("tok_per_sec_printed"))
    return phases.join(printed, on="phase", how="left", maintain_order="left")


def _known(values: pl.Expr) -> pl.Expr:
    """The sum; null where nothing is known."""
    return pl.when(values.count() > 0).then(values.sum())


def _unknown(question: str, simulated: str) -> Verdict:
    """A simulation does not know what is trained beside it, and a replay shows another recording's GPUs."""
    said = f"the GPU readings are simulated ({simulated}): no verdict"
    return Verdict(question, UNKNOWN, (said,), {"simulated": simulated})
