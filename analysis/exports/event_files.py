"""Series of a run -> one event file of TensorBoard, with hyperparameters. Needs no library of TensorBoard's.

The same run makes the same bytes under the same name, so that a second export replaces the first. Values are 32-bit
floats, as TensorBoard's own writers make them: seven digits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gputel.analysis.exports.series import ExportedRun, TagSeries
from gputel.analysis.render import files
from gputel.analysis.stores import checksums
from gputel.analysis.stores.protobuf import BYTES, DOUBLE, FIXED64, FLOAT, VARINT

ENDING = "gputel"
MARK = b"gputel"  # as the writer that the first record names
HPARAMS_TAG, HPARAMS_PLUGIN = b"_hparams_/session_start_info", b"hparams"
LENGTH, CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
AT_ONCE = 65_536  # records whose checksums are computed together


def write(run: ExportedRun, folder: Path, *, force: bool = False) -> Path:
    """Writes `folder/NAME/events.out.tfevents.START.KEY.gputel`, and never over a file that gputel did not write.

    The folder is NAME-KEY where another run has that of its name: TensorBoard shows a folder as one run.
    """
    place = folder / run.name
    if any(run.key not in path.name for path in place.glob(f"events.out.tfevents.*.{ENDING}")):
        place = folder / f"{run.name}-{run.key}"
    path = place / f"events.out.tfevents.{int(run.started_s):010d}.{run.key}.{ENDING}"
    files.write([files.File(path, lambda draft: draft.write_bytes(content(run)), _is_ours)], force=force)
    return path


def content(run: ExportedRun) -> bytes:
    """The bytes of the whole event file."""
    writer = _bytes(10, _bytes(1, MARK))
    events = [_event(run.started_s, 0, _bytes(3, b"brain.Event:2") + writer)]
    if run.settings:
        events.append(_event(run.started_s, 0, _bytes(5, _bytes(1, _hparams(run)))))
    for series in run.series:
        events += _scalars(series)
    return b"".join(
        part for at in range(0, len(events), AT_ONCE) for part in _records(events[at : at + AT_ONCE])
    )


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK in file.read(80)


def _records(events: Sequence[bytes]) -> Iterator[bytes]:
    """Frames events: length, its checksum, the event, its checksum."""
    lengths = np.array([len(event) for event in events], np.int64)
    heads = lengths.astype("<u8").view(np.uint8)
    of_heads = _masked(heads, np.arange(len(events)) * 8, np.full(len(events), 8))
    body = np.frombuffer(b"".join(events), np.uint8)
    of_events = _masked(body, np.cumsum(lengths) - lengths, lengths)
    for event, head, tail in zip(events, of_heads, of_events, strict=True):
        yield LENGTH.pack(len(event)) + CHECKSUM.pack(head) + event + CHECKSUM.pack(tail)


def _masked(buffer: checksums.Bytes, starts: checksums.Offsets, lengths: checksums.Offsets) -> list[int]:
    masked: list[int] = checksums.masked(checksums.of_pieces(buffer, starts, lengths)).tolist()
    return masked


def _scalars(series: TagSeries) -> Iterator[bytes]:
    name = _bytes(1, series.tag.encode())
    plugin = _bytes(9, _bytes(1, _bytes(1, b"scalars")))
    with np.errstate(over="ignore"):  # beyond a 32-bit float lies infinity
        floats = series.values.astype("<f4")
    for step, moment, value in zip(
        series.steps.tolist(), series.times.tolist(), floats.tolist(), strict=True
    ):
        yield _event(moment, step, _bytes(5, _bytes(1, name + b"\x15" + FLOAT.pack(value) + plugin)))
        plugin = b""  # the first value says what the tag holds


def _event(moment: float, step: int, payload: bytes) -> bytes:
    """An event; an unknown moment is left out, which readers take for 1970."""
    when = b"" if math.isnan(moment) else _key(1, FIXED64) + DOUBLE.pack(moment)
    return when + (_key(2, VARINT) + _varint(step) if step else b"") + payload


def _hparams(run: ExportedRun) -> bytes:
    """A summary value with the settings, as the plugin for hyperparameters reads them."""
    entries = b"".join(
        _bytes(1, _bytes(1, name.encode()) + _bytes(2, _value(value))) for name, value in run.settings.items()
    )
    session = entries + _bytes(4, run.name.encode()) + _key(5, FIXED64) + DOUBLE.pack(run.started_s)
    plugin = _bytes(1, HPARAMS_PLUGIN) + _bytes(2, _bytes(3, session))
    return _bytes(1, HPARAMS_TAG) + _bytes(9, _bytes(1, plugin))


def _value(value: float | str) -> bytes:
    if isinstance(value, str):
        return _bytes(3, value.encode())
    return _key(2, FIXED64) + DOUBLE.pack(value)


def _bytes(number: int, payload: bytes) -> bytes:
    return _key(number, BYTES) + _varint(len(payload)) + payload


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
