"""What is told of a run -> tables of its page: verdicts, what each kind of time cost, GPUs, sensors, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import reported
from gputel.analysis.document import Table
from gputel.telemetry import run
from gputel.telemetry.clock import iso

if TYPE_CHECKING:
    from gputel.analysis.reported import Reported

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


def about(told: Reported) -> str:
    """When, on what, by what command; and how the log's times were found."""
    recording = told.subject.recording
    lines = []
    if recording:
        facts = recording.descriptions[0]
        lines += [told.subject.command] if told.subject.command else []
        host = (facts.get("host") or {}).get("name")
        gpus = [gpu["name"] for gpu in facts.get("gpus") or ()]
        names = ", ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
        started = run.wall_ns(facts, "started")
        when = iso(started)[:19].replace("T", " ") + " UTC" if started else None
        lines.append(" · ".join(word for word in (names, host, when) if word))
    if told.subject.log.records.height:
        sure = told.placed.uncertainty_s
        lines.append(f"{told.subject.log.status}; {told.placed.how}" + (f", ± {sure:g} s" if sure else ""))
    return "\n".join(lines)


def tables(told: Reported) -> list[Table]:
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


def _sensors(told: Reported) -> Table:
    """What was asked for, and what the sensors really gave."""
    by_gpu: Mapping[str, Mapping[str, float | None]] = reported.refresh(told)
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


def _events(told: Reported) -> Table:
    rows = [(row["time"], row["kind"], row["text"]) for row in _told_events(told)]
    shown = [
        (None if at is None else f"{at:%Y-%m-%d %H:%M:%S}", kind, text)
        for at, kind, text in rows[:MOST_EVENTS]
    ]
    note = f"The first {MOST_EVENTS} of {len(rows):,}." if len(rows) > MOST_EVENTS else ""
    return Table("Events", ("time (UTC)", "event", "text"), shown, note=note, folded=len(rows) > 12)


def _told_events(told: Reported) -> list[dict[str, Any]]:
    recording = told.subject.recording
    frames = [told.placed.events.filter(pl.col("kind") != "eval"), *([recording.events] if recording else [])]
    parts = [frame.select("time", "kind", "text") for frame in frames]
    return list(pl.concat(parts, how="vertical_relaxed").sort("time", nulls_last=True).iter_rows(named=True))
