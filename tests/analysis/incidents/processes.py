"""Processes of a training as a look finds them, without any."""

from __future__ import annotations

from dataclasses import replace

from gputel.telemetry.inside.stacks import (
    ChildrenFacts,
    Collective,
    FlightRecord,
    Frame,
    ProcessFacts,
    ProcessLook,
    ThreadStack,
)

TORCH = "/env/lib/python3.11/site-packages/torch"
MAIN = Frame("/me/train.py", 31, "main")
ALL_REDUCE = (
    Frame(f"{TORCH}/distributed/c10d_logger.py", 83, "_exception_logger.<locals>.wrapper"),
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 3252, "all_reduce"),
)
BACKWARD = (
    Frame(f"{TORCH}/_tensor.py", 630, "Tensor.backward"),
    Frame(f"{TORCH}/autograd/graph.py", 865, "_engine_run_backward"),
)
READS = (Frame("/me/data.py", 6, "slow_read"),)
LOADER = (
    Frame(f"{TORCH}/utils/data/dataloader.py", 701, "_BaseDataLoaderIter.__next__"),
    Frame("/usr/lib/python3.11/queue.py", 180, "Queue.get"),
)
WORKER = (MAIN, *LOADER[:1], Frame(f"{TORCH}/utils/data/_utils/worker.py", 349, "_worker_loop"))
IDLE = (*WORKER, Frame("/usr/lib/python3.11/multiprocessing/queues.py", 113, "Queue.get"))
POOL = (
    Frame("/usr/lib/python3.11/multiprocessing/pool.py", 367, "map"),
    Frame("/usr/lib/python3.11/threading.py", 327, "wait"),
)
OF_POOL = (MAIN, Frame("/usr/lib/python3.11/multiprocessing/process.py", 314, "BaseProcess._bootstrap"))
JOINS = (Frame("/usr/lib/python3.11/threading.py", 1119, "Thread.join"),)
WAITS_FOR_PROGRAM = (
    Frame("/usr/lib/python3.11/subprocess.py", 1264, "Popen.wait"),
    Frame("/usr/lib/python3.11/subprocess.py", 2053, "Popen._wait"),
)
COMPUTES = (MAIN, Frame(f"{TORCH}/nn/functional.py", 1, "linear"))


def process(
    rank: int | None,
    *frames: Frame,
    pid: int | None = None,
    parent: int = 1,
    state: str = "S",
    world: int | None = 4,
    last: str = "",
    number: int = 7,
) -> ProcessLook:
    """A rank whose main thread stands below `MAIN`; `last` is the collective that it entered last."""
    threads = (ThreadStack("MainThread", True, (MAIN, *frames)),) if state != "T" else ()
    facts = ProcessFacts(parent, 1, state, "python train.py", "futex_do_wait", 1.0, 1000, 0)
    collectives = (Collective("0", number, last, "[[4]]"),) if last else ()
    flight = FlightRecord(collectives)
    number_of_process = 100 + (rank or 0) if pid is None else pid
    return ProcessLook(number_of_process, 0.0, facts, rank, world, "listener", threads, flight)


def with_threads(look: ProcessLook, *stacks: tuple[Frame, ...]) -> ProcessLook:
    """The same with other threads."""
    more = (ThreadStack(f"Thread-{number}", False, frames) for number, frames in enumerate(stacks))
    return replace(look, threads=(*look.threads, *more))


def worker(of_rank: int, *frames: Frame, state: str = "S") -> ProcessLook:
    """A DataLoader's worker of a rank, which stands in these frames."""
    looked = process(of_rank, pid=200 + of_rank, parent=100 + of_rank, state=state)
    return replace(looked, threads=(ThreadStack("MainThread", True, frames),) if state != "T" else ())


def later(
    look: ProcessLook,
    *frames: Frame,
    cpu_s: float = 0.0,
    io_bytes: int = 0,
    wakeups: int = 0,
    children: ChildrenFacts | None = None,
) -> ProcessLook:
    """The same process two seconds later; with frames it has moved there."""
    facts = replace(
        look.facts,
        cpu_s=look.facts.cpu_s + cpu_s,
        io_bytes=1000 + io_bytes,
        wakeups=wakeups,
        children=children or look.facts.children,
    )
    threads = (ThreadStack("MainThread", True, (MAIN, *frames)),) if frames else look.threads
    return replace(look, at_s=look.at_s + 2.0, facts=facts, threads=threads)
