"""When the bundles of a segment were sent, by the clock of its node, and stored, by the clock of storage.

A local copy keeps them beside the segment, a line each. Every bundle bounds how far the two clocks are apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.own_files import read_own
from gputel.telemetry.remote import bundles
from gputel.telemetry.remote.storage import StoredObject

NAME = ".bundles.jsonl"
LARGEST = 64 << 20


@dataclass(frozen=True)
class Sighting:
    """One bundle; `sent` and `acked` are nanoseconds of the boot clock, `stored` those since 1970."""

    sent: int
    stored: int
    acked: int | None


def append(file: Path, listed: StoredObject, bundle: bytes) -> None:
    """Notes a bundle that was fetched; one whose storage does not say when it came is left out."""
    times, stored = bundles.times(bundle), int(listed.modified.timestamp() * SECOND)
    if times.sent is not None and stored > 0:
        row = {"number": int(listed.name[-8:]), "stored": stored, **times._asdict()}
        with file.open("a") as handle:
            handle.write(f"{json.dumps(row)}\n")


def read(segment: Path, boot: str) -> list[Sighting]:
    """The bundles that the machine itself sent in that boot, in order; [] of what was not fetched from storage."""
    try:
        lines = read_own(segment / NAME, LARGEST).splitlines()
    except (OSError, GputelError):
        return []
    rows = {row["number"]: row for line in lines if (row := _row(line)) and row.get("boot") == boot}
    acked = {number - 1: row.get("acked_before") for number, row in rows.items()}
    return [Sighting(row["sent"], row["stored"], acked.get(number)) for number, row in sorted(rows.items())]


def _row(line: bytes) -> dict[str, Any] | None:
    """None of a line that is torn, or that `append` has not written."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    whole = isinstance(row, dict) and all(
        isinstance(row.get(name), int) for name in ("number", "stored", "sent")
    )
    return row if whole else None
