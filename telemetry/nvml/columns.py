"""The answers of one GPU at many ticks, decoded column by column.

Each row is a copy of a reader's memory: the fields as NVML lays them out, the memory of each call, and the calls'
return codes. A value is null by the return code of its own call or field. The types of the fields, and with them
the decoding, may change from one row to the next: rows are decoded in runs of equal types and return codes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.telemetry.machine import Bits, GpuLost, Integers, RawRows
from gputel.telemetry.nvml.library import INT64, LOST, OK, UNAVAILABLE, UNKNOWN, error_name, whole
from gputel.telemetry.readings import Reading

FIELD = struct.Struct("=IIqqII8x")  # id, scope, stamp, latency, type of value, return code; then the value
FIELD_HEAD, FIELD_VALUE = 24, 32
HEAD = struct.Struct("=II")  # type of value, return code
TYPES = {0: "d", 1: "I", 2: "Q", 3: "Q", 4: "q", 5: "i", 6: "H"}
UNSIGNED_INT = 1
STATUS = struct.Struct("=i")


@dataclass(frozen=True)
class ValueSlot:
    """Where one reading is in the memory: `owner` is the index of its call, `field` that of its field."""

    reading: Reading
    at: int
    owner: int
    code: str | None = None
    field: int | None = None
    convert: Callable[[int], int | None] = int


class Decoding(NamedTuple):
    """How rows of equal types and return codes are decoded."""

    columns: tuple[tuple[int, str, int], ...]
    """Column, type and place of each value that was answered."""
    unanswered: tuple[int, ...]
    unsigned: Bits
    """The columns in which an unsigned int says that a value is unavailable."""
    wide: Bits
    """Columns of unsigned 64 bits: the store cannot hold a value whose highest bit is set."""
    converters: tuple[tuple[int, Callable[[int], int | None]], ...]
    lost: str | None


class Columns:
    """Decodes copies of one reader's memory; `statuses_at` is where the return codes of its calls are."""

    def __init__(self, slots: Sequence[ValueSlot], fields: int, calls: int, statuses_at: int) -> None:
        self.slots = slots
        self._fields, self._calls, self._statuses_at = fields, calls, statuses_at
        between = statuses_at - fields * FIELD.size
        self._all_codes = struct.Struct("=" + "28xI8x" * fields + f"{between}x{calls}i")
        self._known: dict[bytes, Decoding] = {}

    def statuses(self, row: bytes | memoryview, offset: int = 0) -> list[int]:
        """The return code of each value of one row."""
        return [self._status(row, offset, slot) for slot in self.slots]

    def faults(self, row: bytes | memoryview) -> dict[str, str]:
        """The error of each reading of one row that the driver did not give; none if the GPU is lost."""
        if not any(self._all_codes.unpack_from(row)):
            return {}
        codes = self.statuses(row)
        names = [] if lost(codes) else [slot.reading.name for slot in self.slots]
        return {name: error_name(code) for name, code in zip(names, codes, strict=False) if code != OK}

    def value(self, row: bytes | memoryview, offset: int, slot: ValueSlot) -> int | None:
        """One value of one row; of a counter, what it has counted."""
        code = slot.code or TYPES.get(self._head(row, offset, slot)[0])
        if self._status(row, offset, slot) != OK or code is None:
            return None
        raw = struct.unpack_from("=" + code, row, offset + slot.at)[0]
        value = None if raw == UNAVAILABLE and code == "I" else whole(raw)
        return None if value is None else slot.convert(value)

    def type_of(self, row: bytes | memoryview, slot: ValueSlot) -> int:
        """NVML's number for the type of a field."""
        return self._head(row, 0, slot)[0]

    def decode(self, raw: RawRows, values: Integers, valid: Bits) -> None:
        """Decode rows into arrays of (tick, GPU, reading)."""
        data, offset, ticks, stride, gpus, step = raw
        statuses = np.ndarray(
            (ticks, gpus, self._calls), "<i4", data, offset + self._statuses_at, (stride, step, STATUS.size)
        )
        heads = np.zeros((ticks, gpus, 0, 2), np.uint32)
        if self._fields:
            heads = np.ndarray(
                (ticks, gpus, self._fields, 2),
                "<u4",
                data,
                offset + FIELD_HEAD,
                (stride, step, FIELD.size, 4),
            )
        if not (statuses != statuses[0, 0]).any() and not (heads != heads[0, 0]).any():
            _decode(raw, self._decoding(statuses[0, 0], heads[0, 0]), values, valid)
        else:
            for gpu in range(gpus):
                self._decode_runs(
                    raw._replace(offset=offset + gpu * step, gpus=1),
                    statuses[:, gpu],
                    heads[:, gpu],
                    values[:, gpu : gpu + 1],
                    valid[:, gpu : gpu + 1],
                )

    def _decode_runs(
        self,
        raw: RawRows,
        statuses: npt.NDArray[np.int32],
        heads: npt.NDArray[np.uint32],
        values: Integers,
        valid: Bits,
    ) -> None:
        """Decode rows of one GPU in runs of equal types and return codes."""
        changed = (statuses[1:] != statuses[:-1]).any(axis=1) | (heads[1:] != heads[:-1]).any(axis=(1, 2))
        starts = [0, *(np.flatnonzero(changed) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], raw.ticks], strict=True):
            rows = raw._replace(offset=raw.offset + start * raw.stride, ticks=end - start)
            decoding = self._decoding(statuses[start], heads[start])
            _decode(rows, decoding, values[start:end], valid[start:end])

    def _decoding(self, statuses: npt.NDArray[np.int32], heads: npt.NDArray[np.uint32]) -> Decoding:
        key = statuses.tobytes() + heads.tobytes()
        if key not in self._known:
            self._known[key] = self._learned(statuses.tolist(), heads.ravel().tolist())
        return self._known[key]

    def _learned(self, statuses: Sequence[int], heads: Sequence[int]) -> Decoding:
        codes = [slot.code or TYPES.get(heads[2 * (slot.field or 0)]) for slot in self.slots]
        failed = [
            statuses[slot.owner] or (0 if slot.field is None else heads[2 * slot.field + 1])
            for slot in self.slots
        ]
        answered = [i for i, code in enumerate(codes) if code is not None and not failed[i]]
        return Decoding(
            tuple((i, "<" + (codes[i] or ""), self.slots[i].at) for i in answered),
            tuple(i for i in range(len(codes)) if i not in answered),
            np.array([code == "I" for code in codes], np.bool_),
            np.array([code == "Q" for code in codes], np.bool_),
            tuple((i, self.slots[i].convert) for i in answered if self.slots[i].convert is not int),
            lost(failed),
        )

    def _head(self, row: bytes | memoryview, offset: int, slot: ValueSlot) -> tuple[int, int]:
        at = offset + FIELD_HEAD + FIELD.size * (slot.field or 0)
        kind, status = HEAD.unpack_from(row, at) if slot.field is not None else (UNSIGNED_INT, OK)
        return kind, status

    def _status(self, row: bytes | memoryview, offset: int, slot: ValueSlot) -> int:
        at = offset + self._statuses_at + STATUS.size * slot.owner
        return int(STATUS.unpack_from(row, at)[0]) or self._head(row, offset, slot)[1]


