"""The report of a run -> a document: facts, time and energy by phase, GPUs, findings, and curves over time.

Terminal, page, notebook and Markdown all render this one document. Detail tables are folded, so a terminal leaves
them out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import text
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.per_step import sampled_s
from gputel.analysis.align.uncertainty import whole_energy_error
from gputel.analysis.compare.axes import floats
from gputel.analysis.document import Bars, Conversion, Document, FactList, Section, Table, rows
from gputel.analysis.documents import parse
from gputel.analysis.documents.headline import energy_of, headline, over_measured
from gputel.analysis.documents.machine import machine_facts
from gputel.analysis.documents.panels.over_time import machine_section, telemetry_sections
from gputel.analysis.documents.record import SENSORS, TOO_FEW, sensor_refresh
from gputel.analysis.documents.report_tables import (
    GPUS,
    MEASURED,
    MEMORY,
    PARTS,
    PARTS_NOTE,
    TIME,
    TRAINING,
    measured_table,
)
from gputel.analysis.report import run_report
from gputel.analysis.report.checkup import gpu_names
from gputel.analysis.report.doubts import from_to
from gputel.analysis.report.step_shares import printed_steps
from gputel.analysis.report.verdicts import MFU_QUESTION
from gputel.analysis.runs.facts import distinct_gpus
from gputel.telemetry import run_folder
from gputel.telemetry.remote.local_copy import shown

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report
    from gputel.analysis.runs.facts import Fact, Facts

QUESTIONS = {MFU_QUESTION: "MFU"}  # questions as people write them
MOST_SPANS = 20


def report_document(
    report: Report, *, keep_idle: bool = False, panels: bool = True, price: float | None = None
) -> Document:
    """`panels=False` saves the time of reading every sample where nothing will be drawn.

    `price` is dollars per GPU hour.
    """
    subject = report.subject
    bars = list(_bars(report)) if panels else []
    curves: list[Section] = []
    conversions: list[Conversion] = []
    if panels:
        over_time = telemetry_sections(report, keep_idle=keep_idle, price=price)
        if over_time is not None:
            curves, conversions = over_time
        else:
            lines = parse.lines_of(subject, subject.name, price=price)
            curves = [*parse.curves(lines, parse.EVERY_AXIS), machine_section(report)]
    refresh, refresh_by_gpu = _sensors(report)
    machines = report.account.machines if report.account else ()
    around = [machine_facts(summary) for summary in machines]
    answers = _filled(
        _time(report), _training(report), _parts(report), _timings(report), _gpus(report), refresh, *around
    )
    first = _filled(headline(report, price), _findings(report), _facts(report))
    details = _filled(*_details(report), refresh_by_gpu, _origins(report), _events(report))
    sections = [
        Section("", first, _nothing(report)),
        *curves,
        Section("Time and energy", [*bars, *answers]),
        Section("Details", details),
    ]
    return Document(
        title=subject.name,
        sections=[section for section in sections if section.items or section.text],
        caution=subject.caution,
        doubts=[doubt.text for doubt in report.doubts],
        next=_next(report),
        conversions=conversions,
    )


def _filled(*items: Table | FactList) -> list[Table | FactList]:
    return [item for item in items if (item.rows if isinstance(item, Table) else item.known())]


def _facts(report: Report) -> FactList:
    recording = report.subject.recording
    descriptions = recording.descriptions if recording else []
    first = descriptions[0] if descriptions else {}
    known = {name: fact.value for name, fact in report.subject.facts.known().items()}
    recorded_gpus = distinct_gpus(descriptions)
    events = run_report.events(report)
    return FactList(
        {
            "command": report.subject.command,
            "tags": ", ".join(f"{key}={value}" for key, value in (first.get("tags") or {}).items()),
            "started": _started(first),
            "host": (first.get("host") or {}).get("name"),
            "model": _model(report.subject.facts),
            "GPUs": gpu_names(recorded_gpus) if recorded_gpus else _gpus_of_log(known),
            "clock": _clock(report),
            "readings": _sampled(report),
            "overlap": None if recording else _overlap(report.shared),
            "events": text.events(events),
        },
        title="Run",
    )


def _started(description: dict[str, Any]) -> str | None:
    wall_ns = run_folder.wall_ns(description, "started")
    return f"{text.to_the_second(wall_ns)} UTC" if wall_ns else None


def _model(facts: Facts) -> str | None:
    known = {name: fact.value for name, fact in facts.known().items()}
    parts = [
        f"depth {known['depth']:.0f}" if "depth" in known else None,
        f"{text.count(known['parameters'])} parameters" if "parameters" in known else None,
        f"{_tokens(facts.tokens_per_step)} tokens/step" if facts.tokens_per_step else None,
    ]
    return ", ".join(part for part in parts if part)


def _tokens(batch: Fact) -> str:
    return text.count(batch.value) if batch.error is None else text.with_error(batch.value, batch.error, 0)


def _gpus_of_log(known: dict[str, Any]) -> str | None:
    if "gpus" not in known:
        return f"{known['gpu']}, number unknown" if "gpu" in known else None
    return f"{known['gpus']:.0f}" + (f" x {known['gpu']}" if "gpu" in known else "")


def _clock(report: Report) -> str | None:
    log, placed = report.subject.log, report.placed
    if log.telemetry is not None and report.readings is None:
        return "the readings have no timestamps"
    if log.records.is_empty():
        return None
    if placed.how is None:
        return "unknown: the log has no timestamps, step times or total time"
    if placed.uncertainty_s is None:
        return f"{placed.how}; uncertainty unknown"
    return f"{placed.how}, within {placed.uncertainty_s:.3g} s" if placed.uncertainty_s else placed.how


def _sampled(report: Report) -> str | None:
    """`of each GPU every 15 s`, of a table, or of a store that keeps readings."""
    apart_s = sampled_s(report.subject)
    return None if apart_s is None else f"of each GPU every {apart_s:.3g} s"


def _overlap(shared: dict[str, Any] | None) -> str | None:
    if shared is None:
        return None
    if shared["shared_s"]:
        return f"{text.duration(shared['shared_s'])}, {100 * shared['share']:.1f} % of the log"
    none = f"none: the log is of {from_to(shared['log'])}, the readings of {from_to(shared['gpu'])}"
    if shared["offset_s"] is None:
        return none
    return f"{none}; if that is a time zone, add --offset={shared['offset_s'] / 3600:g}h"


def _nothing(report: Report) -> str:
    log = report.subject.log
    if report.readings is not None or not log.is_empty or (report.account and report.account.machines):
        return ""
    if log.lines:
        lines = text.counted(log.lines, "line")
        return f"no step was recognized in {lines} of output, and nothing was sampled"
    return "nothing was printed, and nothing was sampled"


def _findings(report: Report) -> FactList:
    """Questions with the same answer and evidence share a line."""
    questions: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        words = "\n".join((verdict.answer, *verdict.evidence))
        questions.setdefault(words, []).append(QUESTIONS.get(verdict.question, verdict.question))
    pairs = {", ".join(names): words for words, names in questions.items()}
    return FactList({} if _nothing(report) else pairs, title="Findings")


def _bars(report: Report) -> Iterator[Bars]:
    """Time and energy by phase; none of time where nothing was printed, none of energy where none was measured."""
    totals, run = report.totals, report.subject.name
    for name, title, unit, column in (
        ("time-spent", "Time by phase", "s", pl.col("duration_s")),
        ("energy-spent", "Energy by phase", "J", JOULES),
    ):
        values = floats(totals.select(column.alias("value"))["value"])
        if np.nansum(values) > 0:
            yield Bars(name, title, unit, (run,), tuple(totals["kind"].to_list()), values[None, :])


def _time(report: Report) -> Table:
    totals = [row for row in rows(report.totals) if row["duration_s"]]
    energies = [energy for row in totals if (energy := energy_of(row)) is not None]
    whole = [text.duration(sum(row["duration_s"] for row in totals))]
    error = whole_energy_error(report.totals, report.placed)
    whole += [text.energy(sum(energies), error) + over_measured(report)] if energies else []
    name = "Time and energy" if energies else "Time"
    return measured_table(f"{name} by phase: {', '.join(whole)}", totals, TIME)


def _training(report: Report) -> Table:
    phases = list(rows(report.phases))
    resumed = any(row["attempts"] > 1 for row in phases)
    return measured_table(
        "Training by phase", phases, [column for column in TRAINING if resumed or column[0] != "attempts"]
    )


def _parts(report: Report) -> Table:
    shares = list(rows(report.step_shares))
    printed = printed_steps(report.steps)
    named = f"steps {printed[0]:,} to {printed[1]:,}" if printed else "not matched to the steps of the log"
    table = measured_table(f"Where the time of a step went: {named}", shares, PARTS)
    return replace(table, note=PARTS_NOTE)


def _timings(report: Report) -> Table:
    whole_s = sum(row["duration_s"] for row in rows(report.totals))
    cells = [
        (name, f"{count:,}", text.duration(seconds), f"{100 * seconds / whole_s:.1f} %" if whole_s else None)
        for name, count, seconds in report.timings.head(MOST_SPANS).iter_rows()
    ]
    note = (
        f"The longest {MOST_SPANS} of {report.timings.height:,}."
        if report.timings.height > MOST_SPANS
        else ""
    )
    return Table("Timed by the training", ("span", "times", "time", "share"), cells, note=note)


def _gpus(report: Report) -> Table:
    table = list(rows(report.gpus))
    over = "the training" if report.phases.height else text.duration(table[0]["duration_s"]) if table else ""
    return measured_table(f"GPUs over {over}", table, GPUS)


def _sensors(report: Report) -> tuple[FactList, Table]:
    """Facts about the first GPU's sensors, since one machine's are alike, and a folded table of every GPU's."""
    refresh = run_report.refresh(report)
    sampling = report.account and report.account.sampling
    steps = "measured from whole seconds" if run_report.read_as(report) == "whole seconds" else None
    polled = f"{sampling.polled_hz:.1f} Hz" if sampling and sampling.polled_hz else None
    every_poll = {gpu.label: gpu.every_poll for gpu in report.account.gpus} if report.account else {}
    first, rates_of_first = next(iter(refresh.items()), ("", {}))
    pairs = {"polled": polled, **sensor_refresh(rates_of_first, every_poll.get(first, ()))}
    names = list(dict.fromkeys(name for rates in refresh.values() for name in rates))
    cells = [
        [gpu, *(_refresh_hz(rates.get(name), name in every_poll.get(gpu, ())) for name in names)]
        for gpu, rates in refresh.items()
    ]
    asked = f" Asked for {sampling.asked_hz:g} Hz." if sampling and sampling.polled_hz else ""
    note = f"A value polled more often than its sensor refreshes is repeated, not measured again.{asked}"
    headings = ("GPU", *(SENSORS.get(name, name) for name in names))
    table = Table("Sensor refresh rate by GPU", headings, cells, note=note, folded=True)
    return FactList({**pairs, "steps": steps} if refresh else {}, title="Sensors"), table


