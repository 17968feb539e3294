"""What is told of a run -> its page: power, temperature, clocks over time, with what happened drawn behind them.

The run's own curves lie on the same axis; idle ends are cut off unless they are asked for. A run without telemetry
has its curves by step.

What is told of a run -> tables of its page: verdicts, what each kind of time cost, GPUs, sensors, events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import report
from gputel.analysis.align import timestamps
from gputel.analysis.align.windows import longest_silence_ns
from gputel.analysis.document import Document, Heat, Level, Marker, Panel, PlotAxis, Section, Table
from gputel.analysis.documents import parse
from gputel.analysis.documents.panels import gpus, metrics, samples, spectrogram
from gputel.analysis.documents.panels.samples import drawn_samples
from gputel.analysis.documents.panels.spectrogram import SpectrumWindows
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, iso

if TYPE_CHECKING:
    from gputel.analysis.report import Report

MARGIN_S = 5.0
MINUTE_S, TEN_MINUTES_S = 60.0, 600.0


@dataclass(frozen=True)
class Stage:
    """What is shown of a run's telemetry, and behind what; `cut_s` was idle before and after it."""

    told: Report
    readings: pl.DataFrame
    time: PlotAxis
    length_s: float
    marks: tuple[Marker, ...]
    cut_s: tuple[float, float]


def report_document(told: Report, *, keep_idle: bool = False) -> Document:
    subject = told.subject
    stage = staged(told, keep_idle=keep_idle)
    sections = [
        Section(items=list(gpus.time_panels(told.totals, subject.name))),
        *(_of_stage(stage) if stage else parse.curves(parse.lines_of(subject, subject.name))),
        Section("What is known of it", tables(told)),
    ]
    return Document(
        title=subject.name,
        sections=[section for section in sections if section.items],
        about=about(told),
        caution=subject.caution,
    )


def staged(told: Report, *, keep_idle: bool) -> Stage | None:
    """None where there is no telemetry."""
    frame = drawn_samples(told.subject)
    if frame is None:
        return None
    stamps = frame["time"].dt.epoch("ns")
    first, last = int(stamps.min()), int(stamps.max())  # type: ignore[arg-type]
    start, end = (first, last) if keep_idle else _at_work(told, frame, first, last)
    recording = told.subject.recording
    events = [told.placed.events, *([recording.events] if recording else [])]
    marks = [
        *gpus.in_time(told.spans, start),
        *(m for own in events for m in gpus.at_moments(own, start)),
    ]
    length_s = (end - start) / SECOND
    return Stage(
        told,
        frame.filter(stamps.is_between(start, end)),
        PlotAxis("time", "time", "s", start),
        length_s,
        tuple(mark for mark in marks if 0 <= mark.x["time"] <= length_s or mark.end),
        ((start - first) / SECOND, (last - end) / SECOND),
    )


def _at_work(told: Report, frame: pl.DataFrame, first: int, last: int) -> tuple[int, int]:
    """From the run's begin to its end, with a little before and after; without a log, where the GPUs worked."""
    found = timestamps.ends(frame)
    if len(told.spans):
        spans = told.spans.select(pl.col("start").min().dt.epoch("ns"), pl.col("end").max().dt.epoch("ns"))
        start, end = spans.row(0)
        if start < last and end > first:
            found = start, end
    if found is None:
        return first, last
    margin = int(MARGIN_S * SECOND)
    return max(first, found[0] - margin), min(last, found[1] + margin)


def _of_stage(stage: Stage) -> list[Section]:
    rhythm = [panel for panel in _rhythm(stage) if panel]
    short = "" if rhythm else "There is no spectrogram of power: the recording is shorter than a minute."
    return [
        Section("Over time", [*_gpus(stage), *_run(stage)], _said(stage) + short, wide=True),
        Section("The rhythm of power", rhythm, wide=True),
    ]


def _said(stage: Stage) -> str:
    told = [
        f"{s:,.0f} s {where} it"
        for s, where in zip(stage.cut_s, ("before", "after"), strict=True)
        if s >= MARGIN_S
    ]
    return f"Idle time of {' and '.join(told)} is left out; --keep-idle shows it.\n" if told else ""


