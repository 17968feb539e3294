"""A recording without a sample, as of a command that fails at once -> what is printed at its end.

Uses descriptions and events alone: importing numpy and polars would take longer than such a command.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

from gputel.analysis import text
from gputel.analysis.document import Document, FactList, Section, caution
from gputel.analysis.runs.recording import open_recording
from gputel.telemetry import completeness, events, run_folder
from gputel.telemetry.host.columns import TABLES
from gputel.telemetry.store import parts

LONGEST_S = 3.0


def short_document(path: Path) -> Document | None:
    """Returns None for a recording that took longer, or that continues another."""
    recording = open_recording(path)
    facts, (segment, *others) = recording.descriptions[0], recording.folder.segments
    seconds = run_folder.between_s(facts, "started", facts, "ended")
    if others or seconds is None or seconds > LONGEST_S:
        return None
    tables = [segment.gpu, *(segment.path / table for table in TABLES)]
    stored = sum(part.path.stat().st_size for table in tables for part in parts.current(table))
    printed = f"{text.size(segment.output.stat().st_size)} of output, " if segment.output.exists() else ""
    shown = {
        "recorded": f"{text.duration(seconds)}; no GPU was sampled",
        "not sampled": "\n".join(completeness.not_sampled(segment.path)),
        "events": text.events(Counter(event["kind"] for event in events.read(segment.path))),
        "run": f"{path} ({printed}{text.size(stored)} of telemetry)",
    }
    return Document(
        title=recording.name,
        sections=[Section(items=[FactList(shown)])],
        caution=caution(recording.simulated),
        next=shlex.join(["gputel", "report", str(path)]),
    )
