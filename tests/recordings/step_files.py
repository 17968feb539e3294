"""Files of steps as hooks in a training write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from gputel.telemetry.inside import step_records
from tests.recordings.printed import SECOND, START

RECORD = struct.Struct("<6qIIHHI")


def step_file(
    segment: Path,
    ends: Sequence[float],
    *,
    wait_ms: Sequence[float] = (),
    rank: int | None = None,
    flags: Sequence[int] = (),
    process: str = "71-9",
    fetches: int = 1,
) -> Path:
    """One process whose steps ended at these seconds; backward takes 2 ms, the optimizer 1 ms."""
    content = step_records.HEADER.pack(step_records.MAGIC, START, -1 if rank is None else rank, -1)
    for number, end in enumerate(ends):
        length = round((end - ends[number - 1]) * SECOND) if number else -1
        wait = round((wait_ms[number] if wait_ms else 0.0) * 1e6)
        flag = flags[number] if flags else step_records.WAITS
        values = START + round(end * SECOND), length, wait, 2_000_000, 1_000_000, 500_000
        content += RECORD.pack(*values, fetches, 1, 1, flag, 0)
    path = segment / "inside" / f"{process}{step_records.ENDING}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path
