"""One run -> Report: where its time and energy went, what each GPU did, and verdicts on it.

make_report   everything that the terminal, the page and the JSON of `gputel report` show
answer        the JSON of a report
judge_run     the verdicts: bottleneck, headroom, MFU, overfitting, stragglers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from gputel.analysis.align import join, offsets, per_step, timestamps
from gputel.analysis.align.offsets import overlap
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.step_parts import with_parts
from gputel.analysis.align.step_time import step_times
from gputel.analysis.align.timed_log import TimedLog
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.align.uncertainty import IN_TABLES, RECORDED, PowerSensor, with_errors
from gputel.analysis.document import as_json
from gputel.analysis.incidents import hangs
from gputel.analysis.incidents.incident import Incident
from gputel.analysis.report import bottleneck, overfitting, summary, verdicts
from gputel.analysis.report.bottleneck import bottleneck_verdict
from gputel.analysis.report.doubts import Findings, report_doubts
from gputel.analysis.report.overfitting import overfitting_verdict
from gputel.analysis.report.phases import phase_table, phases_border
from gputel.analysis.report.step_shares import step_shares
from gputel.analysis.report.summary import RecordingSummary, recording_summary
from gputel.analysis.report.verdicts import (
    UNKNOWN,
    Case,
    Verdict,
    headroom_verdict,
    mfu_verdict,
    straggler_verdict,
)
from gputel.analysis.runs import api_rows, sensors
from gputel.telemetry.inside import unseen
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.align.samples import Readings
    from gputel.analysis.doubts import Doubt
    from gputel.analysis.runs import RunData

NO_STEPS = f"no steps: {unseen.NO_OPTIMIZER} in a Python that could be entered"
CLOSELY_S = 1800  # of a table of readings: enough to find refresh rates
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
    `case` is what the verdicts were given; `account` is the `recording_summary` of a recording, None for a table of
    readings or a bare log.
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
    case: Case
    verdicts: list[Verdict]

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Figures that cannot both be right."""
        findings = Findings(self.shared, self.totals, self.gpus, self.case.mfu)
        return report_doubts(self.subject, findings)

    @cached_property
    def incidents(self) -> list[Incident]:
        """The hangs that a recording with `--inside stacks` saw."""
        recording = self.subject.recording
        return hangs.read(recording.folder.segments) if recording else []

    @cached_property
    def timings(self) -> pl.DataFrame:
        """Spans that the first rank timed by `gputel.span`: `name`, `count`, `seconds`."""
        recording = self.subject.recording
        if recording is None:
            return api_rows.sums_of(())
        pairs = zip(recording.folder.segments, recording.descriptions, strict=True)
        return api_rows.sums_of([api_rows.read(segment, each.get("inside")) for segment, each in pairs])

    @cached_property
    def step_shares(self) -> pl.DataFrame:
        """The parts of the steps of each rank, if a recording with `--inside steps` saw them."""
        return step_shares(self.subject)

    @cached_property
    def unseen(self) -> list[str]:
        """What `--inside` could not see, and why."""
        recording = self.subject.recording
        if recording is None:
            return []
        inside = [description.get("inside") or {} for description in recording.descriptions]
        refused = [f"no stacks: {each['reason']}" for each in inside if each.get("reason")]
        unseen_then = recording.events.filter(pl.col("kind") == unseen.KIND)["text"].to_list()
        lacks_steps = any(each.get("level") == "steps" for each in inside) and recording.inside.is_empty()
        if lacks_steps and not any(unseen.NO_OPTIMIZER in each for each in unseen_then):
            refused.append(NO_STEPS)
        return [*refused, *unseen_then]


class MeasuredRun(NamedTuple):
    """A run joined with its readings: what each span cost, and the case on which verdicts are given.

    `uncut` has the spans before idle ends were cut off.
    """

    readings: Readings | None
    placed: TimedLog
    uncut: pl.DataFrame
    spans: pl.DataFrame
    case: Case


