"""TensorBoard event files: bytes -> points, each record checked by its checksums, many records at once.

A record is a length, the masked CRC-32C of it, the payload, the masked CRC-32C of that. All of a record of scalars
but its time, its step and its values is the same for one tag, so it is read field by field once, and compared after
that. A wrong length costs one record: reading goes on at the next eight bytes whose checksum fits.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import InitVar, dataclass, field

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores import checksums
from gputel.analysis.stores.event_record import EventRecord, read_record
from gputel.analysis.stores.protobuf import WireError

LENGTH, MARK = struct.Struct("<Q"), b"brain.Event:"
HEADER, FRAME = 12, 16  # bytes before a payload, and around it
FIRST_SEARCH, SEARCH = 256, 64 << 10  # bytes that are searched for a record at once
FIRST_GUESS = 1 << 14  # records whose lengths are followed before their checksums are looked at
AFTER_DAMAGE = 64  # and as many after a wrong length
FORMAT = "tensorboard"
MOST_KINDS = 8
"""Layouts of records of one length that are read together; records of other layouts are read one by one."""
LONGEST_FAST = 512  # bytes of a payload that are compared with others

Whole = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.uint8]


def is_event_file(head: bytes) -> bool:
    """Whether bytes begin an event file: a length, its checksum, and an event that names its version."""
    if len(head) < HEADER:
        return False
    size = LENGTH.unpack_from(head)[0]
    return _header_fits(head, 0) and (
        MARK in head[: FRAME + min(size, 256)] or head[HEADER : HEADER + 1] == b"\t"
    )


def _header_fits(data: bytes, at: int) -> bool:
    expected = checksums.masked(np.array([checksums.crc32c(data[at : at + 8])], np.uint32))[0]
    return bool(int.from_bytes(data[at + 8 : at + HEADER], "little") == int(expected))


@dataclass(frozen=True)
class EventBlock:
    """Scalars in the order of the file; `record` counts the records of the file from 0."""

    tag: Whole
    step: Whole
    time: Whole
    value: Numbers
    record: Whole


@dataclass
class EventDecoder:
    """Takes the bytes of one event file in any pieces; the blocks of all of them are the scalars of the file.

    `in_the_middle`: the bytes begin within a record; the first whole one is searched for.
    """

    tags: list[str] = field(default_factory=list)
    config: dict[str, float | str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)  # record and step of each start of a session
    records: int = 0
    first_time: float = 0.0
    in_the_middle: InitVar[bool] = False

    def __post_init__(self, in_the_middle: bool) -> None:
        self._numbers: dict[str, int] = {}
        self._pieces: list[bytes] = []
        self._waiting = 0  # bytes of the pieces
        self._needed = 0  # bytes that must wait before anything new can be read
        self._searching = in_the_middle

    @property
    def is_torn(self) -> bool:
        """Whether bytes wait for the rest of their record."""
        return self._waiting > 0

    def feed(self, data: bytes) -> EventBlock:
        """Reads every record that is whole by now."""
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting < max(self._needed, 1):
            return _block([], self.records)
        buffer = b"".join(self._pieces) if len(self._pieces) > 1 else data
        parts: list[_Scalars] = []
        at = 0
        guess = FIRST_GUESS
        while True:
            if self._searching:
                at, found = _next_header(buffer, at)
                self._searching = not found
                if not found:
                    break
            starts, lengths, end = _chain(buffer, at, guess)
            fitting = _fitting(buffer, starts)
            wrong = fitting < len(starts)
            if fitting:
                self._take(buffer, starts[:fitting], lengths[:fitting], parts)
            at = int(starts[fitting]) if wrong else end
            is_full = not wrong and len(starts) == guess
            guess = AFTER_DAMAGE if wrong else min(4 * guess, FIRST_GUESS)
            if is_full:
                continue
            if not wrong and (len(buffer) - at < HEADER or _header_fits(buffer, at)):
                break
            self.rejects.append(Reject(self.records + 1, FORMAT, "the length of a record is damaged"))
            self.records += 1
            self._searching, at = True, at + 1
        self._keep(buffer, at)
        return _block(parts, self.records)

    def _keep(self, buffer: bytes, at: int) -> None:
        rest = buffer[at:]
        self._pieces, self._waiting = ([rest] if rest else []), len(rest)
        whole = not self._searching and len(rest) >= HEADER
        self._needed = FRAME + LENGTH.unpack_from(rest)[0] if whole else HEADER

    def _take(self, buffer: bytes, starts: Whole, lengths: Whole, parts: list[_Scalars]) -> None:
        """Takes records whose lengths are right."""
        whole = np.frombuffer(buffer, np.uint8)
        sums = checksums.masked(checksums.of_pieces(whole, starts + HEADER, lengths))
        right = _stored_sums(whole, starts + HEADER + lengths) == sums
        first = self.records
        for place in np.flatnonzero(~right).tolist():
            reason = "the checksum of a record does not fit"
            self.rejects.append(Reject(first + place + 1, FORMAT, reason))
        slow = self._take_alike(whole, starts, lengths, right, parts)
        for place in slow.tolist():
            start = int(starts[place]) + HEADER
            self._take_one(buffer[start : start + int(lengths[place])], first + place, parts)
        self.records += len(starts)

    def _take_alike(
        self,
        whole: Matrix,
        starts: Whole,
        lengths: Whole,
        right: npt.NDArray[np.bool_],
        parts: list[_Scalars],
    ) -> Whole:
        """Takes records of equal lengths together; returns those that must be read one by one."""
        is_left = right.copy()
        for length in np.unique(lengths[right & (lengths <= LONGEST_FAST)]).tolist():
            rows = np.flatnonzero(right & (lengths == length))
            if length < 20 or len(rows) < 4:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(whole, length)
            matrix = windows[starts[rows] + HEADER]
            for size, chosen in _by_size_of_step(matrix):
                alike = _Alike(matrix[chosen], size, self.records + rows[chosen])
                taken = alike.take(self._number, parts)
                is_left[rows[chosen[taken]]] = False
        return np.flatnonzero(is_left)

    def _take_one(self, payload: bytes, record: int, parts: list[_Scalars]) -> None:
        try:
            event = read_record(payload)
        except (WireError, struct.error) as error:
            self.rejects.append(Reject(record + 1, FORMAT, f"a record is not an event: {error}"))
            return
        if not self.first_time:
            self.first_time = event.wall_time
        if event.is_session_start:
            self.starts.append((record, event.step))
        self.config |= event.hparams
        self.texts |= event.texts
        self.skipped.update(event.skipped)
        if event.scalars:
            parts.append(_scalars_of(event, record, self._number))

    def _number(self, tag: str) -> int:
        if tag not in self._numbers:
            self._numbers[tag] = len(self.tags)
            self.tags.append(tag)
        return self._numbers[tag]


@dataclass(frozen=True)
class _Scalars:
    """Scalars of several records; all arrays have one value for each."""

    tag: Whole
    step: Whole
    time: Numbers
    value: Numbers
    record: Whole


class _Alike:
    """Records of one length whose steps take as many bytes."""

    def __init__(self, matrix: Matrix, size: int, records: Whole) -> None:
        self._matrix, self._records = matrix, records
        self._varying = np.zeros(matrix.shape[1], np.bool_)
        self._varying[1:9] = True
        step_at = 10 if size else 9
        self._varying[step_at : step_at + size] = True
        self._time = np.ascontiguousarray(matrix[:, 1:9]).view("<f8")[:, 0]
        self._step = np.zeros(len(matrix), np.int64)
        for place in range(size):
            low = (matrix[:, step_at + place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            self._step |= low.astype(np.int64)

    def take(self, number: object, parts: list[_Scalars]) -> Whole:
        """Takes the records whose constant bytes equal those of a record that was read; returns their rows."""
        left = np.arange(len(self._matrix))
        taken: list[Whole] = []
        for _ in range(MOST_KINDS):
            if not len(left):
                break
            event = _read_or_none(self._matrix[left[0]].tobytes())
            if event is None:
                left = left[1:]
                continue
            regions = _regions(event)
            left, more = self._take_kind(left, regions, number, parts)
            taken += more
            if not more:
                left = left[1:]
        return np.concatenate(taken) if taken else np.zeros(0, np.int64)

    def _take_kind(
        self, left: Whole, regions: tuple[tuple[int, int, str], ...], number: object, parts: list[_Scalars]
    ) -> tuple[Whole, list[Whole]]:
        """Takes all records with their values at the same places; returns those left, and those taken."""
        constant = ~self._varying
        for start, size, _ in regions:
            constant[start : start + size] = False
        keys = self._matrix[left][:, constant]
        multipliers = np.random.default_rng(len(constant)).integers(
            1, 2**63, keys.shape[1], np.uint64
        ) | np.uint64(1)
        _, first, group = np.unique(
            keys.astype(np.uint64) @ multipliers, return_index=True, return_inverse=True
        )
        group = group.reshape(-1)
        same = (keys == keys[first[group]]).all(axis=1)
        taken: list[Whole] = []
        for at, row in enumerate(first.tolist()):
            event = _read_or_none(self._matrix[left[row]].tobytes())
            if event is None or not regions or _regions(event) != regions:
                same[group == at] = False
                continue
            rows = left[(group == at) & same]
            taken.append(rows)
            for scalar in event.scalars:
                parts.append(self._scalars(rows, scalar.region, number(scalar.tag)))  # type: ignore[operator]
        return left[~same], taken

    def _scalars(self, rows: Whole, region: tuple[int, int, str] | None, tag: int) -> _Scalars:
        start, size, kind = region or (0, 0, "")
        values = (
            np.ascontiguousarray(self._matrix[rows, start : start + size]).view(kind)[:, 0].astype(np.float64)
        )
        return _Scalars(
            np.full(len(rows), tag, np.int64), self._step[rows], self._time[rows], values, self._records[rows]
        )


def _read_or_none(payload: bytes) -> EventRecord | None:
    try:
        return read_record(payload)
    except (WireError, struct.error):
        return None


def _regions(event: EventRecord) -> tuple[tuple[int, int, str], ...]:
    """Where the values of a record lie; nothing if it holds more than its scalars."""
    if not event.is_plain or any(scalar.region is None for scalar in event.scalars):
        return ()
    return tuple(scalar.region for scalar in event.scalars if scalar.region)


def _by_size_of_step(matrix: Matrix) -> list[tuple[int, Whole]]:
    """Groups rows by the bytes of their step: 0 where there is none."""
    groups = []
    begins = matrix[:, 0] == 0x09
    without = np.flatnonzero(begins & (matrix[:, 9] == 0x2A))
    if len(without):
        groups.append((0, without))
    rows = np.flatnonzero(begins & (matrix[:, 9] == 0x10))
    for size in range(1, 11):
        if 10 + size > matrix.shape[1] or not len(rows):
            break
        ends = matrix[rows, 9 + size] < 0x80
        if ends.any():
            groups.append((size, rows[ends]))
        rows = rows[~ends]
    return groups


def _scalars_of(event: EventRecord, record: int, number: object) -> _Scalars:
    count = len(event.scalars)
    return _Scalars(
        np.array([number(scalar.tag) for scalar in event.scalars], np.int64),  # type: ignore[operator]
        np.full(count, event.step, np.int64),
        np.full(count, event.wall_time, np.float64),
        np.array([scalar.value for scalar in event.scalars], np.float64),
        np.full(count, record, np.int64),
    )


def _block(parts: list[_Scalars], _records: int) -> EventBlock:
    if not parts:
        whole = np.zeros(0, np.int64)
        return EventBlock(whole, whole, whole, np.zeros(0, np.float64), whole)
    record = np.concatenate([part.record for part in parts])
    order = np.argsort(record, kind="stable")
    seconds = np.concatenate([part.time for part in parts])[order]
    known = np.isfinite(seconds) & (seconds > 0) & (seconds < 9e9)
    moments = np.where(known, seconds, 0.0)
    whole_s = np.floor(moments)
    time = whole_s.astype(np.int64) * 10**9 + np.round((moments - whole_s) * 1e9).astype(np.int64)
    return EventBlock(
        np.concatenate([part.tag for part in parts])[order],
        np.concatenate([part.step for part in parts])[order],
        time,
        np.concatenate([part.value for part in parts])[order],
        record[order],
    )


def _chain(buffer: bytes, at: int, most: int) -> tuple[Whole, Whole, int]:
    """Follows up to `most` lengths; returns the starts and lengths of whole records, and where the next begins."""
    starts: list[int] = []
    lengths: list[int] = []
    unpack, end = LENGTH.unpack_from, len(buffer) - FRAME
    while at <= end and len(starts) < most:
        length = unpack(buffer, at)[0]
        if length > end - at:
            break
        starts.append(at)
        lengths.append(length)
        at += FRAME + length
    return np.array(starts, np.int64), np.array(lengths, np.int64), at


def _fitting(buffer: bytes, starts: Whole) -> int:
    """How many lengths have right checksums before the first that has not."""
    whole = np.frombuffer(buffer, np.uint8)
    sums = checksums.masked(checksums.of_pieces(whole, starts, np.full(len(starts), 8, np.int64)))
    wrong = np.flatnonzero(_stored_sums(whole, starts + 8) != sums)
    return int(wrong[0]) if len(wrong) else len(starts)


def _stored_sums(whole: Matrix, places: Whole) -> npt.NDArray[np.uint32]:
    if not len(places):
        return np.zeros(0, np.uint32)
    rows = np.lib.stride_tricks.sliding_window_view(whole, 4)[places]
    return np.ascontiguousarray(rows).view("<u4")[:, 0]


def _next_header(buffer: bytes, at: int) -> tuple[int, bool]:
    """Returns the first place from `at` on where a length has its checksum; else where to look again, and False."""
    whole = np.frombuffer(buffer, np.uint8)
    last, size = len(buffer) - HEADER, FIRST_SEARCH
    while at <= last:
        places = np.arange(at, min(at + size, last + 1))
        size = min(4 * size, SEARCH)
        sums = checksums.masked(checksums.of_pieces(whole, places, np.full(len(places), 8, np.int64)))
        hits = np.flatnonzero(_stored_sums(whole, places + 8) == sums)
        if len(hits):
            return int(places[hits[0]]), True
        at = int(places[-1]) + 1
    return at, False
