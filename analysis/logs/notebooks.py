"""The JSON of a notebook (`.ipynb`) -> what its cells printed, each line with its number in the file.

A notebook keeps each printed line as a string in a list. Code, pictures and other JSON become empty lines. A
notebook without line breaks stays as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np

from gputel.analysis.logs.lines import ESCAPES, Chunk

_BEGINS = re.compile(rb'\s*\{\s*\n\s*"(?:cells|nbformat|metadata)"\s*:')
_OPENS = re.compile(rb'\s*"(?:text|traceback|text/plain)"\s*:\s*\[\s*$')
_STRING = re.compile(rb'\s*(?:"(?:text|text/plain)"\s*:\s*)?(?P<text>"(?:[^"\\]|\\.)*")\s*,?\s*$')
_NAMED = re.compile(rb'\s*"(?:text|text/plain)"\s*:\s*"')
_ENDS = re.compile(rb"[\r\n]+")


class NotebookText:
    """Reads the chunks of one log, in the order of the file."""

    def __init__(self) -> None:
        self._is_notebook: bool | None = None
        self._printed = False  # inside a list of printed lines

    def read(self, chunk: Chunk) -> Chunk:
        """Returns the chunk as it was printed; the same chunk if the log is no notebook."""
        if self._is_notebook is None:
            self._is_notebook = chunk.first == 1 and _is_notebook(chunk.data)
        if not self._is_notebook:
            return chunk
        texts, numbers = [], []
        lines = chunk.data.removesuffix(b"\n").split(b"\n")
        for number, line in zip(chunk.number(np.arange(len(lines))).tolist(), lines, strict=True):
            parts = _ENDS.split(self._text(line).strip(b"\r\n"))
            texts += parts
            numbers += [number] * len(parts)
        data = b"\n".join(texts) + b"\n" * chunk.data.endswith(b"\n")
        return replace(chunk, data=data, numbers=np.array(numbers, dtype=np.int64), starts=None)

    def _text(self, line: bytes) -> bytes:
        """What a line of the file printed; nothing if it is other JSON."""
        if _OPENS.match(line):
            self._printed = True
            return b""
        string = _STRING.match(line) if self._printed or _NAMED.match(line) else None
        self._printed = self._printed and string is not None
        try:
            text = json.loads(string["text"]) if string else ""
        except ValueError:
            return b""
        return ESCAPES.sub(b"", text.encode(errors="replace"))


def _is_notebook(data: bytes) -> bool:
    return _BEGINS.match(data) is not None and (b'"cell_type"' in data or b'"nbformat"' in data)
