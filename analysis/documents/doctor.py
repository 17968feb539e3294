"""The checks of a machine -> a document: what each found and how to fix it, and each reading of each GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gputel.analysis.document import Document, FactList, Section, Table
from gputel.telemetry.doctor import Check

READINGS = ("GPU", "reading", "unit", "tier", "source", "µs/call", "refresh Hz")
UNREFRESHED = "no refresh rate: too few changes to tell"


def doctor_document(checks: Sequence[Check], readings: Sequence[Mapping[str, Any]]) -> Document:
    """`readings` are rows as `check_gpus` returns them; a reading that is not there has its fault as its source."""
    states = Counter(check.state for check in checks)
    counts = ", ".join(f"{states[state]} {state}" for state in ("good", "poor", "bad"))
    names = ("gpu", "reading", "unit", "tier", "source", "latency_us", "refresh_hz")
    rows = [[reading[name] for name in names] for reading in readings]
    for row, reading in zip(rows, readings, strict=True):
        row[names.index("source")] = reading["source"] or reading["fault"]
    return Document(
        title="gputel doctor",
        about=f"{len(checks)} checks: {counts}",
        sections=[
            Section(items=[FactList({check.check: _found(check) for check in checks})]),
            Section(items=[Table("Readings", READINGS, rows, UNREFRESHED)] if rows else []),
        ],
    )


def _found(check: Check) -> str:
    hint = f"\nhow to fix it: {check.hint}" if check.hint else ""
    return f"{check.state}: {check.found}{hint}"
