"""SM, tensor and memory activity of Hopper and newer: metrics that the driver computes between two samples.

Each reader takes a sample a tick and compares it with its last, so the first answer is null. The driver's structure
has room for every metric that there may ever be: 19,104 bytes, of which three rows are used.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from ctypes import byref, c_uint, c_void_p

from gputel.telemetry.machine import GpuLost, Values
from gputel.telemetry.nvml.library import LOST, NOT_SUPPORTED, OK, Handle, Library, error_name
from gputel.telemetry.readings import Gpm, Reading

VERSION = 1
HEAD = struct.Struct("=IIQQ")  # version, number of metrics, the two samples
METRIC = struct.Struct("=IId24x")  # id, return code, value, names
SIZE = 19_104
APART_NS = 95_000_000
"""Closer samples (two ticks that fired late, say) give no metric; the driver wants 100 ms."""


def support(library: Library, handle: Handle) -> int:
    """A return code: OK where the GPU has the metrics."""
    answer = (c_uint * 2)(VERSION, 0)
    status = library.function("nvmlGpmQueryDeviceSupport", c_void_p, c_void_p)(handle, answer)
    return status or (OK if answer[1] else NOT_SUPPORTED)


class GpmReader:
    """`instance` is the GPU instance of a MIG device, whose samples come from its parent's handle."""

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

    def _sample(self) -> int:
        if self._instance is None:
            return self._get(self._handle, self._new)
        return self._get_mig(self._handle, self._instance, self._new)

    def _value(self, i: int, reading: Reading) -> int | None:
        _, status, value = METRIC.unpack_from(self._buffer, HEAD.size + i * METRIC.size)
        return round(value * reading.per_unit) if status == OK and math.isfinite(value) else None


def _allocate(library: Library) -> c_void_p:
    """Never freed: a call that hangs may still write into it when everything else has ended."""
    sample = c_void_p()
    status = library.function("nvmlGpmSampleAlloc", c_void_p)(byref(sample))
    if status != OK:
        raise GpuLost(error_name(status))
    return sample