def lost(statuses: Iterable[int]) -> str | None:
    """The return code that makes a GPU lost, if one of its values has one, or if all are unknown."""
    codes = set(statuses)
    status = next((status for status in codes if status in LOST), UNKNOWN if codes == {UNKNOWN} else None)
    return None if status is None else error_name(status)


def raise_if_lost(statuses: Iterable[int]) -> None:
    if (why := lost(statuses)) is not None:
        raise GpuLost(why)


def _decode(raw: RawRows, decoding: Decoding, values: Integers, valid: Bits) -> None:
    data, offset, ticks, stride, gpus, step = raw
    shape, strides = (ticks, gpus), (stride, step)
    valid[:] = decoding.lost is None
    if decoding.lost is not None:
        values[:] = 0
        return
    for column, code, at in decoding.columns:
        answers = np.ndarray(shape, code, data, offset + at, strides)
        if code == "<d":
            valid[..., column] = np.abs(answers) < INT64 + 1
            answers = np.rint(np.where(valid[..., column], answers, 0))
        values[..., column] = answers.view("<i8") if code == "<Q" else answers
    for column in decoding.unanswered:
        values[..., column], valid[..., column] = 0, False
    missing = (values == UNAVAILABLE) & decoding.unsigned
    missing |= (values < 0) & decoding.wide
    missing |= values == -INT64 - 1
    if missing.any():
        values[missing], valid[missing] = 0, False
    for column, convert in decoding.converters:
        _convert(convert, values[..., column], valid[..., column])


def _convert(convert: Callable[[int], int | None], values: Integers, valid: Bits) -> None:
    """Convert each value that is there; most are the same all the time."""
    for value in set(values.ravel().tolist()):
        converted = convert(value)
        if converted != value:
            there = values == value
            values[there] = converted or 0
            valid[there] &= converted is not None
