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
_OPENS = np.isin(np.arange(256), [*b"(["])
_DAY = np.isin(np.arange(256), [*b"JFMASONDTW"])  # months and days of the week begin so


def cut(chunk: Chunk) -> Chunk:
    """The chunk with its heads apart; the same chunk where no line has one."""
    starts = lines.starts(chunk.data) if chunk.starts is None else chunk.starts
    rows = _candidates(chunk.data, starts)
    if not rows:
        return chunk
    rests, match = chunk.data.split(b"\n"), _HEAD.match
    heads = [b""] * len(starts)
    for row in rows:
        line = rests[row]
        if found := match(line):
            heads[row], rests[row] = line[: found.end()], line[found.end() :]
    return replace(chunk, data=b"\n".join(rests), starts=None, heads=tuple(heads)) if any(heads) else chunk


def _candidates(data: bytes, starts: npt.NDArray[np.int64]) -> list[int]:
    """The lines whose first bytes are those of a head."""
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
    rows = np.concatenate([rows[~_OPENS[first[rows]]], opened[ranked]])
    ends = [row for row in range(len(inner), len(starts)) if _HEAD.match(data, int(starts[row]))]
    return [*rows.tolist(), *ends]
