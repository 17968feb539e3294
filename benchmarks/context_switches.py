"""What one program's processes took from another: every context switch of the machine, as the kernel reports it.

A time that a program lost to another is exact, whatever else runs: from the moment in which it was preempted to
its next turn, only the stretches count in which the other one had its core. It says nothing of caches. Needs the
right to trace all processes (root), and no hardware counters.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
ATTRIBUTES = struct.Struct("=IIQQQQQ")  # type, size, config, period, sample_type, read_format, flags
SIZE, SOFTWARE, DUMMY = 128, 1, 9
TID, TIME, CPU = 1 << 1, 1 << 2, 1 << 7
SAMPLE_ID_ALL, CONTEXT_SWITCH = 1 << 18, 1 << 26
LOST, SWITCH = 2, 15
OUT, PREEMPTED = 1 << 13, 1 << 14
HEAD, BODY = struct.Struct("=IHH"), struct.Struct("=IIIIQII")  # next pid and tid; pid, tid, ns, cpu, -
DATA_HEAD, DATA_TAIL = 1024, 1032
PAGES = 1 << 11


@dataclass(frozen=True)
class Switch:
    """A thread that leaves a core, and the one that gets it."""

    ns: int
    cpu: int
    pid: int
    tid: int
    preempted: bool
    """Whether it would have gone on."""
    next_tid: int


class Tracer:
    """Switches of all cores since the last `switches`. Raises OSError without the right to see them."""

    def __init__(self) -> None:
        self._rings = [_Ring(cpu) for cpu in sorted(os.sched_getaffinity(0))]

    def switches(self) -> list[Switch]:
        """In the order of time. Raises RuntimeError if there were more than the kernel could keep."""
        return sorted((switch for ring in self._rings for switch in ring.take()), key=lambda each: each.ns)

    def close(self) -> None:
        for ring in self._rings:
            ring.close()


class _Ring:
    """The kernel's buffer of one core."""

    def __init__(self, cpu: int) -> None:
        sampled, flags = TID | TIME | CPU, SAMPLE_ID_ALL | CONTEXT_SWITCH
        attributes = ctypes.create_string_buffer(SIZE)
        ATTRIBUTES.pack_into(attributes, 0, SOFTWARE, SIZE, DUMMY, 1, sampled, 0, flags)
        library = ctypes.CDLL(None, use_errno=True)
        self._file = library.syscall(SYSTEM_CALL[platform.machine()], attributes, -1, cpu, -1, 0)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._size = PAGES * mmap.PAGESIZE
        self._memory = mmap.mmap(self._file, mmap.PAGESIZE + self._size)

    def take(self) -> Iterator[Switch]:
        (head,) = struct.unpack_from("=Q", self._memory, DATA_HEAD)
        (tail,) = struct.unpack_from("=Q", self._memory, DATA_TAIL)
        while tail < head:
            record = self._bytes(tail, HEAD.size)
            kind, misc, size = HEAD.unpack(record)
            if kind == LOST:
                raise RuntimeError("the kernel had more context switches than its buffer takes")
            if kind == SWITCH and misc & OUT:
                _, next_tid, pid, tid, ns, cpu, _ = BODY.unpack(self._bytes(tail + HEAD.size, BODY.size))
                yield Switch(ns, cpu, pid, tid, bool(misc & PREEMPTED), next_tid)
            tail += size
        struct.pack_into("=Q", self._memory, DATA_TAIL, tail)

    def _bytes(self, at: int, length: int) -> bytes:
        begin = at % self._size
        whole = self._memory[mmap.PAGESIZE + begin : mmap.PAGESIZE + min(begin + length, self._size)]
        return whole + self._memory[mmap.PAGESIZE : mmap.PAGESIZE + length - len(whole)]

    def close(self) -> None:
        self._memory.close()
        os.close(self._file)


def taken_ns(switches: Sequence[Switch], victim: int, takers: Collection[int]) -> int:
    """How long processes `takers` had the core on which a thread of process `victim` waited, preempted."""
    began: dict[int, int] = {}
    waiting: dict[int, tuple[int, int]] = {}
    taken = 0
    for switch in switches:
        if switch.pid in takers and switch.cpu in began:
            for cpu, since in waiting.values():
                if cpu == switch.cpu:
                    taken += switch.ns - max(since, began[cpu])
        if switch.pid == victim and switch.preempted:
            waiting[switch.tid] = switch.cpu, switch.ns
        waiting.pop(switch.next_tid, None)
        began[switch.cpu] = switch.ns
    return taken
