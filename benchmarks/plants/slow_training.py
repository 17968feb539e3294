"""A small training with two loading workers, whose steps `benchmarks/slow_steps.py` slows. Arguments: STEPS DATA.

Each worker reads samples of a file past the page cache, as of a data set larger than memory, and decodes them.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

SAMPLE = 64 * 1024
TOKENS = 4096  # a step
GROWTH = 4 << 20  # bytes a step, while a file DATA.grow exists
WORKERS = 2
GPU_S, LAUNCH_S, DECODE_S = (
    0.025,
    0.012,
    0.003,
)  # a sleep, as the CPU waits for a GPU; the others are CPU time


def work(seconds: float) -> None:
    """Uses CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(2000))


def load(path: Path, worker: int, pipe: Connection) -> None:
    """Sends a decoded sample as soon as there is room in the pipe."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    room, samples = mmap.mmap(-1, SAMPLE), os.fstat(file).st_size // SAMPLE
    place = worker
    while True:
        os.preadv(file, [room], place % samples * SAMPLE)
        place += WORKERS
        work(DECODE_S)
        pipe.send_bytes(bytes(room[:1024]))


def main() -> None:
    steps, path = int(sys.argv[1]), Path(sys.argv[2])
    context, pipes = get_context("fork"), []
    for worker in range(WORKERS):
        end, other = context.Pipe(duplex=False)
        context.Process(target=load, args=(path, worker, other), daemon=True).start()
        other.close()
        pipes.append(end)
    kept = []
    for step in range(steps):
        if path.with_suffix(".grow").exists():
            kept.append(b"x" * GROWTH)
        began = time.monotonic()
        for _ in range(4):
            pipes[step % WORKERS].recv_bytes()
        waited = time.monotonic()
        work(LAUNCH_S)
        time.sleep(GPU_S)
        ended = time.monotonic()
        print(
            f"step {step:5d} | loss: {3 - step / 10_000:.4f} | dt: {1000 * (ended - began):.2f}ms "
            f"| data: {1000 * (waited - began):.2f}ms | tok/sec: {TOKENS / (ended - began):,.0f}",
            flush=True,
        )


if __name__ == "__main__" and sys.argv[1:]:
    main()
