"""SM, tensor and memory activity on Hopper and newer, computed by the driver between two samples (GPM).

A reader takes one sample per tick and compares it with the one before, so its first answer is None. The driver's
structure has room for every metric of the future: 19,104 bytes, of which three rows are used.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_uint, c_void_p
from functools import partial

import numpy as np

from gputel.telemetry.machine import Bits, CounterState, GpuLost, Integers, RawRows, Values
from gputel.telemetry.nvml.library import INT64, LOST, NOT_SUPPORTED, OK, Handle, Library, error_name, whole
from gputel.telemetry.readings import Gpm, Reading

VERSION = 1
HEAD = struct.Struct("=IIQQ")  # version, number of metrics, the two samples
METRIC = struct.Struct("=IId24x")  # id, return code, value, names
CODE_AT, VALUE_AT = 4, 8
# return codes of sampling and of the comparison, written after the metrics in use
STATUSES = struct.Struct("=ii")
COMPARED_AT = 4
NOT_COMPARED = -1
"""Instead of a return code, where there was no sample to compare with."""
SIZE = 19_104
APART_NS = 95_000_000
"""Samples closer than this, as after a late tick, give no metric; the driver needs 100 ms."""


def support(library: Library, handle: Handle, instance: int | None) -> int:
    """OK if the GPU gives GPM samples, otherwise the return code that says why not.

    Takes a sample to find out: a GPU may support them, and its driver refuse them to this user.
    """
    answer = (c_uint * 2)(VERSION, 0)
    status = library.function("nvmlGpmQueryDeviceSupport", c_void_p, c_void_p)(handle, answer)
    if status != OK or not answer[1]:
        return status or NOT_SUPPORTED
    status, sample = _allocate(library)
    if status == OK:
        status = _sampler(library, handle, instance)(sample)
        library.function("nvmlGpmSampleFree", c_void_p)(sample)
    return status


class GpmReader:
    """Reads GPM metrics. `instance` is that of a MIG device, whose samples come from its parent's handle."""

    def __init__(
        self, library: Library, handle: Handle, wanted: Sequence[tuple[Reading, Gpm]], instance: int | None
    ) -> None:
        self._readings = [reading for reading, _ in wanted]
        self._per_unit = np.array([reading.per_unit for reading in self._readings])
        self._sample = _sampler(library, handle, instance)
        self._compare = library.function("nvmlGpmMetricsGet", c_void_p)
        self._old, self._new = _kept_sample(library), _kept_sample(library)
        self._sampled_at = 0
        self._asked = self.failed = False
        self.prepared = ()
        self.layout: object = tuple(wanted)
        self._buffer = ctypes.create_string_buffer(SIZE)
        self._statuses_at = HEAD.size + len(wanted) * METRIC.size
        self.memory = memoryview(self._buffer).cast("B")[: self._statuses_at + STATUSES.size]
        for i, (_, metric) in enumerate(wanted):
            METRIC.pack_into(self._buffer, HEAD.size + i * METRIC.size, metric.metric, 0, 0.0)
        STATUSES.pack_into(self._buffer, self._statuses_at, OK, NOT_COMPARED)

    def ask(self) -> None:
        self._old, self._new = self._new, self._old
        took = self._sample(self._new)
        HEAD.pack_into(
            self._buffer, 0, VERSION, len(self._readings), self._old.value or 0, self._new.value or 0
        )
        compared = self._compare(self._buffer) if took == OK and self._asked else NOT_COMPARED
        self._asked = took == OK
        STATUSES.pack_into(self._buffer, self._statuses_at, took, compared)
        self.failed = took != OK

    def timed(self, monotonic: Callable[[], int]) -> Sequence[int]:
        began = monotonic()
        self.ask()
        return [monotonic() - began]

    @property
    def calls(self) -> Sequence[tuple[str, ...]]:
        return [tuple(reading.name for reading in self._readings)]

    def check(self) -> None:
        took, _ = STATUSES.unpack_from(self._buffer, self._statuses_at)
        self.failed = False
        if took in LOST:
            raise GpuLost(error_name(took))

    def answer(self, now: int) -> Values:
        self.check()
        places = range(len(self._readings)) if self._apart(now) else ()
        return [self.value(self.memory, 0, place) for place in places] or [None] * len(self._readings)

    def value(self, row: bytes | memoryview, offset: int, place: int) -> int | None:
        _, compared = STATUSES.unpack_from(row, offset + self._statuses_at)
        _, status, value = METRIC.unpack_from(row, offset + HEAD.size + place * METRIC.size)
        return whole(value * self._readings[place].per_unit) if compared == status == OK else None

    def decode(self, raw: RawRows, values: Integers, valid: Bits) -> None:
        data, offset, ticks, stride, gpus, step = raw
        shape, strides = (ticks, gpus, len(self._readings)), (stride, step, METRIC.size)
        metrics = offset + HEAD.size
        codes = np.ndarray(shape, "<i4", data, metrics + CODE_AT, strides)
        answers = np.ndarray(shape, "<f8", data, metrics + VALUE_AT, strides)
        compared = np.ndarray(
            (ticks, gpus, 1), "<i4", data, offset + self._statuses_at + COMPARED_AT, (stride, step, 0)
        )
        with np.errstate(over="ignore"):
            scaled = answers * self._per_unit
        valid[:] = (compared == OK) & (codes == OK) & (np.abs(scaled) < INT64 + 1)
        values[:] = np.rint(np.where(valid, scaled, 0))

    def follow(self, times: Sequence[int], values: Integers, valid: Bits) -> None:
        for tick, now in enumerate(times):
            if not self._apart(now):
                values[tick], valid[tick] = 0, False

    def counters(self) -> Mapping[str, CounterState]:
        """Returns nothing: GPM metrics are no counters."""
        return {}

    def faults(self) -> Mapping[str, str]:
        took, compared = STATUSES.unpack_from(self._buffer, self._statuses_at)
        if took in LOST or (took == OK and compared == NOT_COMPARED):
            return {}
        codes = {
            reading.name: took or compared or METRIC.unpack_from(self._buffer, HEAD.size + n * METRIC.size)[1]
            for n, reading in enumerate(self._readings)
        }
        return {name: error_name(code) for name, code in codes.items() if code != OK}

    def _apart(self, now: int) -> bool:
        """Whether the sample taken at `now` is far enough from the one before."""
        before, self._sampled_at = self._sampled_at, now
        return before > 0 and now - before >= APART_NS


def _sampler(library: Library, handle: Handle, instance: int | None) -> Callable[[c_void_p], int]:
    """Takes a sample of the GPU, or of a MIG instance of it."""
    if instance is None:
        return partial(library.function("nvmlGpmSampleGet", c_void_p, c_void_p), handle)
    return partial(library.function("nvmlGpmMigSampleGet", c_void_p, c_uint, c_void_p), handle, instance)


def _allocate(library: Library) -> tuple[int, c_void_p]:
    """The return code and a sample buffer."""
    sample = c_void_p()
    return library.function("nvmlGpmSampleAlloc", c_void_p)(byref(sample)), sample


def _kept_sample(library: Library) -> c_void_p:
    """A sample buffer that is never freed: a call that hangs may write into it at any later time."""
    status, sample = _allocate(library)
    if status != OK:
        raise GpuLost(error_name(status))
    return sample
