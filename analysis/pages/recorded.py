"""What is told of a run -> its page: power, temperature, clocks over time, with what happened drawn behind them.

The run's own curves lie on the same axis; idle ends are cut off unless they are asked for. A run without telemetry
has its curves by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis import reported
from gputel.analysis.align import busy
from gputel.analysis.align.held import longest_silence_ns
from gputel.analysis.document import Axis, Heat, Level, Mark, Page, Panel, Section
from gputel.analysis.figures import energy, happened, metrics, spectrogram, spent, telemetry
from gputel.analysis.figures.spectrogram import Windows
from gputel.analysis.pages import parsed, readings, told_of
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.reported import Reported

MARGIN_S = 5.0
MINUTE_S, TEN_MINUTES_S = 60.0, 600.0


@dataclass(frozen=True)
class Stage:
    """What is shown of a run's telemetry, and behind what; `cut_s` was idle before and after it."""

    told: Reported
    readings: pl.DataFrame
    time: Axis
    length_s: float
    marks: tuple[Mark, ...]
    cut_s: tuple[float, float]


def page(told: Reported, *, keep_idle: bool = False) -> Page:
    subject = told.subject
    stage = staged(told, keep_idle=keep_idle)
    sections = [
        Section(items=list(spent.panels(told.totals, subject.name))),
        *(_of_stage(stage) if stage else parsed.curves(parsed.lines_of(subject, subject.name))),
        Section("What is known of it", told_of.tables(told)),
    ]
    return Page(
        title=subject.name,
        sections=[section for section in sections if section.items],
        about=told_of.about(told),
        caution=subject.caution,
    )


def staged(told: Reported, *, keep_idle: bool) -> Stage | None:
    """None where there is no telemetry."""
    frame = readings.of(told.subject)
    if frame is None:
        return None
    stamps = frame["time"].dt.epoch("ns")
    first, last = int(stamps.min()), int(stamps.max())  # type: ignore[arg-type]
    start, end = (first, last) if keep_idle else _at_work(told, frame, first, last)
    recording = told.subject.recording
    events = [told.placed.events, *([recording.events] if recording else [])]
    marks = [
        *happened.in_time(told.spans, start),
        *(m for own in events for m in happened.at_moments(own, start)),
    ]
    length_s = (end - start) / SECOND
    return Stage(
        told,
        frame.filter(stamps.is_between(start, end)),
        Axis("time", "time", "s", start),
        length_s,
        tuple(mark for mark in marks if 0 <= mark.x["time"] <= length_s or mark.end),
        ((start - first) / SECOND, (last - end) / SECOND),
    )


def _at_work(told: Reported, frame: pl.DataFrame, first: int, last: int) -> tuple[int, int]:
    """From the run's begin to its end, with a little before and after; without a log, where the GPUs worked."""
    found = busy.ends(frame)
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
    yield from telemetry.panels(stage.readings, stage.time, stage.marks, levels)


def _run(stage: Stage) -> Iterator[Panel]:
    told, name = stage.told, stage.told.subject.name
    yield from energy.panels(told.steps, stage.time, name, stage.marks)
    yield from metrics.over_time(told.placed.records, told.placed.evals, stage.time, name, stage.marks)


def _rhythm(stage: Stage) -> Iterator[Heat | None]:
    """By ticks in windows of a minute, by whole seconds in windows of ten."""
    told, start_ns = stage.told, stage.time.start_ns or 0
    refresh = _refresh_hz(told)
    hz = readings.polled_hz(told.subject)
    if hz:
        longest_s = longest_silence_ns(SECOND / hz) / SECOND
        minute = Windows(MINUTE_S, hz, 0.0, stage.length_s, longest_s)
        ticks = readings.power(told.subject, start_ns)
        title = "Power in windows of 1 min: steps"
        yield spectrogram.panel("spectrogram-1min", title, ticks, minute, stage.time, refresh)
        if hz >= 1:
            ten = Windows(TEN_MINUTES_S, 1.0, 0.0, stage.length_s, longest_s)
            seconds = readings.power_by_second(told.subject, start_ns)
            title = "Power in windows of 10 min: evaluations"
            yield spectrogram.panel("spectrogram-10min", title, seconds, ten, stage.time, refresh)


def _refresh_hz(told: Reported) -> float | None:
    """Of power, of the first GPU of which it is known."""
    return next((own["power_w"] for own in reported.refresh(told).values() if own.get("power_w")), None)
