"""A recording of a few seconds in a temporary folder, from which `gputel doctor` checks the GPUs.

Uses the same sampler and store as a real recording, in a process of its own.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.sampling import sampler
from gputel.telemetry.sampling.status import Board


def record(folder: Path, machine: str, seconds: float, hz: float = 100.0) -> Path:
    """Record for some seconds and return the segment. Raises GputelError if the machine cannot be sampled."""
    segment = run_folder.create(folder, {"run": "trial"})
    board = Board()
    spec = sampler.Spec(segment.path, machine, hz, None)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os._exit(sampler.run(spec, board, [reading]))
    os.close(reading)
    ended = os.pidfd_open(child)
    select.select([ended], [], [], seconds)
    os.close(writing)
    os.waitpid(child, 0)
    os.close(ended)
    _raise_fault(board)
    return segment.path


def _raise_fault(board: Board) -> None:
    fault = (board.read() or {}).get("error")
    if isinstance(fault, dict):
        raise GputelError(fault["place"], fault["fault"], fault["hint"])
