"""A record of W&B's system metrics -> values at a moment: every 15 s, unless the run asked for more."""

from __future__ import annotations

import json

from gputel.analysis.stores.points import number
from gputel.analysis.stores.protobuf import BYTES, VARINT, fields, signed, text
from gputel.analysis.stores.system_metrics import SystemMetrics

LATEST_S = 9 * 10**9


def take(data: bytes, at: int, end: int, metrics: SystemMetrics) -> None:
    """Takes one record of readings."""
    moment, cells = 0, dict[str, float | None]()
    for part in fields(data, at, end):
        if part.number == 2 and part.kind == BYTES:
            moment = nanoseconds(data, part.start, part.end)
        elif part.number == 3 and part.kind == BYTES:
            name, value = _reading(data, part.start, part.end)
            cells[name] = value
    for name, value in cells.items():
        metrics.take(moment, name, value)


def nanoseconds(data: bytes, at: int, end: int) -> int:
    """A moment as protobuf has it, since 1970; 0 of one that no run has."""
    parts = {part.number: signed(part.value) for part in fields(data, at, end) if part.kind == VARINT}
    seconds = parts.get(1, 0)
    return seconds * 10**9 + parts.get(2, 0) if 0 < seconds < LATEST_S else 0


def _reading(data: bytes, at: int, end: int) -> tuple[str, float | None]:
    name, value = "", None
    for part in fields(data, at, end):
        if part.number == 1 and part.kind == BYTES:
            name = text(data, part)
        elif part.number == 16 and part.kind == BYTES:
            value = number(json.loads(data[part.start : part.end]))
    return name, value
