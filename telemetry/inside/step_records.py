"""The records of optimizer steps that hooks in the training write: their columns, and how a file begins.

A file belongs to one process, `<pid>-<start ticks>.steps`: a header of the size of a record, then a record a step.
It holds no lines and no checksums: a torn record can only be its last.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ENDING = ".steps"
MAGIC = b"gptlstp1"
HEADER = struct.Struct("<8sqii40x")
SIZE = HEADER.size
EVALUATES, CLOSURE, WAITS = 1, 2, 4
"""Flags: an evaluation is within the step; the optimizer ran forward and backward; waits and backwards are seen."""


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
        "flags", "<u2", "1 an evaluation lies within it, 2 an optimizer took a closure, 4 waits are seen"
    ),
    StepField("zero", "<u4", "0"),
)


class StepHeader(NamedTuple):
    """Which of the processes that train together wrote the file; None if it did not know."""

    rank: int | None
    world: int | None


def header(content: bytes) -> StepHeader | None:
    """The header of a file; None if this is none of ours."""
    if len(content) < SIZE or not content.startswith(MAGIC):
        return None
    _, _, rank, world = HEADER.unpack_from(content)
    return StepHeader(rank if rank >= 0 else None, world if world >= 0 else None)
