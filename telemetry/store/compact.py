"""The child process that compacts: started at low priority when a part is sealed, and once more at the end.

What it does is in parquet.py, which the sampler must not import: polars costs it more memory than all of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_children: list[subprocess.Popen[bytes]] = []


def start(folder: Path) -> None:
    """Compact what is sealed, in the background. RuntimeError: what an earlier child failed of."""
    _reap()
    _children.append(_spawn(folder, "--sealed"))


def finish(folder: Path) -> subprocess.Popen[bytes]:
    """Compact everything, once nobody writes. Wait for it, or kill it: readers take journals as well."""
    return _spawn(folder, "--all")


def command(folder: Path, what: str) -> list[str]:
    return [sys.executable, "-m", "gputel.telemetry.store.compact", what, str(folder.resolve())]


def environment() -> dict[str, str]:
    """The child sees the modules that we see, and takes one core at most."""
    path = os.pathsep.join(str(Path(place).resolve()) for place in sys.path if place)
    return {**os.environ, "PYTHONPATH": path, "POLARS_MAX_THREADS": "1"}


def _spawn(folder: Path, what: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(folder, what),
        cwd="/",  # not where the user stands, whose own polars.py would be imported
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _reap() -> None:
    for child in [child for child in _children if child.poll() is not None]:
        _children.remove(child)
        said = child.stderr.read().decode(errors="replace").splitlines() if child.stderr else []
        if child.stderr:
            child.stderr.close()
        if child.returncode:
            raise RuntimeError(f"compaction ended with {child.returncode}: {said[-1] if said else ''}")


def main(what: str, folder: str) -> None:
    os.nice(19)
    from gputel.telemetry.store import parquet

    parquet.compact(Path(folder), everything=what == "--all")


if __name__ == "__main__":
    main(*sys.argv[1:])
