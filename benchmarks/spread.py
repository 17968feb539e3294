"""A folder of logs read by one process and by two, interleaved: seconds, CPU of all processes, and that they agree.

python benchmarks/spread.py [--files 48] [--rounds 3]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 30_000  # of JSON in each file, 5 MB
WORKERS = 2
Run = tuple[float, float, str]


def write(folder: Path, files: int) -> None:
    chance = random.Random(1)
    for number in range(files):
        with (folder / f"run{number}.jsonl").open("w") as log:
            for step in range(ROWS):
                row = {
                    "iteration": step,
                    "train/loss": 3 + chance.random(),
                    "lr": 1e-3 * chance.random(),
                    "grad_norm": chance.random(),
                    "dt": 0.5 + chance.random() / 10,
                }
                log.write(json.dumps(row) + "\n")


def read(folder: Path, workers: int) -> str:
    """A digest of every record, for comparison."""
    from gputel.analysis import spread
    from gputel.analysis.runs import paths
    from gputel.telemetry.errors import GputelError

    spread.workers_for = lambda _cpu_s: workers  # type: ignore[assignment]
    files = sorted(folder.iterdir())
    digest = hashlib.sha256()
    for log in paths.read_many(files) if workers > 1 else paths.read_logs(files):
        assert not isinstance(log, GputelError)
        digest.update(repr((log.name, log.status, log.records.hash_rows().sum())).encode())
    return digest.hexdigest()


def measure(folder: Path, workers: int) -> Run:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, __file__, "--read", str(folder), "--workers", str(workers)]
    digest = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begun, cpu, digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    asked = parser.parse_args()
    if asked.read:
        print(read(asked.read, asked.workers))
        return
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), asked.files)
        rounds = [(measure(Path(name), 1), measure(Path(name), asked.workers)) for _ in range(asked.rounds)]
    assert len({digest for pair in rounds for _, _, digest in pair}) == 1
    for place, what in enumerate(("wall", "CPU")):
        pairs = [(one[:2][place], many[:2][place]) for one, many in rounds]
        one, many = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(many / one for one, many in pairs)
        print(f"{what}: one process {one:.1f} s, {asked.workers} {many:.1f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
