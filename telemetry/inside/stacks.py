"""What one look at a training finds: the threads of each process, its last collectives, and what /proc says."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Answerer: TypeAlias = Literal["listener", "faulthandler"]
FAULT_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+")
FAULT_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
HOOKS = re.compile(r"/telemetry/inside/hook/(?:sitecustomize|_gputel_\w+)\.py$")
"""Our own frames between those of the training, which are no place of its own."""
MOST_THREADS = 4096
MOST_ENTRIES = 50  # of a group


class Frame(NamedTuple):
    """A call that has not returned."""

    file: str
    line: int
    function: str

    @property
    def name(self) -> str:
        """`ddp.py:6 slow_shared_filesystem`"""
        return f"{self.file.rpartition('/')[2]}:{self.line} {self.function.rpartition('.')[2]}"


class ThreadStack(NamedTuple):
    """The frames of a thread, innermost last."""

    name: str
    main: bool
    frames: tuple[Frame, ...]
    tid: int | None = None
    """Its number for the kernel, which a thread without a `threading.Thread` does not know."""
    wakeups: int | None = None
    """How often it has slept and gone on; of the main thread the facts of its process have it."""


class Collective(NamedTuple):
    """The last collective that a rank has entered in a group of ranks, by torch's flight recorder."""

    group: str
    number: int
    name: str
    sizes: str

    def __str__(self) -> str:
        return f"{self.name} #{self.number}"


@dataclass(frozen=True)
class FlightRecord:
    """What torch's flight recorder knows of a process.

    `collectives` is the last one of each group; `entries` are the last entries of each as torch writes them, sends
    and receives, too.
    """

    collectives: tuple[Collective, ...] = ()
    entries: tuple[Mapping[str, Any], ...] = ()


NO_FLIGHT = FlightRecord()


class ChildrenFacts(NamedTuple):
    """What the processes below one have used that do not listen themselves: compilers, uploads, shells."""

    pids: frozenset[int]
    cpu_s: float
    """With those that have ended, so it never falls."""
    io_bytes: int
    wakeups: int


@dataclass(frozen=True)
class ProcessFacts:
    """What /proc says of a process; None is what it refuses."""

    parent: int
    start: int
    """Ticks since boot, by which a process is known although numbers are used again."""
    state: str
    """R runs, S sleeps, D waits for a disk, T is stopped, Z has ended."""
    command: str
    wait_channel: str | None
    cpu_s: float
    io_bytes: int | None
    """Read and written by calls, from caches, too."""
    wakeups: int | None = None
    """How often its main thread has slept and gone on."""
    children: ChildrenFacts | None = None


@dataclass(frozen=True)
class ProcessLook:
    """One process in one look; without an answer `threads` is empty."""

    pid: int
    at_s: float
    """When, by the monotonic clock."""
    facts: ProcessFacts
    rank: int | None
    world: int | None
    answered_by: Answerer | None
    threads: tuple[ThreadStack, ...]
    flight: FlightRecord = NO_FLIGHT

    @property
    def main(self) -> tuple[Frame, ...]:
        """The frames of the main thread, innermost last."""
        return next((thread.frames for thread in self.threads if thread.main), ())


def parse_threads(rows: Any) -> tuple[ThreadStack, ...]:
    """The threads of an answer; what has another form is left out."""
    threads = []
    for row in rows[:MOST_THREADS] if isinstance(rows, list) else []:
        if isinstance(row, Mapping) and isinstance(row.get("frames"), list):
            frames = tuple(frame for each in row["frames"] if (frame := _frame(each)))
            tid = row.get("tid")
            number = tid if isinstance(tid, int) else None
            threads.append(ThreadStack(str(row.get("name", "")), row.get("main") is True, frames, number))
    return tuple(threads)


def _frame(row: Any) -> Frame | None:
    match row:
        case [str(file), int(line), str(function)] if not HOOKS.search(file):
            return Frame(file, line, function)
    return None


def parse_fault(text: str) -> tuple[ThreadStack, ...]:
    """The threads in a text of faulthandler, which names innermost frames first and the main thread last."""
    stacks: list[list[Frame]] = []
    for line in text.splitlines():
        if FAULT_THREAD.match(line):
            stacks.append([])
        elif stacks and (found := FAULT_FRAME.match(line)):
            number = int(found[2]) if found[2].isdigit() else 0
            if frame := _frame([found[1], number, found[3]]):
                stacks[-1].insert(0, frame)
    return tuple(
        ThreadStack("", place == len(stacks) - 1, tuple(frames)) for place, frames in enumerate(stacks)
    )


def parse_flight(content: bytes) -> FlightRecord:
    """Reads a trace. Sends and receives have numbers of their own, and are no collectives."""
    groups: dict[str, deque[Mapping[str, Any]]] = {}
    last: dict[str, Mapping[str, Any]] = {}
    try:
        for entry in json.loads(content)["entries"]:
            group = str(entry["process_group"][0])
            groups.setdefault(group, deque(maxlen=MOST_ENTRIES)).append(entry)
            if not entry.get("is_p2p"):
                last[group] = entry
        collectives = tuple(
            Collective(
                group,
                int(entry["collective_seq_id"]),
                str(entry["profiling_name"]).rpartition(":")[2],
                json.dumps(entry.get("input_sizes")),
            )
            for group, entry in last.items()
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return NO_FLIGHT
    return FlightRecord(collectives, tuple(entry for entries in groups.values() for entry in entries))
