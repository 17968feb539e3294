"""A small training whose steps `benchmarks/slow_steps.py` slows. Arguments: STEPS DATA WORKERS [torch] [swap].

Each worker reads samples of a file past the page cache, as of a data set larger than memory, and decodes them. With
`torch` a step has a backward and an optimizer, so that `--inside steps` sees it, and the ranks of RANK and
WORLD_SIZE average a gradient; with `swap` it reads some pages of a large table. Files beside DATA slow it:
`DATA.grow`, `DATA.decode`, `DATA.crowd`, `DATA.collect`, `DATA.device`.
"""

from __future__ import annotations

import gc
import mmap
import os
import random
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

SAMPLE = 64 * 1024
TOKENS = 4096  # a step
GROWTH = 4 << 20  # bytes a step, while DATA.grow exists
HEAP = 400_000  # objects that a collection looks at
TABLE, PAGE, PAGES = 192 << 20, 4096, 400  # bytes, bytes of a page, pages that a step reads
GRADIENT = 1 << 18  # numbers of four bytes
CROWD = 6
# a sleep, as the CPU waits for a GPU; the others are CPU time
GPU_S, LAUNCH_S, DECODE_S = (
    0.025,
    0.012,
    0.003,
)


def work(seconds: float) -> None:
    """Uses CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(2000))


def load(path: Path, worker: int, workers: int, pipe: Connection) -> None:
    """Sends a decoded sample as soon as there is room in the pipe. DATA.decode holds the seconds of a sample."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    room, samples = mmap.mmap(-1, SAMPLE), os.fstat(file).st_size // SAMPLE
    slower = path.with_suffix(".decode")
    place = worker
    while True:
        os.preadv(file, [room], place % samples * SAMPLE)
        place += workers
        work(float(slower.read_text()) if slower.exists() else DECODE_S)
        pipe.send_bytes(bytes(room[:1024]))


def crowd() -> None:
    while True:
        work(1.0)


def torch_step() -> Callable[[], None]:
    """Returns a step of a model of one parameter, behind an average of what all ranks have."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    weight, gradient = torch.nn.Parameter(torch.ones(())), torch.ones(GRADIENT)
    optimizer = torch.optim.SGD([weight], 1e-3)

    def step() -> None:
        if ranks > 1:
            dist.all_reduce(gradient)
        optimizer.zero_grad()
        torch.autograd.backward(weight * weight)
        optimizer.step()

    return step


def train(steps: int, path: Path, workers: int, words: list[str]) -> None:
    context, pipes = get_context("fork"), []
    for worker in range(workers):
        end, other = context.Pipe(duplex=False)
        context.Process(target=load, args=(path, worker, workers, other), daemon=True).start()
        other.close()
        pipes.append(end)
    update = torch_step() if "torch" in words else lambda: None
    heap = [[number] for number in range(HEAP)] if "torch" in words else []
    table = mmap.mmap(-1, TABLE) if "swap" in words else b""
    for place in range(0, len(table), PAGE):
        table[place] = 1  # type: ignore[index]
    kept: list[bytes] = []
    others: list[BaseProcess] = []
    for step in range(steps):
        if path.with_suffix(".grow").exists():
            kept.append(b"x" * GROWTH)
        if path.with_suffix(".crowd").exists() and not others:
            others = [context.Process(target=crowd, daemon=True) for _ in range(CROWD)]
            for process in others:
                process.start()
        began = time.monotonic()
        for _ in range(4):
            pipes[step % workers].recv_bytes()
        waited = time.monotonic()
        work(LAUNCH_S)
        sum(table[random.randrange(0, TABLE, PAGE)] for _ in range(PAGES if table else 0))
        if heap and path.with_suffix(".collect").exists():
            gc.collect()
        update()
        slower = path.with_suffix(".device")
        time.sleep(float(slower.read_text()) if slower.exists() else GPU_S)
        ended = time.monotonic()
        print(
            f"step {step:5d} | loss: {3 - step / 10_000:.4f} | dt: {1000 * (ended - began):.2f}ms "
            f"| data: {1000 * (waited - began):.2f}ms | tok/sec: {TOKENS / (ended - began):,.0f}",
            flush=True,
        )


if __name__ == "__main__" and sys.argv[1:]:
    train(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
