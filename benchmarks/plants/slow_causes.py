"""The causes by which `benchmarks/slow_steps.py` slows a training: how each is planted, and the right answer.

A change is a context: the training is slow while it is open. Those of limits write to control groups of version 1.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1 << 29
SLOWED = 1.15
"""Times the mean of the steps before; what did not slow the steps so much is left out."""
UNDISTURBED = "undisturbed"
NO_CAUSE = "no cause"


@dataclass(frozen=True)
class Place:
    """Where a training runs: its control groups, its data, and the interface to its other rank."""

    groups: dict[str, Path]
    data: Path
    interface: str


Change = Callable[[Place, random.Random], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Plant:
    """A cause: what slows the training while it is open, the answers that are right, what the training is given."""

    change: Change
    answers: tuple[str, ...]
    words: str = ""
    workers: int = 2
    slows: bool = True
    privileged: bool = True
    """Whether planting it takes root and control groups of version 1."""

    def counts(self, slowed: float | None) -> bool:
        """Whether a training counts whose steps took so many times as long."""
        return not self.slows or (slowed or 0) >= SLOWED


@contextlib.contextmanager
def undisturbed(_place: Place, _chance: random.Random) -> Iterator[None]:
    yield


@contextlib.contextmanager
def quota(place: Place, chance: random.Random) -> Iterator[None]:
    """A limit of 25 to 45 % of a core."""
    limit = place.groups["cpu"] / "cpu.cfs_quota_us"
    limit.write_text(str(chance.randrange(25_000, 45_000)))
    yield
    limit.write_text("-1")


@contextlib.contextmanager
def storage(place: Place, chance: random.Random) -> Iterator[None]:
    """Reads at 1 to 3 MiB a second, above the disk."""
    limit = place.groups["blkio"] / "blkio.throttle.read_bps_device"
    limit.write_text(f"{device(place.data)} {chance.randrange(1 << 20, 3 << 20)}")
    yield
    limit.write_text(f"{device(place.data)} 0")


@contextlib.contextmanager
def neighbors(place: Place, chance: random.Random) -> Iterator[None]:
    """Four to eight busy loops in the same control group."""
    loop = f"echo $$ > {place.groups['cpu']}/cgroup.procs; while :; do :; done"
    loops = [subprocess.Popen(["sh", "-c", loop]) for _ in range(chance.randrange(4, 9))]
    yield
    for process in loops:
        process.kill()
        process.wait()


@contextlib.contextmanager
def memory(place: Place, _chance: random.Random) -> Iterator[None]:
    """A limit, below which the training takes more with each step."""
    (place.groups["memory"] / "memory.limit_in_bytes").write_text(str(LIMIT))
    with flag(place.data, ".grow"):
        yield


@contextlib.contextmanager
def swap(place: Place, chance: random.Random) -> Iterator[None]:
    """A limit at 40 to 60 % of what the training's control group has, beside a swap file."""
    group = place.groups["memory"]
    used = int((group / "memory.usage_in_bytes").read_text())
    goal = used * chance.uniform(0.4, 0.6)
    for size in range(used, int(goal), -(8 << 20)):
        with contextlib.suppress(OSError):  # pages that are being written cannot be given up at once
            (group / "memory.limit_in_bytes").write_text(str(size))
    yield
    (group / "memory.limit_in_bytes").write_text("-1")


@contextlib.contextmanager
def network(place: Place, chance: random.Random) -> Iterator[None]:
    """A link of 30 to 60 Mbit/s between two ranks."""
    shape = f"root tbf rate {chance.randrange(30, 60)}mbit burst 32kb limit 1mb"
    run("tc", "qdisc", "add", "dev", place.interface, *shape.split())
    yield
    run("tc", "qdisc", "del", "dev", place.interface, "root")


def flagged(ending: str, *range_s: float) -> Change:
    """What the training does to itself while a file says so: for a time in the range, where it takes one.

    It reads from another program's file system, its only worker decodes, six busy processes run beside it, it
    collects garbage in each step, or waits for a GPU, of which the machine around it says nothing.
    """
    return lambda place, chance: flag(place.data, ending, chance.uniform(*range_s) if range_s else 0.0)


CAUSES = {
    UNDISTURBED: Plant(undisturbed, (NO_CAUSE,), slows=False, privileged=False),
    "quota": Plant(quota, ("throttled by its own limit of CPU",)),
    "storage": Plant(storage, ("input: slow storage",)),
    "neighbors": Plant(neighbors, ("starved by other programs",)),
    "memory": Plant(memory, ("killed by its limit of memory",), slows=False),
    "swap": Plant(swap, ("swapping",), "swap"),
    "remote": Plant(flagged(".late", 0.04, 0.15), ("input: remote file system",), "remote"),
    "decoding": Plant(
        flagged(".decode", 0.015, 0.04), ("input: workers lack CPU",), workers=1, privileged=False
    ),
    "crowd": Plant(flagged(".crowd"), ("starved by its own processes",), privileged=False),
    "collections": Plant(flagged(".collect"), ("garbage collection",), "torch", privileged=False),
    "network": Plant(network, ("network",), "torch ranks"),
    "gpu": Plant(flagged(".device", 0.05, 0.15), (NO_CAUSE,), "torch ranks"),
}


@contextlib.contextmanager
def flag(data: Path, ending: str, seconds: float = 0.0) -> Iterator[None]:
    """A file beside the data, for the training to see."""
    beside = data.with_suffix(ending)
    whole = beside.with_suffix(f"{ending}-new")
    whole.write_text(str(seconds))
    whole.rename(beside)
    try:
        yield
    finally:
        beside.unlink()


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def device(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"
