"""Trainings that hang in a known way: a server of ranks, so that torch is imported once for many of them.

Reads a line of JSON for each training (`kind`, `world`, `rank`, `port`); forks its ranks, which train with gloo and
then hang; prints `hung` when the planted rank is about to. Another line ends them. `one ORDER` is one training
without a server. The functions are what must be named: their lines are found by the comment `planted`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 4
LINES = 12


class SleepingData(torch.utils.data.Dataset[torch.Tensor]):
    """A data set on a file system that has gone."""

    def __init__(self, *, sleeps: bool) -> None:
        self.sleeps = sleeps

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleeps and index == 8:
            hung()
            time.sleep(1000)  # planted: dataset, worker
        return torch.ones(4)


def hung() -> None:
    os.write(1, b"hung\n")


def lock() -> None:
    held = threading.Lock()
    held.acquire()
    hung()
    held.acquire()  # planted: lock


def loop() -> None:
    hung()
    number = 0
    while True:  # planted: loop
        number += 1  # planted: loop


def import_without_end() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "endless.py").write_text("import os, time\nos.write(1, b'hung\\n')\ntime.sleep(1000)\n")
        sys.path.insert(0, folder)
        importlib.import_module("endless")


def collective() -> None:
    hung()
    gathered = [torch.ones(4) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(4))  # planted: collective


def stop() -> None:
    hung()
    os.kill(os.getpid(), signal.SIGSTOP)


def gil() -> None:
    pipe, _ = os.pipe()
    hung()
    ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)  # planted: gil


def thread() -> None:
    """The training is in a thread of its own."""
    trains = threading.Thread(target=asleep, daemon=True)
    trains.start()
    trains.join()


def asleep() -> None:
    hung()
    time.sleep(1000)  # planted: thread


def healthy() -> None:
    """Evaluates and saves on one rank while the others wait for it: slow, and no hang."""
    hung()
    evaluate()


def program() -> None:
    """Waits for a program that is at work, such as a compiler."""
    hung()
    subprocess.run([sys.executable, "-S", "-c", "while True: pass"], check=False)


def pool() -> None:
    """Evaluates in another process."""
    with multiprocessing.get_context("fork").Pool(1) as workers:
        hung()
        workers.apply(evaluate)


def threads() -> None:
    """Evaluates in a thread."""
    hung()
    works = threading.Thread(target=evaluate, daemon=True)
    works.start()
    works.join()


def evaluate() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(16)))
    with tempfile.TemporaryDirectory() as folder:
        while True:
            for _ in range(20):
                model(torch.ones(64, 256))
            torch.save(model.state_dict(), Path(folder, "model.pt"))


KINDS: dict[str, Callable[[], None]] = {
    "lock": lock,
    "loop": loop,
    "import": import_without_end,
    "collective": collective,
    "stop": stop,
    "gil": gil,
    "thread": thread,
    "healthy": healthy,
    "program": program,
    "pool": pool,
    "threads": threads,
}


def batches(kind: str) -> Iterator[torch.Tensor]:
    """A data set whose own process or whose worker sleeps."""
    workers = {"dataset": 0, "worker": 1}
    data = SleepingData(sleeps=kind in workers)
    yield from torch.utils.data.DataLoader(data, batch_size=2, num_workers=workers.get(kind, 0))


def train(kind: str, rank: int, world: int, port: int) -> None:
    """Some steps; `kind` is empty for a rank that has nothing planted."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    for step, batch in enumerate(batches(kind)):
        if step == STEPS and kind in KINDS:
            KINDS[kind]()
        dist.all_reduce(batch)
    while True:
        dist.all_reduce(torch.ones(4))


def ranks(order: dict[str, object]) -> list[int]:
    """Forks the ranks of one training; each leads a session, with which its workers end."""
    pids = []
    for rank in range(int(str(order["world"]))):
        pid = os.fork()
        if pid == 0:
            os.setsid()
            kind = str(order["kind"]) if rank == order["rank"] else ""
            with contextlib.suppress(BaseException):
                train(kind, rank, int(str(order["world"])), int(str(order["port"])))
            os._exit(1)
        pids.append(pid)
    return pids


def end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def serve() -> None:
    os.write(1, b"ready\n")
    for line in sys.stdin:
        pids = ranks(json.loads(line))
        sys.stdin.readline()
        end(pids)
        os.write(1, b"ended\n")


def run_one(order: str) -> None:
    """Prints the lines by which a recorder knows the usual silence, then hangs until it is interrupted."""
    for step in range(LINES):
        print(f"step {step:3d} | loss: {3 - step / 100:.4f} | dt: 100.00ms", flush=True)
        time.sleep(0.1)
    pids = ranks(json.loads(order))
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    end(pids)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif sys.argv[1:2] == ["one"]:
        run_one(sys.argv[2])
