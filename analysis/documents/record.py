"""A recording -> documents: what is printed when it ends, and what `gputel info` says a run folder holds."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from gputel.analysis import text
from gputel.analysis.document import Document, FactList, Section, Table, caution
from gputel.analysis.documents.machine import machine_words
from gputel.analysis.report.checkup import gpu_names
from gputel.analysis.report.gpu_totals import GpuTotals
from gputel.analysis.report.machine import MachineSampling
from gputel.analysis.report.summary import (
    RecordedReadings,
    RecordingSummary,
    RunContents,
    SamplingSummary,
    SegmentContents,
    TierRows,
    refreshed,
)
from gputel.telemetry.remote.local_copy import shown

TOO_FEW = "too few changes to tell"
COVERED = 0.995  # share of the time, below which the covered share is mentioned
LEAST_RANGE = 0.002  # share of the energy, below which the range of the difference is left out
SHORTFALL = 0.95  # share of the rate asked for, below which the difference is mentioned
SENSORS = {
    "power_w": "power",
    "power_avg_w": "average power",
    "energy_j": "energy",
    "temp_c": "temperature",
    "util": "utilization",
    "sm_mhz": "clock",
}


def record_document(summary: RecordingSummary) -> Document:
    """The end of a recording."""
    gpus = summary.gpus
    sensors = sensor_refresh(refreshed(gpus[0]), gpus[0].every_poll) if gpus else {}
    facts = FactList(
        {
            "recorded": _duration(summary),
            **{_gpu_name(gpu): _gpu(gpu) for gpu in gpus},
            "rows": "\n".join(_rows(tier) for tier in summary.sampling.tiers) if summary.sampling else None,
            "not sampled": "\n".join(summary.not_sampled),
            "sensors": "\n".join(f"{name}: {words}" for name, words in sensors.items() if words),
            "machine": "\n".join(words for machine in summary.machines if (words := machine_words(machine))),
            "overhead": _overhead(summary.sampling),
            "stopped": summary.stopped["text"] if summary.stopped else None,
            "events": text.events(summary.events),
            "run": f"{summary.path} ({_sizes(summary)})",
        }
    )
    return Document(
        title=summary.run,
        sections=[Section(items=[facts])],
        caution=caution(summary.simulated),
        next=shlex.join(["gputel", "report", str(summary.path)]),
    )


def sensor_refresh(
    rates: Mapping[str, float | None], every_poll: Collection[str] = ()
) -> dict[str, str | None]:
    """How often each sensor of a GPU really refreshed, and of which sensors that is not known.

    A sensor that changed at `every_poll` may be faster than it was polled.
    """
    measured = [
        f"{SENSORS[name]} {'at least ' * (name in every_poll)}{hz:.1f} Hz"
        for name, hz in rates.items()
        if hz is not None
    ]
    unknown = [SENSORS[name] for name, hz in rates.items() if hz is None]
    return {
        "refreshed": ", ".join(measured) or None,
        TOO_FEW: ", ".join(unknown) or None,
    }


def energies(gpu: GpuTotals) -> str | None:
    """Energy by the driver's counter and by the integral of power, and how far the integral is from the counter.

    The integral covers only the time with readings, and is compared with what the counter grew by in that time.
    Where power rose or fell in between, late readings move the integral: the range says by how much.
    """
    counter, integral = gpu.energy_counter_j, gpu.energy_integral_j
    if integral is None:
        return None if counter is None else f"{text.energy(counter)} by counter"
    share = (
        ""
        if gpu.covered is None or gpu.covered >= COVERED
        else f" over {100 * gpu.covered:.0f} % of the time"
    )
    by_integral = f"{text.energy(integral)} by integral{share}"
    if counter is None:
        return f"{by_integral} (no counter)"
    both = f"{text.energy(counter)} by counter, {by_integral}"
    if gpu.few_refreshes:
        return f"{both} (too short to compare)"
    difference, edges = gpu.energy_difference, (gpu.edges_j or 0.0) / (counter or math.inf)
    within = f" ±{100 * edges:.1f} %" if edges >= LEAST_RANGE else " %"
    return both if difference is None else f"{both} ({100 * difference:+.1f}{within})"


def _duration(summary: RecordingSummary) -> str:
    sampling, seconds = summary.sampling, summary.duration_s
    words = "for an unknown time" if seconds is None else text.duration(seconds)
    if summary.segments > 1:
        words += f" in {summary.segments} segments"
    if summary.downtime_s:
        words += f", with {text.duration(summary.downtime_s)} downtime between them"
    if sampling:
        return f"{words}; {_polling(sampling)}"
    return f"{words}; " + ("its polling rate is not known" if summary.gpus else "no GPU was sampled")


def _polling(sampling: SamplingSummary) -> str:
    polled, asked = sampling.polled_hz, sampling.asked_hz
    words = "polling rate unknown" if polled is None else f"polled {polled:.1f} Hz"
    if polled is not None and polled < SHORTFALL * asked:
        words += f" of {asked:g} asked for"
    if sampling.lateness_max_ms is not None:
        words += f", at most {sampling.lateness_max_ms:.1f} ms late"
    if sampling.missed:
        words += f", {sampling.missed:,} ticks missed"
    if sampling.not_kept:
        words += f", {sampling.not_kept:,} rows not kept, as the disk was full or too slow"
    return words


def _rows(tier: TierRows) -> str:
    """The rows of a tier over the time, and by the minute where their rate changed."""
    words = f"{tier.tier} {tier.rows:,}" + (f", {tier.hz:.1f} Hz" if tier.hz else "")
    if len(tier.minutes) > 1:
        first, *changes = tier.minutes
        later = ", ".join(f"{change.hz:g} Hz from minute {change.minute + 1}" for change in changes)
        words += f"; {first.hz:g} Hz at first, {later}"
    return words


def _gpu_name(gpu: GpuTotals) -> str:
    return f"GPU {gpu.gpu}" if gpu.node is None else f"node {gpu.node} GPU {gpu.gpu}"


def _gpu(gpu: GpuTotals) -> str:
    parts = [
        _unit(gpu.power_mean_w, "{:.0f} W mean"),
        _unit(gpu.power_peak_w, "{:.0f} W peak"),
        energies(gpu),
        None if gpu.mem_peak_mib is None else f"{text.mebibytes(gpu.mem_peak_mib)} peak",
        _unit(gpu.temp_peak_c, "{:.0f} °C peak"),
        *(f"{text.duration(seconds)} throttled: {reason}" for reason, seconds in gpu.throttle_s.items()),
    ]
    return ", ".join(part for part in parts if part)


def _overhead(sampling: SamplingSummary | None) -> str | None:
    """The cost of sampling; a recording of a second has only the cost of its start."""
    if not sampling or sampling.driver_share is None:
        return None
    share, start = sampling.cpu_share, f"{sampling.startup_cpu_s:.2f} s of CPU to start"
    driver = f"{100 * sampling.driver_share:.2f} % of the time in calls into the driver"
    parts = [start, driver] if share is None else [f"{100 * share:.1f} % of a core", driver, f"after {start}"]
    words = f"{', '.join(parts)}; {text.mebibytes(sampling.resident_mib)} resident"
    lowered = [
        f"{' and '.join(part['readings']) if 'readings' in part else part['tier']} to {part['hz']:g} Hz"
        for part in sampling.lowered
    ]
    return words + (f"; lowered to stay within --max-overhead: {', '.join(lowered)}" if lowered else "")


def _sizes(summary: RecordingSummary) -> str:
    output = summary.output_bytes
    parts = [] if output is None else [f"{text.size(output)} of output"]
    return ", ".join([*parts, f"{text.size(summary.telemetry_bytes)} of telemetry"])


def _unit(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)


def info_document(contents: RunContents) -> Document:
    """The document of `gputel info`: the contents of a run folder."""
    commit, path = contents.git, shown(Path(contents.path))
    facts = FactList(
        {
            "run": contents.run,
            "path": path,
            "command": " ".join(contents.argv or []) or _no_command(contents),
            "host": contents.host,
            "commit": commit["commit"][:12] + (" with changes" if commit["dirty"] else "")
            if commit
            else None,
            "tags": ", ".join(f"{key}={value}" for key, value in contents.tags.items()),
            "time": text.duration(contents.duration_s) if contents.duration_s else None,
            "downtime": text.duration(contents.downtime_s) if contents.downtime_s else None,
            "machine": _machine(contents.machine),
            "not read": "\n".join(contents.machine.unread) if contents.machine else None,
        }
    )
    telemetry, quoted = contents.telemetry, shlex.quote(str(path))
    return Document(
        title=contents.run,
        sections=[
            Section(
                items=[facts, _segments(contents), *([_readings(contents, telemetry)] if telemetry else [])]
            )
        ],
        caution=caution(contents.simulated),
        next=f"gputel export {quoted} --parquet FILE, gputel parse {quoted}",
    )


def _no_command(contents: RunContents) -> str:
    if contents.argv is None:
        return "unknown: run.json does not name it"
    copied = sum(segment.output_bytes or 0 for segment in contents.segments)
    return f"none: {'a log was copied as it grew' if copied else 'only telemetry was recorded'}"


def _machine(sampling: MachineSampling | None) -> str | None:
    if sampling is None:
        return None
    cost = (
        "" if sampling.cpu_share is None else f"; reading it took {100 * sampling.cpu_share:.2f} % of a core"
    )
    lowered = f"; slowed down to save CPU: {', '.join(sampling.lowered)}" if sampling.lowered else ""
    return f"recorded beside the GPUs{cost}{lowered}"


def _segments(contents: RunContents) -> Table:
    names = ("attempt", "node", "started", "time", "exit", "output", "telemetry", "events")
    return Table("", names, [_segment(segment) for segment in contents.segments])


def _segment(segment: SegmentContents) -> tuple[object, ...]:
    started, seconds, output = segment.started, segment.duration_s, segment.output_bytes
    return (
        segment.attempt,
        segment.node,
        started and started[:19].replace("T", " ") + " UTC",
        "no end" if seconds is None else text.duration(seconds),
        segment.exit_code,
        None if output is None else text.size(output),
        text.size(segment.telemetry_bytes),
        text.events(segment.events) or None,
    )


def _readings(contents: RunContents, telemetry: RecordedReadings) -> Table:
    rows = [
        (name, column["unit"], *(_figure(column[key]) for key in ("min", "mean", "max")))
        for name, column in telemetry.columns.items()
    ]
    gpus, names = text.counted(len(telemetry.gpus), "GPU"), gpu_names(contents.gpus)
    title = f"{text.counted(telemetry.rows, 'row')} of {gpus}" + (f": {names}" if names else "")
    return Table(title, ("reading", "unit", "min", "mean", "max"), rows)


def _figure(value: float | None) -> str | None:
    return None if value is None else text.number(value, 2)
