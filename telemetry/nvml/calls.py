"""Reads one GPU into one block of memory, laid out once: `ask` fills it, `columns` decodes copies of it.

One call reads all fields. The return codes of the calls lie behind what they answered, so that a copy of the memory
says all of one read. Byte counters become rates in `counters`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int, c_uint, c_void_p
from dataclasses import dataclass

from gputel.telemetry.machine import Bits, CounterState, Integers, RawRows, Values
from gputel.telemetry.nvml.columns import FIELD, FIELD_VALUE, UNSIGNED_INT, Columns, ValueSlot, raise_if_lost
from gputel.telemetry.nvml.counters import NVLINK_BYTES_S, PCIE_BYTES_S, Counter, Rates
from gputel.telemetry.nvml.library import OK, Handle, Library, Prepared
from gputel.telemetry.readings import Call, NvmlField, Reading, Source

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
        slots = _slots(wanted, fields, calls, starts)
        count = len(calls) + bool(fields)
        self._pack_statuses = struct.Struct(f"={count}i").pack_into
        self._buffer = ctypes.create_string_buffer(size + 8 * (count // 2 + 1))
        self.memory = memoryview(self._buffer).cast("B")
        self._address = ctypes.addressof(self._buffer)
        own = [self._call(library, handle, key, start) for key, start in zip(calls, starts, strict=True)]
        for n, field in enumerate(fields):
            FIELD.pack_into(self._buffer, n * FIELD.size, field.id, field.scope, 0, 0, 0, 0)
        self._calls = ([self._fields_call(library, handle, 0, len(fields))] if fields else []) + own
        several = range(len(fields) if len(fields) > 1 else 0)
        self._apart = [self._fields_call(library, handle, n, 1) for n in several]
        self._fields = len(fields)
        self._alone, self._together_ns, self._apart_ns = True, 0, [0 for _ in self._apart]
        self._statuses = [OK] * count
        self._statuses_at = size
        self.failed = False
        self._columns = Columns(slots, len(fields), count, size)
        self.layout: object = tuple((source, reading.name) for reading, source in wanted)
        self._rates: Rates | None = None
        self._pcie_bytes_s = pcie_bytes_s

    @property
    def prepared(self) -> Sequence[Prepared]:
        return () if any(self._statuses) else self._calls

    def ask(self) -> None:
        statuses = [call(*arguments) for call, arguments in self._calls]
        if statuses != self._statuses:
            self._note(statuses)

    def timed(self, monotonic: Callable[[], int]) -> Sequence[int]:
        statuses, costs = list[int](), list[int]()
        self._alone = bool(self._apart) and not self._alone
        for call, arguments in (self._apart + self._calls[1:]) if self._alone else self._calls:
            began = monotonic()
            statuses.append(call(*arguments))
            costs.append(monotonic() - began)
        if self._alone:
            count = len(self._apart)
            self._apart_ns, costs[:count] = costs[:count], [self._together_ns]
            statuses[:count] = [next(filter(None, statuses[:count]), OK)]
        if statuses != self._statuses:
            self._note(statuses)
        if not self._apart:
            return costs
        self._together_ns = costs[0]
        return _field_costs(costs[0], self._apart_ns) + costs[1:]

    @property
    def calls(self) -> Sequence[tuple[str, ...]]:
        slots, batches = self._columns.slots, bool(self._fields)
        fields = [[slot for slot in slots if slot.field == n] for n in range(self._fields)]
        own = [[slot for slot in slots if slot.owner == n] for n in range(batches, len(self._calls))]
        return [tuple(slot.reading.name for slot in asked) for asked in fields + own]

    def check(self) -> None:
        self.failed = False
        raise_if_lost(self.statuses())

    def answer(self, now: int) -> Values:
        self.check()
        values = [self._columns.value(self.memory, 0, slot) for slot in self._columns.slots]
        self._known_rates().into(values, now)
        return values

    def value(self, row: bytes, offset: int, place: int) -> int | None:
        return self._columns.value(row, offset, self._columns.slots[place])

    def decode(self, raw: RawRows, values: Integers, valid: Bits) -> None:
        self._columns.decode(raw, values, valid)

    def follow(self, times: Sequence[int], values: Integers, valid: Bits) -> None:
        self._known_rates().into_all(values, valid, times)

    def counters(self) -> Mapping[str, CounterState]:
        return {} if self._rates is None else self._rates.states()

    def faults(self) -> Mapping[str, str]:
        return self._columns.faults(self.memory)

    def statuses(self) -> list[int]:
        """The return code of each value of the last answer."""
        return self._columns.statuses(self.memory)

    def _note(self, statuses: list[int]) -> None:
        """Write the return codes behind the answers."""
        self._statuses = statuses
        self._pack_statuses(self._buffer, self._statuses_at, *statuses)
        self.failed = any(statuses)

    def _known_rates(self) -> Rates:
        """The rates of its counters, whose widths the first answer says."""
        if self._rates is None:
            counters = []
            for i, slot in enumerate(self._columns.slots):
                if size := slot.reading.bytes_a_count:
                    narrow = self._columns.type_of(self.memory, slot) == UNSIGNED_INT
                    most = self._pcie_bytes_s if size == 1 else NVLINK_BYTES_S
                    counters.append(Counter(slot.reading.name, i, size, narrow, most))
            self._rates = Rates(counters)
        return self._rates

    def _fields_call(self, library: Library, handle: Handle, first: int, count: int) -> Prepared:
        place = c_void_p(self._address + first * FIELD.size)
        return library.prepare("nvmlDeviceGetFieldValues", handle, c_int(count), place)

    def _call(self, library: Library, handle: Handle, key: Call, start: int) -> Prepared:
        shape = SHAPES[key]
        ctypes.memmove(self._address + start, shape.preset, len(shape.preset))
        pointers = [c_void_p(self._address + start + offset) for offset in shape.pointers]
        return library.prepare(key.function, handle, *map(c_uint, shape.arguments), *pointers)


def _field_costs(together: int, apart: Sequence[int]) -> list[int]:
    """What each field adds to the call that reads all; the first bears what the call costs by itself."""
    base = min(*apart, max(0, (sum(apart) - together) // (len(apart) - 1)))
    share = max(0, together - base) / max(1, sum(apart) - base * len(apart))
    others = [round((cost - base) * share) for cost in apart[1:]]
    return [together - sum(others), *others]


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
            places.append(ValueSlot(reading, number * FIELD.size + FIELD_VALUE, 0, field=number))
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
