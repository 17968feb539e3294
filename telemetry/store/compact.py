"""Starts the child process that compacts at low priority what is sealed while the recording goes on.

At its end the process that makes the report compacts the rest.

The work is in parquet.py, which the sampler must not import: polars needs more memory than all of the sampler.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gputel.telemetry import own_process

FEW_BYTES = 1 << 20

_children: list[subprocess.Popen[bytes]] = []


def start(*folders: Path) -> None:
    """Compact sealed parts in the background. Raises RuntimeError if an earlier child failed."""
    _reap()
    _children.append(_spawn(folders))


def tables(segment: Path, *, sampled: bool) -> list[Path]:
    """The folders whose journals are worth compacting; none of a short run without a GPU: readers take journals."""
    journals = list(segment.glob("*/*-[0-9]*.gtb"))
    few = sum(journal.stat().st_size for journal in journals) <= FEW_BYTES
    return [] if few and not sampled else sorted({journal.parent for journal in journals})


def command(folders: Sequence[Path]) -> list[str]:
    return own_process.argv("gputel.telemetry.store.compact", *(str(each.resolve()) for each in folders))


def environment() -> dict[str, str]:
    """The child's environment: at most one core."""
    return {**os.environ, "POLARS_MAX_THREADS": "1"}


def _spawn(folders: Sequence[Path]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(folders),
        cwd="/",  # a polars.py in the user's folder would be imported instead
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _reap() -> None:
    for child in [child for child in _children if child.poll() is not None]:
        _children.remove(child)
        lines = child.stderr.read().decode(errors="replace").splitlines() if child.stderr else []
        if child.stderr:
            child.stderr.close()
        if child.returncode:
            raise RuntimeError(f"compaction ended with {child.returncode}: {lines[-1] if lines else ''}")


def main(*folders: str) -> None:
    os.nice(19)
    from gputel.telemetry.store import parquet

    for folder in folders:
        parquet.compact(Path(folder), everything=False)
