"""One record of a TensorBoard event file, read field by field: its time, its step, its scalars and where they lie.

Histograms, images, audio and graphs are named and not read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from gputel.analysis.stores.protobuf import (
    BYTES,
    DOUBLE,
    FIXED32,
    FLOAT,
    WireField,
    fields,
    signed,
    text,
    varint,
)

SESSION_START = 1
HPARAMS = "hparams"
LONGEST_TEXT = 4096  # characters of a text summary that are kept
_DTYPES = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    9: "<i8",
    10: "?",
    14: "bfloat16",
    19: "<f2",
}
_NUMBERS = {5: "<f4", 6: "<f8"}  # fields of a tensor that hold fixed-size numbers
_VARINTS = (7, 10, 11, 16, 17)  # and those that hold integers
_HALVES = 13
_STRINGS = 8
_PARTS = {4: "images", 5: "histograms", 6: "audio"}


@dataclass(frozen=True)
class Scalar:
    """A value with its tag. `region` is its start, size and numpy type within the record, where it has such."""

    tag: str
    value: float
    region: tuple[int, int, str] | None


@dataclass
class EventRecord:
    """One record of an event file."""

    wall_time: float = 0.0
    step: int = 0
    scalars: list[Scalar] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    hparams: dict[str, float | str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    is_session_start: bool = False
    is_plain: bool = True  # whether it holds a time, a step and scalars alone


def read_record(data: bytes) -> EventRecord:
    """Reads one record; raises WireError if it is no event."""
    event = EventRecord()
    for part in fields(data):
        if part.number == 1:
            event.wall_time = float(DOUBLE.unpack(data[part.start : part.end])[0]) if part.kind == 1 else 0.0
        elif part.number == 2:
            event.step = signed(part.value)
        elif part.number == 5 and part.kind == BYTES:
            _read_summary(data, part, event)
        else:
            event.is_plain = False
            _read_other(data, part, event)
    return event


def _read_other(data: bytes, part: WireField, event: EventRecord) -> None:
    if part.number == 7 and part.kind == BYTES:
        status = next((each.value for each in fields(data, part.start, part.end) if each.number == 1), 0)
        event.is_session_start = status == SESSION_START
    elif part.number in (4, 9):
        event.skipped.append("graphs")


def _read_summary(data: bytes, summary: WireField, event: EventRecord) -> None:
    for value in fields(data, summary.start, summary.end):
        if value.number == 1 and value.kind == BYTES:
            _read_value(data, value, event)


def _read_value(data: bytes, value: WireField, event: EventRecord) -> None:
    tag, plugin, content = "", "", b""
    scalar: WireField | None = None
    tensor: WireField | None = None
    other = ""
    for part in fields(data, value.start, value.end):
        if part.number == 1:
            tag = text(data, part)
        elif part.number == 2 and part.kind == FIXED32:
            scalar = part
        elif part.number == 8 and part.kind == BYTES:
            tensor = part
        elif part.number == 9 and part.kind == BYTES:
            plugin, content = _plugin(data, part)
        else:
            other = _PARTS.get(part.number, other)
    if scalar is not None:
        number = float(FLOAT.unpack(data[scalar.start : scalar.end])[0])
        event.scalars.append(Scalar(tag, number, (scalar.start, 4, "<f4")))
        return
    if plugin == HPARAMS:
        event.hparams |= _hparams(content)
    elif tensor is not None:
        other = _read_tensor(data, tensor, tag, plugin, event)
    event.is_plain = event.is_plain and not other and plugin != HPARAMS
    if other:
        event.skipped.append(other)


def _plugin(data: bytes, metadata: WireField) -> tuple[str, bytes]:
    name, content = "", b""
    for part in fields(data, metadata.start, metadata.end):
        if part.number == 1 and part.kind == BYTES:
            for each in fields(data, part.start, part.end):
                if each.number == 1:
                    name = text(data, each)
                elif each.number == 2:
                    content = data[each.start : each.end]
    return name, content


def _read_tensor(data: bytes, tensor: WireField, tag: str, plugin: str, event: EventRecord) -> str:
    """Adds the scalar or the text of a tensor; returns what it is if it is neither."""
    dtype, count, found = 0, 1, None
    for part in fields(data, tensor.start, tensor.end):
        if part.number == 1:
            dtype = part.value
        elif part.number == 2 and part.kind == BYTES:
            count = _elements(data, part)
        elif found is None:
            found = part
    if dtype == 7:
        if found is not None and found.number == _STRINGS and plugin in ("text", ""):
            event.texts[tag] = text(data, found)[:LONGEST_TEXT]
            event.is_plain = False
            return ""
        return plugin or "texts"
    if count != 1 or plugin not in ("scalars", ""):
        return plugin or "tensors"
    scalar = _number(data, found, dtype, tag)
    if scalar is None:
        return "tensors"
    event.scalars.append(scalar)
    return ""


def _elements(data: bytes, shape: WireField) -> int:
    """The number of elements of a shape: the product of its dimensions."""
    count = 1
    for part in fields(data, shape.start, shape.end):
        if part.number == 2 and part.kind == BYTES:
            count *= next((each.value for each in fields(data, part.start, part.end) if each.number == 1), 0)
    return count


def _number(data: bytes, part: WireField | None, dtype: int, tag: str) -> Scalar | None:
    if part is None:
        return Scalar(tag, 0.0, None)  # protobuf leaves out a zero
    start, size = part.start, part.end - part.start
    kind = _DTYPES.get(dtype) if part.number == 4 else _NUMBERS.get(part.number)
    if kind and kind != "bfloat16":
        if size != _SIZES[kind[-2:].lstrip("<")]:
            return None
        value = struct.unpack(_STRUCTS[kind], data[start : part.end])[0]
        return Scalar(tag, float(value), (start, size, kind))
    if part.number == 4 and kind and size == 2:
        return Scalar(tag, _bfloat(int.from_bytes(data[start : part.end], "little")), None)
    if part.number in (*_VARINTS, _HALVES):
        number = next(iter(_packed(data, part)), 0)
        if part.number == _HALVES:
            half = struct.pack("<H", number & 0xFFFF)
            return Scalar(tag, _bfloat(number) if kind == "bfloat16" else struct.unpack("<e", half)[0], None)
        return Scalar(tag, float(signed(number)), None)
    return None


_SIZES = {"f4": 4, "f8": 8, "i4": 4, "u1": 1, "i2": 2, "i1": 1, "i8": 8, "?": 1, "f2": 2}
_STRUCTS = {
    "<f4": "<f", "<f8": "<d", "<i4": "<i", "u1": "<B", "<i2": "<h", "i1": "<b", "<i8": "<q", "?": "<?", "<f2": "<e",
}  # fmt: skip


def _packed(data: bytes, part: WireField) -> Iterator[int]:
    """The integers of a field, which may be packed into bytes."""
    if part.kind != BYTES:
        yield part.value
        return
    at = part.start
    while at < part.end:
        value, at = varint(data, at, part.end)
        yield value


def _bfloat(bits: int) -> float:
    return float(FLOAT.unpack(struct.pack("<I", (bits & 0xFFFF) << 16))[0])


def _hparams(content: bytes) -> dict[str, float | str]:
    """The settings of `_hparams_/session_start_info`."""
    settings: dict[str, float | str] = {}
    for session in fields(content):
        if session.number != 3 or session.kind != BYTES:
            continue
        for entry in fields(content, session.start, session.end):
            if entry.number == 1 and entry.kind == BYTES:
                name, value = _setting(content, entry)
                if value is not None:
                    settings[name] = value
    return settings


def _setting(content: bytes, entry: WireField) -> tuple[str, float | str | None]:
    """A name and a `google.protobuf.Value`."""
    name, value = "", None
    for part in fields(content, entry.start, entry.end):
        if part.number == 1:
            name = text(content, part)
        elif part.number == 2 and part.kind == BYTES:
            value = _value(content, part)
    return name, value


def _value(content: bytes, holder: WireField) -> float | str | None:
    for part in fields(content, holder.start, holder.end):
        if part.number == 2 and part.kind == 1:
            return float(DOUBLE.unpack(content[part.start : part.end])[0])
        if part.number == 3 and part.kind == BYTES:
            return text(content, part)
        if part.number == 4:
            return "true" if part.value else "false"
    return None