def _gpus(stage: Stage) -> Iterator[Panel]:
    limit = stage.told.subject.facts.power_limit_w
    each = (
        float(limit.value) / stage.readings["gpu"].n_unique()
        if limit and "node" not in stage.readings
        else None
    )
    levels = {"power": Level(each, f"limit {each:.0f} W")} if each else {}
    yield from gpus.panels(stage.readings, stage.time, stage.marks, levels)


def _run(stage: Stage) -> Iterator[Panel]:
    told, name = stage.told, stage.told.subject.name
    yield from gpus.energy_panels(told.steps, stage.time, name, stage.marks)
    yield from metrics.over_time(told.placed.records, told.placed.evals, stage.time, name, stage.marks)


def _rhythm(stage: Stage) -> Iterator[Heat | None]:
    """By ticks in windows of a minute, by whole seconds in windows of ten."""
    told, start_ns = stage.told, stage.time.start_ns or 0
    refresh = _refresh_hz(told)
    hz = samples.polled_hz(told.subject)
    if hz:
        longest_s = longest_silence_ns(SECOND / hz) / SECOND
        minute = SpectrumWindows(MINUTE_S, hz, 0.0, stage.length_s, longest_s)
        ticks = samples.power(told.subject, start_ns)
        title = "Power in windows of 1 min: steps"
        yield spectrogram.panel("spectrogram-1min", title, ticks, minute, stage.time, refresh)
        if hz >= 1:
            ten = SpectrumWindows(TEN_MINUTES_S, 1.0, 0.0, stage.length_s, longest_s)
            seconds = samples.power_by_second(told.subject, start_ns)
            title = "Power in windows of 10 min: evaluations"
            yield spectrogram.panel("spectrogram-10min", title, seconds, ten, stage.time, refresh)


def _refresh_hz(told: Report) -> float | None:
    """Of power, of the first GPU of which it is known."""
    return next((own["power_w"] for own in report.refresh(told).values() if own.get("power_w")), None)


MOST_EVENTS = 500
Column = tuple[str, str, float, str]  # name of the figure, heading, times what, how it is written
COMMON: tuple[Column, ...] = (
    ("power_mean_w", "mean W", 1, ",.0f"),
    ("power_peak_w", "peak W", 1, ",.0f"),
    ("energy_counter_j", "J by counter", 1, ",.1f"),
    ("energy_j", "J by integral", 1, ",.1f"),
    ("energy_difference", "apart %", 100, "+.2f"),
    ("util", "in use %", 1, ".0f"),
    ("temp_peak_c", "hottest °C", 1, ".0f"),
    ("sm_mhz", "SM MHz", 1, ",.0f"),
    ("throttled_s", "throttled s", 1, ",.1f"),
)
KINDS: tuple[Column, ...] = (("duration_s", "seconds", 1, ",.1f"), ("share", "share %", 100, ".1f"), *COMMON)
PHASES: tuple[Column, ...] = (
    ("steps", "steps", 1, ",.0f"),
    ("attempts", "attempts", 1, ",.0f"),
    ("step_s", "ms a step (median)", 1000, ",.2f"),
    ("tok_per_sec", "tok/s by the time that passed", 1, ",.0f"),
    ("tok_per_sec_printed", "tok/s as printed (mean)", 1, ",.0f"),
    ("j_per_step", "J a step", 1, ",.2f"),
    ("j_per_token", "mJ a token", 1000, ",.4g"),
)
GPUS: tuple[Column, ...] = (
    *COMMON,
    ("mem_peak_mib", "peak MiB", 1, ",.0f"),
    ("tensor_active", "tensor %", 1, ".1f"),
    ("dram_active", "DRAM %", 1, ".1f"),
)
APART = "Apart is how far the integral of power lies from the driver's own counter."


