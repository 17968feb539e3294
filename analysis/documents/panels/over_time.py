"""A run's telemetry over time, with its own curves on the same axis, and the power spectrum.

Idle time before and after the work is left out unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.align import timestamps
from gputel.analysis.align.join import JOULES, WHOLE
from gputel.analysis.align.windows import longest_silence_ns
from gputel.analysis.compare.axes import floats
from gputel.analysis.document import Conversion, Curves, Heat, Level, Marker, Panel, PlotAxis, Section, Series
from gputel.analysis.documents.panels import gpus, machine, markers, metrics, samples, spectrogram
from gputel.analysis.documents.panels.run_axes import STEP, conversions, step_axes
from gputel.analysis.documents.panels.samples import drawn_samples
from gputel.analysis.documents.panels.spectrogram import Aliases, LowPass, SpectrumWindows
from gputel.analysis.report import run_report
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report

MARGIN_S = 5.0
SLOWEST_HZ = 0.95  # readings below it have no spectrum of evaluations
FASTEST_STEPS_HZ = 20.0  # readings from which on hardly any training's steps are folded down
ENOUGH_HZ = 2.0  # readings from which on a second has several, so that it can be low-passed
MINUTE_S, TEN_MINUTES_S = 60.0, 600.0
COSTS = (
    ("energy-per-step", "Energy per step", "J", pl.when(pl.col("measured") >= WHOLE).then(JOULES)),
    ("energy-per-token", "Energy per token", "J", pl.col("j_per_token")),
)


@dataclass(frozen=True)
class Stage:
    """The part of a run's telemetry that is drawn; `cut_s` is the idle time left out before and after it."""

    report: Report
    readings: pl.DataFrame
    time: PlotAxis
    length_s: float
    markers: tuple[Marker, ...]
    cut_s: tuple[float, float]


def telemetry_sections(
    report: Report, *, keep_idle: bool, price: float | None = None
) -> tuple[list[Section], list[Conversion]] | None:
    """Sections, and what else their time can be converted to; None where there is no telemetry."""
    stage = _staged(report, keep_idle=keep_idle)
    if stage is None:
        return None
    spectra = list(_spectra(stage))
    pictures = [panel for panel in spectra if isinstance(panel, Heat)]
    missing = [why for why in spectra if isinstance(why, str)]
    if not pictures and not missing:
        missing = ["There is no power spectrum: the recording is shorter than a minute."]
    sections = [
        Section("Training", list(_curves(stage)), wide=True),
        Section("GPUs", list(_gpus(stage)), _left_out(stage) + "\n".join(missing), wide=True),
        Section("Power spectrum", pictures, wide=True),
        Section("Machine", list(_machine(stage)), wide=True),
    ]
    return sections, list(conversions(report, stage.time, "recording", price))


def machine_section(report: Report) -> Section:
    """The machine of a recording without GPUs, over all of it."""
    recording = report.subject.recording
    whole = machine.whole_time(recording) if recording else None
    panels = list(machine.panels(recording, *whole)) if recording and whole else []
    return Section("Machine", panels, wide=True)


def _staged(report: Report, *, keep_idle: bool) -> Stage | None:
    frame = drawn_samples(report.subject)
    if frame is None:
        return None
    stamps = frame["time"].dt.epoch("ns")
    first, last = int(stamps.min()), int(stamps.max())  # type: ignore[arg-type]
    start, end = (first, last) if keep_idle else _at_work(report, frame, first, last)
    recording = report.subject.recording
    events = [report.placed.events, *([recording.events] if recording else [])]
    marks = [
        *markers.in_time(report.spans, start),
        *(mark for rows in events for mark in markers.at_moments(rows, start)),
    ]
    length_s = (end - start) / SECOND
    return Stage(
        report,
        frame.filter(stamps.is_between(start, end)),
        PlotAxis("time", "time", "s", start),
        length_s,
        tuple(mark for mark in marks if 0 <= mark.x["time"] <= length_s or mark.end),
        ((start - first) / SECOND, (last - end) / SECOND),
    )


def _at_work(report: Report, frame: pl.DataFrame, first: int, last: int) -> tuple[int, int]:
    """The time from the run's start to its end, with a margin; without a log, where the GPUs worked."""
    work = timestamps.ends(frame)
    if len(report.spans):
        edges = pl.col("start").min().dt.epoch("ns"), pl.col("end").max().dt.epoch("ns")
        start, end = report.spans.select(edges).row(0)
        if start < last and end > first:
            work = start, end
    if work is None:
        return first, last
    margin = int(MARGIN_S * SECOND)
    return max(first, work[0] - margin), min(last, work[1] + margin)