def _refresh_hz(hz: float | None, every_poll: bool) -> str:
    return TOO_FEW if hz is None else f"{'at least ' * every_poll}{hz:.2f} Hz"


def _details(report: Report) -> tuple[Table, Table]:
    by_phase, by_gpu = list(rows(report.totals)), list(rows(report.gpus))
    return (
        measured_table("Measurements by phase", by_phase, [TIME[0], *MEASURED], folded=True),
        measured_table("Measurements by GPU", by_gpu, [GPUS[0], *MEASURED, *MEMORY], folded=True),
    )


def _origins(report: Report) -> Table:
    known = report.subject.facts.known()
    cells = [(name, fact.value, fact.origin) for name, fact in known.items()]
    return Table("Facts of the run", ("fact", "value", "origin"), cells, folded=True)


def _events(report: Report) -> Table:
    recording = report.subject.recording
    frames = [
        report.placed.events.filter(pl.col("kind") != "eval"),
        *([recording.events] if recording else []),
    ]
    parts = [frame.select("time", "kind", "text") for frame in frames]
    every = pl.concat(parts, how="vertical_relaxed").sort("time", nulls_last=True)
    cells = [
        (time and text.to_the_second(time), text.event(kind), words)
        for time, kind, words in every.head(parse.MOST_EVENTS).iter_rows()
    ]
    note = f"The first {parse.MOST_EVENTS} of {every.height:,}." if every.height > parse.MOST_EVENTS else ""
    return Table("Events", ("time (UTC)", "event", "text"), cells, note=note, folded=True)


def _next(report: Report) -> str:
    log, recording = report.subject.log, report.subject.recording
    name = shlex.quote(shown(recording.path if recording else Path(log.source)))
    if log.telemetry is not None and log.records.is_empty():
        return f"gputel report --gpu {name} --log LOG"
    if (report.subject.readings is not None and log.telemetry is None) or name == "-":
        return "gputel parse LOG"
    if log.records.is_empty():
        return f"gputel info {name}" if recording else f"gputel parse {name}"
    return f"gputel compare {name} OTHER, gputel report {name} --json"
