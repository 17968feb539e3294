"""Lines -> the same lines without what the program that carried them put before each: docker, kubectl, Ray, mpirun.

The lines then read as the training printed them, also where that depends on indentation or on the start of the
line. What was cut stays beside each line: `prefixes` reads time and rank from it. Only what no record begins with
is cut here; `0: ` and `node-1: ` may be a record's own, see `line_prefixes`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import lines
from gputel.analysis.logs.lines import Chunk
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
_AT_END = np.frombuffer(b" :\t", np.uint8)
_OPENS = np.isin(np.arange(256), [*b"(["])
_DAY = np.isin(np.arange(256), [*b"JFMASONDTW"])  # months and days of the week begin so


def cut(chunk: Chunk) -> Chunk:
    """The chunk with its heads apart; the same chunk where no line has one."""
    starts = lines.starts(chunk.data) if chunk.starts is None else chunk.starts
    rows = _candidates(chunk.data, starts)
    sizes = np.zeros(len(starts), dtype=np.int64)
    sizes[rows] = _sizes(chunk.data, starts[rows])
    if not sizes.any():
        return chunk
    text, kept = np.frombuffer(chunk.data, np.uint8), np.ones(len(chunk.data), dtype=np.bool_)
    heads = np.zeros(len(starts), dtype=f"S{sizes.max()}")
    for size in np.unique(sizes[sizes > 0]).tolist():
        some = np.flatnonzero(sizes == size)
        letters = starts[some, np.newaxis] + np.arange(size)
        heads[some] = text[letters].view(f"S{size}").ravel()
        kept[letters] = False
    starts = starts - np.cumsum(sizes) + sizes
    return replace(chunk, data=text[kept].tobytes(), starts=starts, heads=heads)


def _sizes(data: bytes, begins: Ints) -> Ints:
    """The length of each line's head; heads that differ only in digits are measured together."""
    sizes, left = np.zeros(len(begins), dtype=np.int64), np.arange(len(begins))
    for _ in range(_KINDS):
        if len(left) and (size := _size(data, int(begins[left[0]]))):
            alike = _alike(data, begins[left], size)
            sizes[left[alike]] = size
            left = left[~alike]
        else:
            left = left[1:]
    headed = np.flatnonzero(sizes)
    again = headed[_candidates(data, begins[headed] + sizes[headed])]
    for row in [*left.tolist(), *again.tolist()]:
        sizes[row] = _size(data, int(begins[row]))
    return sizes


def _size(data: bytes, begin: int) -> int:
    found = _HEAD.match(data, begin)
    return found.end() - begin if found else 0


def _alike(data: bytes, begins: Ints, size: int) -> npt.NDArray[np.bool_]:
    """Which lines begin like the first, but for their digits, and have no blank or colon more."""
    text = np.frombuffer(data + bytes(size), np.uint8)
    letters = text[begins[:, np.newaxis] + np.arange(size)]
    digits = (letters - ord("0")) < 10  # unsigned
    same = (letters == letters[0]) | (digits & digits[0])
    ends = letters[0, -1] == ord(" ") or ~np.isin(text[begins + size], _AT_END)
    return np.asarray(same.all(axis=1) & ends)


def _candidates(data: bytes, starts: Ints) -> Ints:
    """The lines whose first bytes are those of a head, in order, as `starts` are."""
    inner = starts[: np.searchsorted(starts, len(data) - _BYTES)]  # the last lines are looked at as they are
    text = np.frombuffer(data, np.uint8)
    first = text[inner]
    dated = (text[inner + 4] == ord("-")) & (text[inner + 10] == ord("T"))
    named = (text[inner + 3] == ord(" ")) & _DAY[first]
    rows = np.flatnonzero(_OPENS[first] | dated | named)
    opened = rows[_OPENS[first[rows]]]
    words = np.ndarray((max(len(data) - 3, 0),), "<u4", data, 0, (1,))[inner[opened]]
    ranked = (words & 0xFF == ord("(")) | np.isin(words, _WORDS) | (words >> 16 & 0xFF == ord(","))
    ranked |= words >> 24 == ord(",")
    ends = np.arange(len(inner), len(starts))
    return np.sort(np.concatenate([rows[~_OPENS[first[rows]]], opened[ranked], ends]))
