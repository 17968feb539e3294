"""Who uses one GPU: the processes that the driver lists, their memory on it, and their share of its time.

A number of a process is the driver's: in a container it may be the host's. Each call gets memory of its own: one
that hangs may write into it at any later time.
"""

from __future__ import annotations

import ctypes
import struct
from collections import defaultdict
from collections.abc import Callable, Collection
from ctypes import byref, c_uint, c_ulonglong, c_void_p
from functools import partial

from gputel.telemetry.machine import GpuLost, GpuUser, GpuUsers
from gputel.telemetry.nvml.library import (
    INSUFFICIENT_SIZE,
    LOST,
    NO_SAMPLES,
    NOT_FOUND,
    OK,
    Call,
    Handle,
    Library,
    error_name,
)

COMPUTE, *OTHERS = (f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute"))
VERSIONS = ("_v3", "_v2")
"""Both have one layout; drivers before R510 have the second."""
PROCESS = struct.Struct("=I4xQII")  # number, bytes of memory, GPU instance, compute instance
SAMPLE = struct.Struct("=I4xQIIII")  # number, stamp, shares of SMs, memory, encoder and decoder
UNKNOWN_BYTES = (1 << 64) - 1
WHOLE = 100
ROOM, MOST = 64, 4096
"""Records of the first try, and at most."""


class UserReader:
    """Reads who uses one GPU; a share of time is of the samples that the driver has taken since the last read."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._since = 0
        self._sampled: set[int] = set()

    def read(self, handle: Handle) -> GpuUsers:
        """Raises GpuLost."""
        status, listed = self._listed(COMPUTE, handle)
        if status in LOST:
            raise GpuLost(error_name(status))
        if status != OK:
            return GpuUsers((), error_name(status))
        for name in OTHERS:
            listed += self._listed(name, handle)[1]
        memory: dict[int, int | None] = {}
        for pid, used, _, _ in PROCESS.iter_unpack(listed):
            if pid:
                memory[pid] = memory.get(pid) if used == UNKNOWN_BYTES else max(used, memory.get(pid) or 0)
        shares = self._shares(handle, memory)
        return GpuUsers(tuple(GpuUser(pid, used, shares.get(pid)) for pid, used in memory.items()))

    def _listed(self, name: str, handle: Handle) -> tuple[int, bytes]:
        """The records of the newest version of a function that this driver has."""
        status, listed = NOT_FOUND, b""
        for version in VERSIONS:
            ask = self._library.function(name + version, c_void_p, c_void_p, c_void_p)
            status, listed = _filled(partial(ask, handle), PROCESS.size)
            if status != NOT_FOUND:
                break
        return status, listed

    def _shares(self, handle: Handle, pids: Collection[int]) -> dict[int, int]:
        """The share of time of each process; 0 for one that had samples before and has none now."""
        ask: Call = self._library.function(
            "nvmlDeviceGetProcessUtilization", c_void_p, c_void_p, c_void_p, c_ulonglong
        )
        since = self._since
        status, filled = _filled(lambda count, records: ask(handle, records, count, since), SAMPLE.size)
        if status not in (OK, NO_SAMPLES):
            return {}
        shares: dict[int, list[int]] = defaultdict(list)
        for pid, stamp, share, *_ in sorted(SAMPLE.iter_unpack(filled), key=lambda sample: sample[1]):
            if stamp > since and share <= WHOLE:
                shares[pid].append(share)
                self._since = max(self._since, stamp)
        if not since:  # all that the driver has kept, of which the last is of now
            shares = {pid: each[-1:] for pid, each in shares.items()}
        self._sampled = (self._sampled | shares.keys()) & set(pids)
        return {
            pid: round(sum(each) / len(each)) for pid in self._sampled for each in [shares.get(pid) or [0]]
        }


def _filled(call: Callable[[object, object], int], size: int) -> tuple[int, bytes]:
    """The return code and the records that a call fills in, asked again with more room if the driver wants it."""
    room = ROOM
    while True:
        count, records = c_uint(room), ctypes.create_string_buffer(room * size)
        status = call(byref(count), records)
        if status == OK:
            return status, records.raw[: min(count.value, room) * size]
        if status != INSUFFICIENT_SIZE or room == MOST:
            return status, b""
        room = min(MOST, max(2 * room, count.value))
