"""Reads one GPU into one block of memory, laid out once: `ask` fills it, `answer` unpacks it in one step.

One call reads all fields. A value is None by the return code of its own call or field. The types of the fields
are learned from the first answer, and again whenever the driver's answer changes.

Byte counters become rates in `counters`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from gputel.telemetry.machine import NO_MOMENT, CounterState, GpuLost, Values
from gputel.telemetry.nvml.counters import NVLINK_BYTES_S, PCIE_BYTES_S, Counter, Rates
from gputel.telemetry.nvml.library import (
    INT64,
    LOST,
    OK,
    UNAVAILABLE,
    UNKNOWN,
    Handle,
    Library,
    Prepared,
    error_name,
    whole,
)
from gputel.telemetry.readings import Call, NvmlField, Reading, Source

FIELD = struct.Struct("=IIqqII8x")  # id, scope, stamp, latency, type of value, return code; then the value
TYPES = {0: "d", 1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x"}
UNSIGNED_INT = 1
UNSIGNED_CODES = ("I", "I4x")
SLOWEST_PSTATE = 15


@dataclass(frozen=True)
class CallShape:
    """How to call a function: its numbers before the pointers, the memory's initial content, where the value is."""

    code: str
    size: int
    at: int = 0
    arguments: tuple[int, ...] = ()
    preset: bytes = b""
    pointers: tuple[int, ...] = (0,)
    convert: Callable[[int], int | None] = int


TEMPERATURE = struct.pack("=IIi", 12 | 1 << 24, 0, 0)
MEMORY_2 = struct.pack("=I4x4Q", 40 | 2 << 24, 0, 0, 0, 0)
GPU_TEMPERATURE, SM_CLOCK, MEMORY_CLOCK, UNCORRECTED, VOLATILE = 0, 1, 2, 1, 0