def measured_run(subject: RunData, *, keep_idle: bool = False) -> MeasuredRun:
    """Joins a run with its readings; totals of GPUs and the account of the recording are not needed for this."""
    sampled = gpu_samples(subject)
    spans = cut_spans(subject)
    shown = offsets.widened(spans, sampled.edges if sampled else None) if keep_idle else offsets.cut(spans)
    measured, gpus = join.with_gpus(shown, sampled, _stretch(shown, sampled, keep_idle=keep_idle))
    tokens = subject.facts.tokens_per_step
    steps = with_parts(per_step.of_spans(measured, float(tokens.value) if tokens else None), subject)
    placed = timed_log(subject)
    return MeasuredRun(
        sampled, placed, spans, measured, Case(subject, steps, gpus, placed.uncertainty_s or 0.0)
    )


def make_report(subject: RunData, *, keep_idle: bool = False) -> Report:
    """Reports on a run. `keep_idle` keeps what was recorded before its first line and after its last work."""
    sampled, placed, uncut, measured, case = measured_run(subject, keep_idle=keep_idle)
    steps = case.steps
    mixed = pl.col("phase").is_in(per_step.mixed_phases(measured).implode())
    times = step_times(placed, steps.filter(~mixed))
    account = recording_summary(subject.recording.path) if subject.recording else None
    sensor = _sensor(account)
    return Report(
        subject=subject,
        placed=placed,
        readings=sampled,
        spans=measured,
        shared=overlap(uncut, sampled.edges if sampled else None),
        steps=per_step.one_by_one(subject, steps),
        totals=with_errors(per_step.totals(measured), phases_border(subject, placed, steps, times), sensor),
        phases=phase_table(subject, placed, measured, steps, times, sensor),
        gpus=case.gpus,
        account=account,
        case=case,
        verdicts=judge_run(case),
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
        "cause": log.cause and {"line": log.cause.line, "text": mask(log.cause.text)},
        "clock": {"how": placed.how, "uncertainty_s": placed.uncertainty_s},
        "overlap": report.shared,
        "read": read_as(report),
        "facts": {
            name: {"value": f.value, "origin": f.origin, "error": f.error}
            for name, f in report.subject.facts.known().items()
        },
        "time": report.totals,
        "phases": report.phases,
        "timings": report.timings,
        "step_parts": report.step_shares,
        "gpus": report.gpus,
        "refresh_hz": refresh(report),
        "recording": report.account and report.account.as_json(),
        "sources": offsets.offsets(placed.records),
        "verdicts": [verdict.as_json() for verdict in report.verdicts],
        "events": events(report),
        "incidents": [each.as_json() for each in report.incidents],
        "unseen": report.unseen,
    }
    return dict(as_json(answers))


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


def _sensor(account: RecordingSummary | None) -> PowerSensor:
    """Returns how late power is: of a recording by its slowest energy counter, else by its slowest power sensor."""
    if account is None:
        return IN_TABLES
    for name in ("energy_j", "power_w"):
        rates = [hz for gpu in account.gpus if (hz := gpu.refresh_hz.get(name))]
        if rates:
            return replace(RECORDED, period_s=1 / min(rates))
    return RECORDED


def judge_run(case: Case) -> list[Verdict]:
    """Returns the verdicts; those on training need a log, and those by GPU readings need real ones."""
    recording, trained = case.subject.recording, not case.subject.log.records.is_empty()
    simulated = recording.simulated if recording else None
    return [
        _without_gpus(case, question, simulated) if simulated and question in BY_GPU_READINGS else judge(case)
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


def _without_gpus(case: Case, question: str, simulated: str) -> Verdict:
    """Refuses a verdict: simulated GPUs do not run the training, and a replay shows another recording's GPUs.

    What the machine around them did is real.
    """
    slow: list[str] = []
    if question == bottleneck.QUESTION:
        if verdict := bottleneck.machine_verdict(case):
            return verdict
        slow = bottleneck.unseen(case)
    why = f"the GPU readings are simulated ({simulated}): no verdict"
    return Verdict(question, UNKNOWN, (why, *slow), {"simulated": simulated})
