"""The records of optimizer steps that hooks in the training write: their columns, and how a file begins.

A file belongs to one process, `<pid>-<start ticks>.steps`: a header of the size of a record, then a record a step.
One that takes over a second is recorded before it ends, too. There are no lines and no checksums: a torn record can
only be the last.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

ENDING = ".steps"
MAGIC = b"gptlstp1"
HEADER = struct.Struct("<8sqii40x")
SIZE = HEADER.size
EVALUATES, CLOSURE, WAITS, OPEN = 1, 2, 4, 8
"""Flags: an evaluation is within the step; the optimizer ran forward and backward; waits and backwards are seen; it
had not ended when it was recorded."""


class StepField(NamedTuple):
    """One field of a record, in the order of its bytes; `kind` is numpy's name of its type."""

    name: str
    kind: str
    about: str


FIELDS = (
    StepField("ns", "<i8", "wall clock when the step's last optimizer call ended"),
    StepField(
        "step_ns",
        "<i8",
        "time since the step before ended, by the monotonic clock; -1 in a process's first step",
    ),
    StepField("fetch_ns", "<i8", "time in `__next__` of DataLoaders, for batches that were trained on"),
    StepField("backward_ns", "<i8", "time in calls of backward"),
    StepField("optimizer_ns", "<i8", "time in calls of optimizers"),
    StepField("gc_ns", "<i8", "time in garbage collections, except those of the youngest generation"),
    StepField("fetches", "<u4", "batches that were fetched"),
    StepField("backwards", "<u4", "calls of backward"),
    StepField("optimizers", "<u2", "calls of optimizers"),
    StepField(
        "flags",
        "<u2",
        "1 an evaluation lies within it, 2 an optimizer took a closure, 4 waits are seen, 8 it had not ended",
    ),
    StepField("zero", "<u4", "0"),
)


RECORD = struct.Struct("<6qIIHHI")


class StepRecord(NamedTuple):
    """A record, with the names of `FIELDS`."""

    ns: int
    step_ns: int
    fetch_ns: int
    backward_ns: int
    optimizer_ns: int
    gc_ns: int
    fetches: int
    backwards: int
    optimizers: int
    flags: int
    zero: int


class StepHeader(NamedTuple):
    """Which of the processes that train together wrote the file; None if it did not know."""

    rank: int | None
    world: int | None


def header(content: bytes) -> StepHeader | None:
    """The header of a file of records; None of any other file."""
    if len(content) < SIZE or not content.startswith(MAGIC):
        return None
    _, _, rank, world = HEADER.unpack_from(content)
    return StepHeader(rank if rank >= 0 else None, world if world >= 0 else None)


def records(content: bytes) -> Iterator[StepRecord]:
    """The whole records of a file without its header."""
    return map(StepRecord._make, RECORD.iter_unpack(content[: len(content) // SIZE * SIZE]))
