"""Readings of one GPU as calls into one block of memory, laid out once: ask fills it, answer unpacks it in one go.

All fields are one call. A value is null by the return code of its own call or field; which types the fields have is
learnt from the first answer, and looked at again whenever anything is not as it was then.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import c_int, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from gputel.telemetry.machine import GpuLost, Values
from gputel.telemetry.nvml.counters import Counter, Rates
from gputel.telemetry.nvml.library import LOST, OK, UNKNOWN, Handle, Library, Prepared, error_name
from gputel.telemetry.readings import Call, Field, Reading, Source

FIELD = struct.Struct("=IIqqII8x")  # id, scope, stamp, latency, type of value, return code; then the value
TYPES = {0: "d", 1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x"}
UNSIGNED_INT = 1
UNKNOWN_PSTATE = 32


@dataclass(frozen=True)
class Shape:
    """How a function is called: numbers before the pointers, what its memory holds first, where its value is."""

    code: str
    size: int
    at: int = 0
    arguments: tuple[int, ...] = ()
    preset: bytes = b""
    pointers: tuple[int, ...] = (0,)
    mend: Callable[[int], int | None] = int


TEMPERATURE = struct.pack("=IIi", 12 | 1 << 24, 0, 0)
MEMORY_2 = struct.pack("=I4x4Q", 40 | 2 << 24, 0, 0, 0, 0)
GPU_TEMPERATURE, SM_CLOCK, MEMORY_CLOCK, UNCORRECTED, VOLATILE = 0, 1, 2, 1, 0

SHAPES = {
    Call("nvmlDeviceGetPowerUsage"): Shape("I", 4),
    Call("nvmlDeviceGetTotalEnergyConsumption"): Shape("Q", 8),
    Call("nvmlDeviceGetTemperatureV"): Shape("i", 12, at=8, preset=TEMPERATURE),
    Call("nvmlDeviceGetTemperature"): Shape("I", 4, arguments=(GPU_TEMPERATURE,)),
    Call("nvmlDeviceGetUtilizationRates", "gpu"): Shape("I", 8),
    Call("nvmlDeviceGetUtilizationRates", "memory"): Shape("I", 8, at=4),
    Call("nvmlDeviceGetMemoryInfo_v2", "used"): Shape("Q", 40, at=32, preset=MEMORY_2),
    Call("nvmlDeviceGetMemoryInfo", "used"): Shape("Q", 24, at=16),
    Call("nvmlDeviceGetClockInfo", "sm"): Shape("I", 4, arguments=(SM_CLOCK,)),
    Call("nvmlDeviceGetClockInfo", "memory"): Shape("I", 4, arguments=(MEMORY_CLOCK,)),
    Call("nvmlDeviceGetPerformanceState"): Shape("I", 4, mend=lambda p: None if p == UNKNOWN_PSTATE else p),
    Call("nvmlDeviceGetCurrentClocksEventReasons"): Shape("Q", 8),
    Call("nvmlDeviceGetCurrentClocksThrottleReasons"): Shape("Q", 8),
    Call("nvmlDeviceGetEnforcedPowerLimit"): Shape("I", 4),
    Call("nvmlDeviceGetFanSpeed"): Shape("I", 4),
    Call("nvmlDeviceGetTotalEccErrors", "uncorrected"): Shape("Q", 8, arguments=(UNCORRECTED, VOLATILE)),
    Call("nvmlDeviceGetRemappedRows"): Shape(
        "Q", 16, pointers=(0, 4, 8, 12), mend=lambda both: (both >> 32) + (both & 0xFFFFFFFF)
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where one reading stands in the block: `owner` is the number of its call, `field` of its field."""

    reading: Reading
    at: int
    owner: int
    code: str | None = None
    field: int | None = None
    mend: Callable[[int], int | None] = int


