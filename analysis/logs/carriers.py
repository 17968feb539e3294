"""Lines -> where their texts begin, behind what the program that carried them put before each: docker, Ray.

The texts then read as the training printed them, also where that depends on indentation or on the start of the
line. Nothing is copied: `prefixes` reads time and rank from what stands before a text. Only what no record begins
with is cut here; `0: ` and `node-1: ` may be a record's own, see `line_prefixes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import lines
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.numpy_engine.numbers import BLANK, blank_in_place
from gputel.analysis.logs.patterns import lazy_regex

Ints = npt.NDArray[np.int64]

_HEAD = lazy_regex(
    rb"(?:"
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"  # docker, kubectl --timestamps
    rb"(?: std(?:out|err) [FP])?[ \t](?:[\w.-]+ [\w./-]+\[\d+\]: )?"  # Kubernetes' files, journald
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+\[\d+\]: "  # journald
    rb"|\[pod/[^\]\s]+\] ?"  # kubectl --prefix
    rb"|\((?:[^()\n]{1,60}[ ,])?pid=\d+[^()\n]{0,80}\) ?"  # Ray, SkyPilot
    rb"|(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    rb"\[\d+,[^\]\s<>]{1,60}\]<std(?:out|err)>: ?"  # mpirun
    rb"|\[(?:default|rank(?:: ?)?)\d+\]:? ?"  # torchrun
    rb")+"
)
_BYTES = 20  # at the start of a line, that say whether it may begin so
_WORDS = tuple(int.from_bytes(word, "little") for word in (b"[def", b"[ran", b"[pod"))
_KINDS = 8  # of heads, that are measured together
_AT_END = np.isin(np.arange(256), [*b" :\t"])
_OPENS = np.isin(np.arange(256), [*b"(["])
_DIGITS = np.isin(np.arange(256), [*b"0123456789"])
_DAY = np.isin(np.arange(256), [*b"JFMASONDTW"])  # months and days of the week begin so
_MAY_BEGIN = _OPENS | _DIGITS | _DAY


def cut(chunk: Chunk) -> Chunk:
    """The chunk with the texts of its lines behind their heads; the same chunk where no line has one."""
    starts = lines.starts(chunk.data) if chunk.starts is None else chunk.starts
    sizes = _sizes(chunk.data, starts)
    return replace(chunk, starts=starts, begins=starts + sizes) if sizes.any() else chunk


def _windows(data: bytes, size: int) -> npt.NDArray[Any]:
    """So many bytes from each place on, copied as one: a tenth of the time of one by one."""
    windows: npt.NDArray[Any] = np.ndarray((max(len(data) - size + 1, 0),), f"V{size}", data, 0, (1,))
    return windows


def _sizes(data: bytes, starts: Ints) -> Ints:
    """The length of each line's head; heads that differ only in digits are measured together.

    Most lines begin as the first one does, so these are measured first.
    """
    sizes = np.zeros(len(starts), dtype=np.int64)
    left = np.arange(len(starts))
    if len(starts) and (size := _size(data, int(starts[0]))):
        alike = _alike(data, starts, size)
        sizes[alike] = size
        left = np.flatnonzero(~alike)
    left = left[_candidates(data, starts[left])]
    for _ in range(_KINDS):
        if len(left) and (size := _size(data, int(starts[left[0]]))):
            alike = _alike(data, starts[left], size)
            sizes[left[alike]] = size
            left = left[~alike]
        else:
            left = left[1:]
    headed = np.flatnonzero(sizes)
    again = headed[_candidates(data, starts[headed] + sizes[headed])]
    for row in [*left.tolist(), *again.tolist()]:
        sizes[row] = _size(data, int(starts[row]))
    return sizes


def _size(data: bytes, begin: int) -> int:
    found = _HEAD.match(data, begin)
    return found.end() - begin if found else 0


def _alike(data: bytes, begins: Ints, size: int) -> npt.NDArray[np.bool_]:
    """Which lines begin like the first, but for their digits, and have no blank or colon more."""
    room = size // 8 * 8 + 8  # the byte behind the head has room as well
    inner = begins[: np.searchsorted(begins, len(data) - room)]
    heads = _windows(data, room)[inner].view(np.uint8).reshape(-1, room)
    alike = np.zeros(len(begins), dtype=np.bool_)
    alike[: len(inner)] = data[begins[0] + size - 1] == ord(" ") or ~_AT_END[heads[:, size]]
    heads[:, size:] = 0
    blank_in_place(heads, np.full((1, room), BLANK, dtype=np.uint8))
    for column in heads.view(np.uint64).T:
        alike[: len(inner)] &= column == column[:1]
    return alike


def _may_open(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Whether each four bytes are the first of a head in brackets or of one that begins with a day or month."""
    first = words & 0xFF
    may: npt.NDArray[np.bool_] = (
        (first == ord("(")) | (words >> 16 & 0xFF == ord(",")) | (words >> 24 == ord(","))
    )
    for word in _WORDS:
        may |= words == word
    may &= _OPENS[first]
    may |= _DAY[first] & (words >> 24 == ord(" "))
    return may


def _candidates(data: bytes, starts: Ints) -> Ints:
    """The lines whose first bytes are those of a head, in order, as `starts` are."""
    inner = int(np.searchsorted(starts, len(data) - _BYTES))  # the last lines are looked at as they are
    words = _windows(data, 4)[starts[:inner]].view("<u4")
    kinds = words[:1] if (words == words[:1]).all() else words
    rows = np.flatnonzero(_MAY_BEGIN[kinds & 0xFF])
    may, is_dated = _may_open(kinds[rows]), _DIGITS[kinds[rows] & 0xFF]
    if len(rows) and len(kinds) < inner:  # all lines have the same first bytes
        rows, may, is_dated = np.arange(inner), may.repeat(inner), is_dated.repeat(inner)
    text, dated = np.frombuffer(data, np.uint8), np.flatnonzero(is_dated)
    begins = starts[rows[dated]]
    may[dated] = (text[begins + 4] == ord("-")) & (text[begins + 10] == ord("T"))
    return np.concatenate([rows[may], np.arange(inner, len(starts))])