def _left_out(stage: Stage) -> str:
    parts = [
        f"{seconds:,.0f} s {where} the run"
        for seconds, where in zip(stage.cut_s, ("before", "after"), strict=True)
        if seconds >= MARGIN_S
    ]
    return f"Idle time is left out: {' and '.join(parts)}; --keep-idle shows it.\n" if parts else ""


def _gpus(stage: Stage) -> Iterator[Panel]:
    limit = stage.report.subject.facts.power_limit_w
    per_gpu = (
        float(limit.value) / stage.readings["gpu"].n_unique()
        if limit and "node" not in stage.readings
        else None
    )
    levels = {"power": Level(per_gpu, f"limit {per_gpu:.0f} W")} if per_gpu else {}
    yield from gpus.panels(stage.readings, stage.time, stage.markers, levels)


def _machine(stage: Stage) -> Iterator[Panel]:
    recording = stage.report.subject.recording
    if recording:
        yield from machine.panels(recording, stage.time, stage.length_s, stage.markers)


def _curves(stage: Stage) -> Iterator[Panel]:
    report, name = stage.report, stage.report.subject.name
    placed = report.placed
    axes = step_axes(report.subject, placed.records)
    yield from metrics.over_time(placed.records, placed.evals, stage.time, name, stage.markers, axes)
    yield from _step_costs(stage)


def _step_costs(stage: Stage) -> Iterator[Curves]:
    """Energy of each step and of its tokens, where the step ended."""
    steps, start_ns, run = stage.report.steps, stage.time.start_ns, stage.report.subject.name
    if steps.is_empty() or start_ns is None:
        return
    seconds = (steps["end"].dt.epoch("ns").to_numpy() - start_ns) / 1e9
    x = {"time": np.round(seconds, 3), "step": floats(steps["step"])}
    for name, title, unit, column in COSTS:
        y = floats(steps.select(column.alias("value"))["value"])
        if np.isfinite(y).any():
            yield Curves(
                name,
                title,
                (stage.time, STEP),
                PlotAxis(name, title, unit),
                (Series(run, x, y, run=run),),
                stage.markers,
                noisy=True,
                steady=True,
                link="recording",
            )


def _spectra(stage: Stage) -> Iterator[Heat | str | None]:
    """Spectra of ticks in windows of a minute, and of one a second in windows of ten."""
    subject, start_ns = stage.report.subject, stage.time.start_ns or 0
    hz = samples.polled_hz(subject)
    if hz is None:
        return
    refresh_hz = _power_refresh_hz(stage.report)
    longest_s = longest_silence_ns(SECOND / hz) / SECOND
    minute = SpectrumWindows(MINUTE_S, hz, 0.0, stage.length_s, longest_s)
    thinned = LowPass(hz, longest_s) if hz >= ENOUGH_HZ else None
    power = samples.power(subject, start_ns)
    yield spectrogram.panel(
        "spectrogram-1min", "Power spectrum in windows of 1 min: steps",
        thinned.through(power) if thinned else power, minute, stage.time, refresh_hz,
        aliases=_aliases(stage.report, hz, MINUTE_S),
    )  # fmt: skip
    if hz >= SLOWEST_HZ:
        ten = SpectrumWindows(TEN_MINUTES_S, 1.0, 0.0, stage.length_s, longest_s)
        yield spectrogram.panel(
            "spectrogram-10min", "Power spectrum in windows of 10 min: evaluations",
            thinned.series() if thinned else samples.power(subject, start_ns), ten, stage.time, refresh_hz,
            highest=spectrogram.PASS_HZ if thinned else None,
            aliases=_aliases(stage.report, hz, TEN_MINUTES_S),
        )  # fmt: skip


def _aliases(report: Report, hz: float, seconds: float) -> Aliases | None:
    """Returns where the steps of the longest phase would appear; None if they are seen where they are.

    No low pass removes what the readings themselves folded down.
    """
    phases = report.phases.drop_nulls("step_s")
    if phases.is_empty():
        return Aliases(None, ()) if hz < FASTEST_STEPS_HZ else None
    longest = phases.sort("duration_s", descending=True).row(0, named=True)
    steps = report.steps.filter(pl.col("phase").eq_missing(longest["phase"]) & (pl.col("steps") == 1))
    ends_s = steps["end"].dt.epoch("ns").to_numpy() / SECOND
    rhythm = spectrogram.step_rhythm(
        float(longest["step_s"]), ends_s, steps["duration_s"].to_numpy(), seconds
    )
    return spectrogram.step_aliases(rhythm, hz, seconds)


def _power_refresh_hz(report: Report) -> float | None:
    """The power sensor's refresh rate, from the first GPU for which it is known."""
    return next(
        (rates["power_w"] for rates in run_report.refresh(report).values() if rates.get("power_w")), None
    )
