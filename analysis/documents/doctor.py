"""The checks of a machine -> a document: what each found and how to fix it, and each reading of each GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from gputel.analysis.document import Document, FactList, Section, Table
from gputel.telemetry.doctor import Check

READINGS = ("GPU", "reading", "unit", "tier", "source", "µs/call", "refresh Hz")
UNREFRESHED = "no refresh rate: too few changes to tell"


def doctor_document(checks: Sequence[Check], readings: Sequence[Mapping[str, Any]]) -> Document:
    """`readings` are rows as `check_gpus` returns them; a reading that is missing has its fault as its source.

    GPUs of one model whose readings come from the same sources are one block, with the range of their figures.
    """
    states = Counter(check.state for check in checks)
    counts = ", ".join(f"{states[state]} {state}" for state in ("good", "poor", "bad"))
    rows = [row for gpus in _alike(readings) for row in _block(gpus, readings)]
    return Document(
        title="gputel doctor",
        about=f"{len(checks)} checks: {counts}",
        sections=[
            Section(items=[FactList({check.check: _found(check) for check in checks})]),
            Section(items=[Table("Readings", READINGS, rows, _note(readings))] if rows else []),
        ],
    )


def _note(readings: Sequence[Mapping[str, Any]]) -> str:
    idle = list(dict.fromkeys(row["gpu"] for row in readings if row["idle"]))
    if not idle:
        return UNREFRESHED
    subject = f"GPU {numbers(idle)} was" if len(idle) == 1 else f"GPUs {numbers(idle)} were"
    them = "it" if len(idle) == 1 else "them"
    return f"{UNREFRESHED}; {subject} idle: run `gputel doctor` again while a training runs on {them}"


def _alike(readings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Groups of GPUs whose readings have the same names, sources and faults."""
    signatures: dict[str, list[object]] = {}
    for reading in readings:
        facts = tuple(reading[name] for name in ("name", "reading", "tier", "source", "fault"))
        signatures.setdefault(reading["gpu"], []).append(facts)
    groups: dict[tuple[object, ...], list[str]] = {}
    for gpu, signature in signatures.items():
        groups.setdefault(tuple(signature), []).append(gpu)
    return list(groups.values())


def _block(gpus: Sequence[str], readings: Sequence[Mapping[str, Any]]) -> Iterator[list[object]]:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for reading in readings:
        if reading["gpu"] in gpus:
            by_name.setdefault(reading["reading"], []).append(reading)
    for name, alike in by_name.items():
        source = alike[0]["source"] or alike[0]["fault"]
        figures = (_spread([row[figure] for row in alike]) for figure in ("latency_us", "refresh_hz"))
        yield [numbers(gpus), name, alike[0]["unit"], alike[0]["tier"], source, *figures]


def numbers(gpus: Sequence[str]) -> str:
    """Formats `0-3, 5`; MIG instances stand by themselves."""
    runs: list[list[str]] = []
    for gpu in gpus:
        follows = runs and gpu.isdigit() and runs[-1][-1].isdigit() and int(gpu) == int(runs[-1][-1]) + 1
        if follows:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _spread(figures: Sequence[float | None]) -> object:
    """One figure, or a range if the figures differ by more than 5 %."""
    measured = [figure for figure in figures if figure is not None]
    if not measured:
        return None
    low, high = min(measured), max(measured)
    return round(median(measured), 2) if high - low <= 0.05 * high else f"{_short(low)} to {_short(high)}"


def _short(figure: float) -> str:
    return f"{figure:.3g}" if figure < 1000 else f"{figure:,.0f}"


def _found(check: Check) -> str:
    hint = f"\nhow to fix it: {check.hint}" if check.hint else ""
    return f"{check.state}: {check.found}{hint}"
