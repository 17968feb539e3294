"""The lines of a chunk that are no records; and those of them that no pattern has read at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gputel.analysis.parse.lines import Chunk
from gputel.analysis.parse.outcome import TRACEBACK
from gputel.analysis.parse.patterns import Reading

RECORDS = ("train", "part", "bar", "eval", "task")


def unread(reading: Reading, chunk: Chunk) -> Iterator[tuple[int, bytes, bool]]:
    """The lines that are no records, as (number of the first, lines, whether a record stands right before)."""
    data = chunk.data
    hits = [h for h in reading.hits if h.pattern.role in RECORDS]
    if not hits:
        yield 0, data.removesuffix(b"\n"), False
        return
    if sum(len(h.lines) for h in hits) == reading.lines and TRACEBACK[:1] not in data:
        return  # all lines are records, and nothing was printed into one
    lines = np.concatenate([h.lines for h in hits])
    order = np.argsort(lines, kind="stable")
    lines, starts = lines[order], np.concatenate([h.starts for h in hits])[order]
    glued = _glued(data, starts)
    if len(glued):
        lines, starts = np.delete(lines, glued), np.delete(starts, glued)
    gaps = np.flatnonzero(np.diff(lines, prepend=-1, append=reading.lines) > 1).tolist()
    for gap in gaps:
        begin = data.index(b"\n", int(starts[gap - 1])) + 1 if gap else 0
        end = int(starts[gap]) if gap < len(starts) else len(data)
        yield int(lines[gap - 1]) + 1 if gap else 0, data[begin:end].removesuffix(b"\n"), gap > 0


def strange(reading: Reading, first: int, region: bytes) -> bytes:
    """The lines of a region that no pattern at all has read."""
    numbers = np.arange(first, first + region.count(b"\n") + 1)
    read = np.concatenate([numbers[:0], *(hits.lines for hits in reading.hits)])
    unknown = ~np.isin(numbers, read)
    if not unknown.all():
        region = b"\n".join(np.array(region.split(b"\n"), dtype=object)[unknown])
    return region + b"\n" if unknown.any() else b""


def ends_with_record(reading: Reading) -> bool:
    last = reading.lines - 1
    return any(h.pattern.role in RECORDS and int(h.lines[-1]) == last for h in reading.hits)


def _glued(data: bytes, starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Records that a traceback was printed into the line of."""
    found: list[int] = []
    at = data.find(TRACEBACK) if TRACEBACK[:1] in data else -1  # one byte is found twenty times as fast
    while at >= 0:
        owner = int(np.searchsorted(starts, at, side="right")) - 1
        if owner >= 0 and b"\n" not in data[int(starts[owner]) : at]:
            found.append(owner)
        at = data.find(TRACEBACK, at + 1)
    return found