def about(told: Report) -> str:
    """When, on what, by what command; and how the log's times were found."""
    recording = told.subject.recording
    lines = []
    if recording:
        facts = recording.descriptions[0]
        lines += [told.subject.command] if told.subject.command else []
        host = (facts.get("host") or {}).get("name")
        gpus = [gpu["name"] for gpu in facts.get("gpus") or ()]
        names = ", ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
        started = run_folder.wall_ns(facts, "started")
        when = iso(started)[:19].replace("T", " ") + " UTC" if started else None
        lines.append(" · ".join(word for word in (names, host, when) if word))
    if told.subject.log.records.height:
        sure = told.placed.uncertainty_s
        lines.append(f"{told.subject.log.status}; {told.placed.how}" + (f", ± {sure:g} s" if sure else ""))
    return "\n".join(lines)


def tables(told: Report) -> list[Table]:
    found = [
        Table(
            "Verdicts",
            ("question", "answer", "evidence"),
            [(v.question, v.answer, "; ".join(v.evidence)) for v in told.verdicts],
        ),
        _frame("What each kind of time cost", told.totals, ("kind",), KINDS, APART),
        _frame("Training, by phase", told.phases, ("phase",), PHASES),
        _frame("GPUs over the training", told.gpus, ("node", "gpu"), GPUS, APART),
        _sensors(told),
        Table(
            "Facts of the run",
            ("fact", "value", "origin"),
            [(name, fact.value, fact.origin) for name, fact in told.subject.facts.known().items()],
            folded=True,
        ),
        _events(told),
    ]
    return [table for table in found if table.rows]


def _frame(
    title: str, frame: pl.DataFrame, keys: Sequence[str], columns: Sequence[Column], note: str = ""
) -> Table:
    """Of what was measured; `keys` say of whom."""
    held = [name for name in keys if name in frame.columns and frame[name].count()]
    told = [column for column in columns if column[0] in frame.columns and frame[column[0]].count()]
    rows = [
        [*(row[name] for name in held), *(_cell(row[name], times, form) for name, _, times, form in told)]
        for row in frame.iter_rows(named=True)
    ]
    apart = note if any(name == "energy_difference" for name, *_ in told) else ""
    return Table(
        title,
        [*("GPU" if name == "gpu" else name for name in held), *(heading for _, heading, _, _ in told)],
        rows,
        note=apart,
    )


def _cell(value: float | None, times: float, form: str) -> str | None:
    return None if value is None else format(times * value, form)


def _sensors(told: Report) -> Table:
    """What was asked for, and what the sensors really gave."""
    by_gpu: Mapping[str, Mapping[str, float | None]] = report.refresh(told)
    names = list(dict.fromkeys(name for own in by_gpu.values() for name in own))
    rows = [
        [gpu, *("indeterminate" if (hz := own.get(name)) is None else f"{hz:.2f} Hz" for name in names)]
        for gpu, own in by_gpu.items()
    ]
    sampling = (told.account or {}).get("sampling")
    note = ""
    if sampling and sampling["polled_hz"]:
        note = f"Polled {sampling['polled_hz']:.1f} times a second; asked for {sampling['asked_hz']:g}. "
    note += "A value that is polled more often than it is refreshed is repeated, not measured again."
    return Table("How often each sensor really refreshed", ["GPU", *names], rows, note=note)


def _events(told: Report) -> Table:
    rows = [(row["time"], row["kind"], row["text"]) for row in _told_events(told)]
    shown = [
        (None if at is None else f"{at:%Y-%m-%d %H:%M:%S}", kind, text)
        for at, kind, text in rows[:MOST_EVENTS]
    ]
    note = f"The first {MOST_EVENTS} of {len(rows):,}." if len(rows) > MOST_EVENTS else ""
    return Table("Events", ("time (UTC)", "event", "text"), shown, note=note, folded=len(rows) > 12)


def _told_events(told: Report) -> list[dict[str, Any]]:
    recording = told.subject.recording
    frames = [told.placed.events.filter(pl.col("kind") != "eval"), *([recording.events] if recording else [])]
    parts = [frame.select("time", "kind", "text") for frame in frames]
    return list(pl.concat(parts, how="vertical_relaxed").sort("time", nulls_last=True).iter_rows(named=True))
