"""The rows of a tier whose readers are buffered: taken at each tick as bytes, decoded a second at a time.

A row is when each GPU was read, then a copy of each reader's memory. A GPU without a reader has no bytes, and was
read at no time: all its values are null.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.telemetry.machine import Bits, BufferedReader, Integers, RawRows
from gputel.telemetry.store.second import Decode

TIME = 8


class RawTier:
    """Takes and decodes rows of the same readers; `columns` is how many values each GPU has."""

    def __init__(self, readers: Sequence[BufferedReader | None], columns: Sequence[int]) -> None:
        self.times = array("q", [0] * len(readers))
        """When each GPU was read; the loop writes it."""
        self._readers, self._columns = readers, columns
        self._buffers: list[Any] = [self.times, *[reader.memory for reader in readers if reader is not None]]
        self._offsets, self._size = _offsets(readers)
        self._groups = _alike(readers)
        self._places = [(number, place) for number, count in enumerate(columns) for place in range(count)]
        self.decode: Decode = self._decode

    def take(self) -> bytes:
        """The row of this tick."""
        return b"".join(self._buffers)

    def value(self, row: bytes, column: int) -> int | None:
        """One value of a row; for a rate its counter."""
        number, place = self._places[column]
        reader = self._readers[number]
        return None if reader is None else reader.value(row, self._offsets[number], place)

    def _decode(self, rows: Sequence[bytes]) -> tuple[Integers, Bits | None]:
        """The values of rows, and which of them were measured; all, if None. Each row is decoded once, in order."""
        data, ticks = b"".join(rows), len(rows)
        values = np.zeros((ticks, sum(self._columns)), np.int64)
        valid = np.zeros(values.shape, np.bool_)
        for first, gpus in self._groups:
            reader, columns = self._readers[first], self._columns[first]
            if reader is None:
                continue
            raw = RawRows(data, self._offsets[first], ticks, self._size, gpus, len(reader.memory))
            start = sum(self._columns[:first])
            answers = _cube(values, start, gpus, columns)
            there = _cube(valid, start, gpus, columns)
            reader.decode(raw, answers, there)
            self._follow(data, first, answers, there)
        return values, None if valid.all() else valid

    def _follow(self, data: bytes, first: int, values: Integers, valid: Bits) -> None:
        ticks, gpus, _ = values.shape
        for gpu in range(gpus):
            reader = self._readers[first + gpu]
            if reader is not None:
                times = np.ndarray((ticks,), "<i8", data, (first + gpu) * TIME, (self._size,)).tolist()
                reader.follow(times, values[:, gpu], valid[:, gpu])
                if not valid[-1, gpu].any():
                    reader.failed = True  # the loop checks whether it is lost


def _offsets(readers: Sequence[BufferedReader | None]) -> tuple[list[int], int]:
    """Where each reader's bytes begin in a row, and how long a row is."""
    offsets, end = [], len(readers) * TIME
    for reader in readers:
        offsets.append(end)
        end += 0 if reader is None else len(reader.memory)
    return offsets, end


def _alike(readers: Sequence[BufferedReader | None]) -> list[tuple[int, int]]:
    """The first and the number of neighbors that can be decoded together."""
    groups: list[tuple[int, int]] = []
    for number, reader in enumerate(readers):
        first = readers[groups[-1][0]] if groups else None
        if reader is not None and first is not None and first.layout == reader.layout:
            groups[-1] = groups[-1][0], groups[-1][1] + 1
        else:
            groups.append((number, 1))
    return groups


def _cube(table: npt.NDArray[Any], start: int, gpus: int, columns: int) -> npt.NDArray[Any]:
    """A view of some GPUs' columns as (tick, GPU, reading)."""
    size, row = table.itemsize, table.strides[0]
    shape, strides = (len(table), gpus, columns), (row, columns * size, size)
    cube: npt.NDArray[Any] = np.ndarray(shape, table.dtype, table.data, start * size, strides)
    return cube