SHAPES = {
    Call("nvmlDeviceGetPowerUsage"): CallShape("I", 4),
    Call("nvmlDeviceGetTotalEnergyConsumption"): CallShape("Q", 8),
    Call("nvmlDeviceGetTemperatureV"): CallShape("i", 12, at=8, preset=TEMPERATURE),
    Call("nvmlDeviceGetTemperature"): CallShape("I", 4, arguments=(GPU_TEMPERATURE,)),
    Call("nvmlDeviceGetUtilizationRates", "gpu"): CallShape("I", 8),
    Call("nvmlDeviceGetUtilizationRates", "memory"): CallShape("I", 8, at=4),
    Call("nvmlDeviceGetMemoryInfo_v2", "used"): CallShape("Q", 40, at=32, preset=MEMORY_2),
    Call("nvmlDeviceGetMemoryInfo", "used"): CallShape("Q", 24, at=16),
    Call("nvmlDeviceGetClockInfo", "sm"): CallShape("I", 4, arguments=(SM_CLOCK,)),
    Call("nvmlDeviceGetClockInfo", "memory"): CallShape("I", 4, arguments=(MEMORY_CLOCK,)),
    Call("nvmlDeviceGetPerformanceState"): CallShape("I", 4, convert=lambda p: p if p <= SLOWEST_PSTATE else None),
    Call("nvmlDeviceGetCurrentClocksEventReasons"): CallShape("Q", 8),
    Call("nvmlDeviceGetCurrentClocksThrottleReasons"): CallShape("Q", 8),
    Call("nvmlDeviceGetEnforcedPowerLimit"): CallShape("I", 4),
    Call("nvmlDeviceGetFanSpeed"): CallShape("I", 4),
    Call("nvmlDeviceGetTotalEccErrors", "uncorrected"): CallShape("Q", 8, arguments=(UNCORRECTED, VOLATILE)),
    Call("nvmlDeviceGetRemappedRows"): CallShape(
        "Q", 16, pointers=(0, 4, 8, 12), convert=lambda both: (both >> 32) + (both & 0xFFFFFFFF)
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ValueSlot:
    """Where one reading is in the block: `owner` is the index of its call, `field` that of its field."""

    reading: Reading
    at: int
    owner: int
    code: str | None = None
    field: int | None = None
    convert: Callable[[int], int | None] = int


class CallReader:
    """Reads the fields and calls of one GPU; `pcie_bytes_s` is what its PCIe link carries at most."""

    def __init__(
        self,
        library: Library,
        handle: Handle,
        wanted: Sequence[tuple[Reading, Source]],
        pcie_bytes_s: float = PCIE_BYTES_S,
    ) -> None:
        fields = [source for _, source in wanted if isinstance(source, NvmlField)]
        calls = list(dict.fromkeys(_call_key(s) for _, s in wanted if isinstance(s, Call)))
        starts, size = _layout(calls, FIELD.size * len(fields))
        self._buffer = ctypes.create_string_buffer(size)
        self._address = ctypes.addressof(self._buffer)
        self._slots = _slots(wanted, fields, calls, starts)
        self._calls = [self._fields_call(library, handle, fields)] if fields else []
        self._calls += [
            self._call(library, handle, key, start) for key, start in zip(calls, starts, strict=True)
        ]
        self._well = [OK] * len(self._calls)
        self._statuses = self._well
        self._heads = _layout_of("=" + "24xII8x" * len(fields))
        self._expected: tuple[int, ...] | None = None
        self._values = _layout_of("=")
        self._in_order: Callable[[Sequence[int]], Sequence[int]] | None = None
        self._raw: tuple[int, ...] | None = None
        self._answer: Values = ()
        self._rates: Rates | None = None
        self._pcie_bytes_s = pcie_bytes_s
        self._converters: list[tuple[int, Callable[[int], int | None]]] = []

    def ask(self) -> None:
        self._statuses = [call(*arguments) for call, arguments in self._calls]

    def answer(self, now: int) -> Values:
        """Decode the last `ask`; most sensors refresh more slowly than they are read, so many answers repeat."""
        heads = self._heads.unpack_from(self._buffer)
        if (self._statuses != self._well or heads != self._expected) and not self._settle(heads):
            return self._with_gaps(now)
        raw, rates = self._values.unpack_from(self._buffer), self._rates
        if raw == self._raw and (rates is None or rates.hold(now)):
            return self._answer
        if UNAVAILABLE in raw or max(raw) > INT64:
            return self._with_gaps(now)
        values: list[int | None] = list(raw if self._in_order is None else self._in_order(raw))
        for place, convert in self._converters:
            values[place] = convert(values[place])  # type: ignore[arg-type]
        if rates is not None:
            rates.into(values, now)
        self._raw, self._answer = raw if now != NO_MOMENT else None, values
        return values

    def counters(self) -> Mapping[str, CounterState]:
        return {} if self._rates is None else self._rates.states()

    def faults(self) -> list[int]:
        """The return code of each value of the last answer."""
        heads = self._heads.unpack_from(self._buffer)
        return [self._status(place, heads) for place in self._slots]

    def _status(self, place: ValueSlot, heads: Sequence[int]) -> int:
        status = self._statuses[place.owner]
        return status or (heads[2 * place.field + 1] if place.field is not None else OK)

    def _settle(self, heads: tuple[int, ...]) -> bool:
        """Learn the fields' types and how to unpack them; False if a call or field failed."""
        if (
            not self._slots
            or self._statuses != self._well
            or any(heads[1::2])
            or not set(heads[::2]) <= TYPES.keys()
        ):
            return False
        codes = [place.code or TYPES[heads[2 * (place.field or 0)]] for place in self._slots]
        self._values, self._in_order = _unpacking(
            [(p.at, c) for p, c in zip(self._slots, codes, strict=True)]
        )
        self._converters = [(i, p.convert) for i, p in enumerate(self._slots) if p.convert is not int]
        self._converters += [(i, whole) for i, code in enumerate(codes) if code == "d"]
        self._rates = self._rates or self._rates_for(heads)
        self._expected, self._raw = _shared(heads), None
        return True

    def _rates_for(self, heads: Sequence[int]) -> Rates | None:
        counters = []
        for i, slot in enumerate(self._slots):
            if size := slot.reading.bytes_a_count:
                narrow = heads[2 * (slot.field or 0)] == UNSIGNED_INT
                most = self._pcie_bytes_s if size == 1 else NVLINK_BYTES_S
                counters.append(Counter(slot.reading.name, i, size, narrow, most))
        return Rates(counters) if counters else None

    def _with_gaps(self, now: int) -> Values:
        """Decode value by value, because a call or a field failed, or the driver does not know a value."""
        self._raw = None
        heads = self._heads.unpack_from(self._buffer)
        statuses = [self._status(place, heads) for place in self._slots]
        for status in statuses:
            if status in LOST or set(statuses) == {UNKNOWN}:
                raise GpuLost(error_name(status))
        values = [
            self._value(place, status, heads) for place, status in zip(self._slots, statuses, strict=True)
        ]
        self._rates = self._rates or self._rates_for(heads)
        if self._rates is not None:
            self._rates.into(values, now)
        return values

    def _value(self, place: ValueSlot, status: int, heads: Sequence[int]) -> int | None:
        code = place.code or TYPES.get(heads[2 * (place.field or 0)])
        if status != OK or code is None:
            return None
        raw = struct.unpack_from("=" + code, self._buffer, place.at)[0]
        value = None if raw == UNAVAILABLE and code in UNSIGNED_CODES else whole(raw)
        return None if value is None else place.convert(value)

    def _fields_call(self, library: Library, handle: Handle, fields: Sequence[NvmlField]) -> Prepared:
        for i, field in enumerate(fields):
            FIELD.pack_into(self._buffer, i * FIELD.size, field.id, field.scope, 0, 0, 0, 0)
        return library.prepare(
            "nvmlDeviceGetFieldValues", handle, c_int(len(fields)), c_void_p(self._address)
        )

    def _call(self, library: Library, handle: Handle, key: Call, start: int) -> Prepared:
        shape = SHAPES[key]
        ctypes.memmove(self._address + start, shape.preset, len(shape.preset))
        pointers = [c_void_p(self._address + start + offset) for offset in shape.pointers]
        return library.prepare(key.function, handle, *map(c_uint, shape.arguments), *pointers)


def _call_key(call: Call) -> Call:
    """The first row of SHAPES with the same call: two numbers returned by one call share its memory."""
    arguments = SHAPES[call].arguments
    return next(
        key for key, shape in SHAPES.items() if key.function == call.function and shape.arguments == arguments
    )


def _layout(calls: Sequence[Call], start: int) -> tuple[list[int], int]:
    starts = []
    for call in calls:
        starts.append(start)
        start += -(-SHAPES[call].size // 8) * 8
    return starts, start


def _slots(
    wanted: Sequence[tuple[Reading, Source]],
    fields: Sequence[NvmlField],
    calls: Sequence[Call],
    starts: Sequence[int],
) -> list[ValueSlot]:
    places = []
    for reading, source in wanted:
        if isinstance(source, NvmlField):
            number = fields.index(source)
            places.append(ValueSlot(reading, number * FIELD.size + 32, 0, field=number))
        elif isinstance(source, Call):
            number, shape = calls.index(_call_key(source)), SHAPES[source]
            places.append(
                ValueSlot(
                    reading,
                    starts[number] + shape.at,
                    number + bool(fields),
                    shape.code,
                    convert=shape.convert,
                )
            )
    return places


def _unpacking(
    codes: Sequence[tuple[int, str]],
) -> tuple[struct.Struct, Callable[[Sequence[int]], Sequence[int]] | None]:
    """A format that unpacks all values in memory order, and what brings them into the requested order."""
    order = sorted(range(len(codes)), key=lambda i: codes[i][0])
    layout, end = "=", 0
    for i in order:
        start, code = codes[i]
        layout += f"{start - end}x{code}"
        end = start + struct.calcsize("=" + code)
    back = [order.index(i) for i in range(len(codes))]
    if back == sorted(back):
        return _layout_of(layout), None
    return _layout_of(layout), itemgetter(*back)


@cache
def _shared(heads: tuple[int, ...]) -> tuple[int, ...]:
    """One object for equal tuples, for the same reason as the layouts."""
    return heads


@cache
def _layout_of(layout: str) -> struct.Struct:
    """One object for equal GPUs: at 100 Hz the processor's caches are cold at every tick, and objects count."""
    return struct.Struct(layout)
