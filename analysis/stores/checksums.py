"""CRC-32C of many pieces of a buffer at once, in numpy, and the mask that TensorFlow puts over it.

A CRC is linear: each byte adds a value that depends on the byte and on its distance from the end, and zeros in
front add nothing. So pieces of any length become rows of one matrix, which is summed column by column.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

POLYNOMIAL = 0x82F63B78
WIDTH = 64  # bytes of a block; longer pieces are several blocks
AT_ONCE = 1 << 16  # blocks in memory at one time
MASK_DELTA = 0xA282EAD8

Checksums = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


def masked(checksums: Checksums) -> Checksums:
    """Masks checksums as TensorFlow's record files do."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return np.asarray(rotated + np.uint32(MASK_DELTA), dtype=np.uint32)


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C of one piece."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    return int(of_pieces(buffer, np.zeros(1, np.int64), np.array([len(data)], np.int64))[0])


def of_pieces(buffer: Bytes, starts: Offsets, lengths: Offsets) -> Checksums:
    """Returns the CRC-32C of each `buffer[start : start + length]`."""
    if not len(starts):
        return np.zeros(0, np.uint32)
    sums = np.zeros(len(starts), np.uint32)
    blocks = np.maximum(-(-lengths // WIDTH), 1)
    for count in range(int(blocks.max()), 0, -1):  # the first block of the longest pieces comes first
        rows = np.flatnonzero(blocks >= count) if count > 1 else slice(None)
        ends = (starts + lengths)[rows] - (count - 1) * WIDTH
        lacking = np.maximum(WIDTH - (ends - starts[rows]), 0)
        sums[rows] = _apply(_zero_steps(WIDTH.bit_length() - 1), sums[rows]) ^ _block_sums(
            buffer, ends, lacking
        )
    return sums ^ _of_zeros(lengths)


def _block_sums(buffer: Bytes, ends: Offsets, lacking: Offsets) -> Checksums:
    """Sums the WIDTH bytes before each end; the first `lacking` of them count as zero."""
    sums = np.empty(len(ends), np.uint32)
    if len(buffer) < WIDTH:
        short = WIDTH - len(buffer)
        buffer, ends = np.concatenate([np.zeros(short, np.uint8), buffer]), ends + short
    windows = np.lib.stride_tricks.sliding_window_view(buffer, WIDTH)
    for first in range(0, len(ends), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        before = ends[part] - WIDTH
        block = windows[np.maximum(before, 0)]
        for row in np.flatnonzero(before < 0):
            size = int(ends[part][row])
            block[row] = 0
            block[row, WIDTH - size :] = buffer[:size]
        columns = np.ascontiguousarray(block.T)
        least, most = int(lacking[part].min()), int(lacking[part].max())
        for column in range(least, most):
            columns[column, lacking[part] > column] = 0
        sums[part] = _sum_columns(columns[least:])
    return sums


def _sum_columns(columns: npt.NDArray[np.uint8]) -> Checksums:
    tables, width = _tables(), len(columns)
    sums = np.zeros(columns.shape[1], np.uint32)
    for at, column in enumerate(columns):
        sums ^= tables[width - 1 - at].take(column)
    return sums


@cache
def _tables() -> npt.NDArray[np.uint32]:
    """What each byte adds, for each distance from the end."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> np.uint32(1)) ^ np.where(first & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    tables = [first]
    for _ in range(WIDTH - 1):
        tables.append(_followed_by_zero(tables[-1], first))
    return np.array(tables)


def _followed_by_zero(sums: Checksums, first: Checksums) -> Checksums:
    return np.asarray(first[sums & np.uint32(0xFF)] ^ (sums >> np.uint32(8)), dtype=np.uint32)


def _of_zeros(lengths: Offsets) -> Checksums:
    """Returns the CRC-32C of zeros of each length."""
    unique, places = np.unique(lengths, return_inverse=True)
    return np.array([_zeros(int(length)) for length in unique], np.uint32)[places.reshape(lengths.shape)]


@cache
def _zeros(length: int) -> int:
    """Goes on from 2**32 - 1 for `length` zero bytes, by squares of the step."""
    state, power = np.array([0xFFFFFFFF], np.uint32), 0
    while length >> power:
        if length >> power & 1:
            state = _apply(_zero_steps(power), state)
        power += 1
    return int(~state[0])


@cache
def _zero_steps(power: int) -> npt.NDArray[np.uint32]:
    """The four tables that move a sum by 2**power zero bytes."""
    if power == 0:
        first = _tables()[0]
        basis = [np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)]
        return np.array([_followed_by_zero(sums, first) for sums in basis])
    half = _zero_steps(power - 1)
    return np.array([_apply(half, table) for table in half])


def _apply(tables: npt.NDArray[np.uint32], sums: Checksums) -> Checksums:
    moved = np.zeros(len(sums), np.uint32)
    for place in range(4):
        moved ^= tables[place][(sums >> np.uint32(8 * place)) & np.uint32(0xFF)]
    return moved
