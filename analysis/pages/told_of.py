"""What is told of a run -> tables of its page: verdicts, what each kind of time cost, GPUs, sensors, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import reported
from gputel.analysis.figures.panel import Table
from gputel.telemetry.clock import iso

if TYPE_CHECKING:
    from gputel.analysis.reported import Reported

MOST_EVENTS = 500
COMMON = (
    "power_mean_w",
    "power_peak_w",
    "energy_j",
    "energy_counter_j",
    "energy_difference",
    "util",
    "temp_peak_c",
    "sm_mhz",
    "throttled_s",
)
KINDS = ("kind", "duration_s", "share", *COMMON)
GPUS = ("node", "gpu", *COMMON, "mem_peak_mib", "tensor_active", "dram_active")


def about(told: Reported) -> str:
    """When, on what, by what command; and how the log's times were found."""
    recording = told.subject.recording
    lines = []
    if recording:
        facts = recording.descriptions[0]
        argv = " ".join(facts.get("argv") or ())
        lines += [argv] if argv else []
        host = (facts.get("host") or {}).get("name")
        gpus = [gpu["name"] for gpu in facts.get("gpus") or ()]
        names = ", ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
        started = (facts.get("started") or {}).get("wall_ns")
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
        _frame("What each kind of time cost", told.totals, KINDS),
        _frame("GPUs over the training", told.gpus, GPUS),
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


def _frame(title: str, frame: pl.DataFrame, columns: Sequence[str]) -> Table:
    names = [name for name in columns if name in frame.columns and frame[name].count()]
    return Table(title, names, [_rounded(row) for row in frame.select(names).iter_rows()])


def _rounded(row: Sequence[Any]) -> list[object]:
    return [round(cell, 4) if isinstance(cell, float) else cell for cell in row]


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