class CallReader:
    """Fields and calls of one GPU."""

    def __init__(self, library: Library, handle: Handle, wanted: Sequence[tuple[Reading, Source]]) -> None:
        fields = [source for _, source in wanted if isinstance(source, Field)]
        calls = list(dict.fromkeys(_call_key(s) for _, s in wanted if isinstance(s, Call)))
        starts, size = _layout(calls, FIELD.size * len(fields))
        self._buffer = ctypes.create_string_buffer(size)
        self._address = ctypes.addressof(self._buffer)
        self._places = _places(wanted, fields, calls, starts)
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
        self._rates: Rates | None = None
        self._mends: list[tuple[int, Callable[[int], int | None]]] = []

    def ask(self) -> None:
        self._statuses = [call(*arguments) for call, arguments in self._calls]

    def answer(self, now: int) -> Values:
        heads = self._heads.unpack_from(self._buffer)
        if (self._statuses != self._well or heads != self._expected) and not self._settle(heads):
            return self._with_gaps(now)
        raw = self._values.unpack_from(self._buffer)
        values: list[int | None] = list(raw if self._in_order is None else self._in_order(raw))
        for place, mend in self._mends:
            values[place] = mend(values[place])  # type: ignore[arg-type]
        if self._rates is not None:
            self._rates.into(values, now)
        return values

    def faults(self) -> list[int]:
        """The return code behind each value of the last answer."""
        heads = self._heads.unpack_from(self._buffer)
        return [self._status(place, heads) for place in self._places]

    def _status(self, place: Place, heads: Sequence[int]) -> int:
        status = self._statuses[place.owner]
        return status or (heads[2 * place.field + 1] if place.field is not None else OK)

    def _settle(self, heads: tuple[int, ...]) -> bool:
        """Where all is well: learn the types, and from them how to unpack. False where something is not."""
        if self._statuses != self._well or any(heads[1::2]) or not set(heads[::2]) <= TYPES.keys():
            return False
        codes = [place.code or TYPES[heads[2 * (place.field or 0)]] for place in self._places]
        self._values, self._in_order = _unpacking(
            [(p.at, c) for p, c in zip(self._places, codes, strict=True)]
        )
        self._mends = [(i, p.mend) for i, p in enumerate(self._places) if p.mend is not int]
        self._mends += [(i, round) for i, code in enumerate(codes) if code == "d"]
        self._rates = self._rates or self._rates_for(heads)
        self._expected = _one(heads)
        return True

    def _rates_for(self, heads: Sequence[int]) -> Rates | None:
        counters = [
            Counter(i, place.reading.bytes_a_count, heads[2 * (place.field or 0)] == UNSIGNED_INT)
            for i, place in enumerate(self._places)
            if place.reading.bytes_a_count
        ]
        return Rates(counters) if counters else None

    def _with_gaps(self, now: int) -> Values:
        """Value by value, where a call or a field did not answer."""
        heads = self._heads.unpack_from(self._buffer)
        statuses = [self._status(place, heads) for place in self._places]
        for status in statuses:
            if status in LOST or set(statuses) == {UNKNOWN}:
                raise GpuLost(error_name(status))
        values = [
            self._value(place, status, heads) for place, status in zip(self._places, statuses, strict=True)
        ]
        self._rates = self._rates or self._rates_for(heads)
        if self._rates is not None:
            self._rates.into(values, now)
        return values

    def _value(self, place: Place, status: int, heads: Sequence[int]) -> int | None:
        code = place.code or TYPES.get(heads[2 * (place.field or 0)])
        if status != OK or code is None:
            return None
        return place.mend(round(struct.unpack_from("=" + code, self._buffer, place.at)[0]))

    def _fields_call(self, library: Library, handle: Handle, fields: Sequence[Field]) -> Prepared:
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
    """The first row of SHAPES for the same call: two numbers that one call answers share its memory."""
    mine = SHAPES[call]
    return next(
        key for key, s in SHAPES.items() if key.function == call.function and s.arguments == mine.arguments
    )


def _layout(calls: Sequence[Call], start: int) -> tuple[list[int], int]:
    starts = []
    for call in calls:
        starts.append(start)
        start += -(-SHAPES[call].size // 8) * 8
    return starts, start


def _places(
    wanted: Sequence[tuple[Reading, Source]],
    fields: Sequence[Field],
    calls: Sequence[Call],
    starts: Sequence[int],
) -> list[Place]:
    places = []
    for reading, source in wanted:
        if isinstance(source, Field):
            number = fields.index(source)
            places.append(Place(reading, number * FIELD.size + 32, 0, field=number))
        elif isinstance(source, Call):
            number, shape = calls.index(_call_key(source)), SHAPES[source]
            places.append(
                Place(reading, starts[number] + shape.at, number + bool(fields), shape.code, mend=shape.mend)
            )
    return places


def _unpacking(
    codes: Sequence[tuple[int, str]],
) -> tuple[struct.Struct, Callable[[Sequence[int]], Sequence[int]] | None]:
    """One format for values that stand in any order in memory, and what brings them into the order asked for."""
    order = sorted(range(len(codes)), key=lambda i: codes[i][0])
    layout, at = "=", 0
    for i in order:
        start, code = codes[i]
        layout += f"{start - at}x{code}"
        at = start + struct.calcsize("=" + code)
    back = [order.index(i) for i in range(len(codes))]
    if back == sorted(back):
        return _layout_of(layout), None
    return _layout_of(layout), itemgetter(*back)


@cache
def _one(heads: tuple[int, ...]) -> tuple[int, ...]:
    """Equal ones as one object, for the same reason as the layouts."""
    return heads


@cache
def _layout_of(layout: str) -> struct.Struct:
    """Equal GPUs share one: at 100 Hz the processor's caches are cold at every tick, and each object counts."""
    return struct.Struct(layout)
