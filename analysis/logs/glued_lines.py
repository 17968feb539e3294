"""What was printed right behind a bar -> a line of its own: `9.8it/s]Epoch 3 loss 2.5`.

A bar ends without a line feed, so the next print of the training goes on behind it. Where that says no place, the
count of a bar that goes on is the place of the text behind it.
"""

from __future__ import annotations

import numpy as np

from gputel.analysis.logs import lines
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.patterns import lazy_regex

_BEHIND = lazy_regex(
    rb"\d/\d+ \[[\d:]{1,11}<[\d:?]{1,11}(?:,[^\]\n]*)?\]"  # `50/100 [00:10<00:05, 9.8it/s]`
    rb"(?=\[?\d{2,4}[-/:]\d\d|[^\s\])},.:;|\d][^\d\n|%]{0,40}(?<![A-Za-z])(?i:epoch|step|iter|iteration)\b"
    rb"|(?i:epoch|step|iter|iteration)\b)"
)


def parted(chunk: Chunk) -> Chunk:
    """The chunk with each such text below its bar; `number` still gives lines of the file."""
    if b"<" not in chunk.data:
        return chunk
    ends = [bar.end() for bar in _BEHIND.finditer(chunk.data)]
    if not ends:
        return chunk
    begun = lines.starts(chunk.data) if chunk.starts is None else chunk.starts
    rows = np.searchsorted(begun, ends, side="right") - 1
    copies = 1 + np.bincount(rows, minlength=len(begun))
    pieces = [chunk.data[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True)]
    return Chunk(b"\n".join(pieces), chunk.first, chunk.number(np.repeat(np.arange(len(begun)), copies)))
