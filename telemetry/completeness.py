"""Compares a run folder with what its recorder wrote: one warning for each file that is missing, cut or foreign.

What is left is read as it is; the figures made of it say what share of the time they cover.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gputel.telemetry import events, own_files
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.process import output_index
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store import parts

MISSING, INCOMPLETE = "is missing", "is incomplete"


def warn(segments: Sequence[Segment], descriptions: Sequence[Mapping[str, Any]]) -> None:
    """Warns of what the segments lack; each description is its run.json, {} if that cannot be read."""
    for segment, facts in zip(segments, descriptions, strict=True):
        for fault in (*_foreign(segment), *_output(segment, facts), *_telemetry(segment, facts)):
            warnings.warn(fault, stacklevel=2)


def not_sampled(segment: Path) -> list[str]:
    """What says that a segment ended without its telemetry, or without that of a GPU."""
    texts: dict[object, str] = {}
    for event in events.read(segment):
        if event.get("kind") in ("gpu_lost", "no_telemetry"):
            texts[event.get("gpu")] = str(event.get("text"))
        elif event.get("kind") == "gpu_back":
            texts.pop(event.get("gpu"), None)
    return list(texts.values())


def _foreign(segment: Segment) -> Iterator[DamagedFile]:
    for path in (segment.output, segment.index, segment.path / events.NAME):
        if own_files.is_foreign(path):
            yield DamagedFile(path, own_files.FOREIGN)
    for path in parts.foreign(segment.gpu):
        yield DamagedFile(path, own_files.FOREIGN)


def _output(segment: Segment, facts: Mapping[str, Any]) -> Iterator[DamagedFile]:
    """The index is written after the output, so it never counts more than there is.

    While a run goes on, files may not be there yet.
    """
    has_printed = bool(facts.get("argv") and facts.get("ended"))
    covered = output_index.covered(segment.index)
    size = segment.output.stat().st_size if _is_there(segment.output) else None
    if size is None:
        if (has_printed or covered) and not os.path.lexists(segment.output):
            yield DamagedFile(segment.output, "what the command printed is left out", MISSING)
        return
    if covered is None:
        if has_printed and not os.path.lexists(segment.index):
            yield DamagedFile(segment.index, "the lines of the output have no recorded times", MISSING)
    elif covered > size:
        yield DamagedFile(segment.output, f"{size:,} of {covered:,} bytes are left", INCOMPLETE)
    elif covered < size and facts.get("ended"):
        text = f"it has the times of {covered:,} of {size:,} bytes of the output"
        yield DamagedFile(segment.index, text, INCOMPLETE)


def _telemetry(segment: Segment, facts: Mapping[str, Any]) -> Iterator[DamagedFile]:
    if not os.path.lexists(segment.gpu):
        if facts.get("gpus") and facts.get("ended"):
            yield DamagedFile(segment.gpu, "what was sampled is left out", MISSING)
        return
    numbers: dict[str, set[int]] = {}
    for part in parts.every_file(segment.gpu):
        numbers.setdefault(part.tier, set()).update(range(part.first, part.last + 1))
    numbers.pop(parts.SECONDS, None)
    for tier, present in sorted(numbers.items()):
        if lacking := ", ".join(_gaps(sorted(present))):
            yield DamagedFile(segment.gpu, f"tier {tier} lacks part {lacking}", INCOMPLETE)


def _gaps(numbers: Sequence[int]) -> Iterator[str]:
    """The numbers that are missing between two others: `4`, `7 to 9`."""
    for before, after in pairwise(numbers):
        if after - before > 1:
            yield f"{before + 1}" if after - before == 2 else f"{before + 1} to {after - 1}"


def _is_there(path: Path) -> bool:
    return path.exists() and not own_files.is_foreign(path)
