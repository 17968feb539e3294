"""SM, tensor and memory activity on Hopper and newer, computed by the driver between two samples (GPM).

A reader takes one sample per tick and compares it with the one before, so its first answer is None. The driver's
structure has room for every metric of the future: 19,104 bytes, of which three rows are used.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from ctypes import byref, c_uint, c_void_p

from gputel.telemetry.machine import CounterState, GpuLost, Values
from gputel.telemetry.nvml.library import LOST, NOT_SUPPORTED, OK, Handle, Library, error_name, whole
from gputel.telemetry.readings import Gpm, Reading

VERSION = 1
HEAD = struct.Struct("=IIQQ")  # version, number of metrics, the two samples
METRIC = struct.Struct("=IId24x")  # id, return code, value, names
SIZE = 19_104
APART_NS = 95_000_000
"""Samples closer than this, as after a late tick, give no metric; the driver needs 100 ms."""


def support(library: Library, handle: Handle) -> int:
    """OK if the GPU has GPM metrics, otherwise the return code that says why not."""
    answer = (c_uint * 2)(VERSION, 0)
    status = library.function("nvmlGpmQueryDeviceSupport", c_void_p, c_void_p)(handle, answer)
    return status or (OK if answer[1] else NOT_SUPPORTED)


class GpmReader:
    """Reads GPM metrics. `instance` is that of a MIG device, whose samples come from its parent's handle."""

    def __init__(
        self, library: Library, handle: Handle, wanted: Sequence[tuple[Reading, Gpm]], instance: int | None
    ) -> None:
        self._handle, self._instance = handle, instance
        self._readings = [reading for reading, _ in wanted]
        self._get = library.function("nvmlGpmSampleGet", c_void_p, c_void_p)
        self._get_mig = library.function("nvmlGpmMigSampleGet", c_void_p, c_uint, c_void_p)
        self._compare = library.function("nvmlGpmMetricsGet", c_void_p)
        self._old, self._new = _allocate(library), _allocate(library)
        self._old_at = self._new_at = 0
        self._statuses = [OK, NOT_SUPPORTED]
        self._buffer = ctypes.create_string_buffer(SIZE)
        for i, (_, metric) in enumerate(wanted):
            METRIC.pack_into(self._buffer, HEAD.size + i * METRIC.size, metric.metric, 0, 0.0)

    def ask(self) -> None:
        self._old, self._new = self._new, self._old
        took = self._sample()
        HEAD.pack_into(
            self._buffer, 0, VERSION, len(self._readings), self._old.value or 0, self._new.value or 0
        )
        compared = self._compare(self._buffer) if took == OK and self._new_at else NOT_SUPPORTED
        self._statuses = [took, compared]

    def answer(self, now: int) -> Values:
        took, compared = self._statuses
        if took in LOST:
            raise GpuLost(error_name(took))
        self._old_at, self._new_at = self._new_at, now if took == OK else 0
        if compared != OK or self._new_at - self._old_at < APART_NS:
            return [None] * len(self._readings)
        return [self._value(i, reading) for i, reading in enumerate(self._readings)]

    def counters(self) -> Mapping[str, CounterState]:
        """Nothing: GPM metrics are no counters."""
        return {}

    def _sample(self) -> int:
        if self._instance is None:
            return self._get(self._handle, self._new)
        return self._get_mig(self._handle, self._instance, self._new)

    def _value(self, i: int, reading: Reading) -> int | None:
        _, status, value = METRIC.unpack_from(self._buffer, HEAD.size + i * METRIC.size)
        return whole(value * reading.per_unit) if status == OK else None


def _allocate(library: Library) -> c_void_p:
    """A sample buffer. It is never freed: a call that hangs may write into it at any later time."""
    sample = c_void_p()
    status = library.function("nvmlGpmSampleAlloc", c_void_p)(byref(sample))
    if status != OK:
        raise GpuLost(error_name(status))
    return sample
