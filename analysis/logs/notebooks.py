"""The JSON of a notebook (`.ipynb`) -> what its cells printed, each line with its number in the file.

A notebook keeps each printed line as a string in a list. A table of HTML in which a trainer shows its progress
becomes rows with tabs between the cells; one of pandas is printed as plain text, too. If a cell shows a table once
more, with further rows or without, only these are new. Code, pictures and other JSON become empty lines. Of a
notebook without line breaks all lines have the number 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gputel.analysis.logs.lines import ESCAPES, LIMIT, Chunk
from gputel.analysis.logs.patterns import lazy_regex

_BEGINS = lazy_regex(rb'\s*\{\s*"(?:cells|nbformat|metadata)"\s*:')
_OPENS = lazy_regex(rb'\s*"(?:text|traceback|text/plain)"\s*:\s*\[\s*$')
_STRING = lazy_regex(rb'\s*(?:"(?:text|text/plain)"\s*:\s*)?(?P<text>"(?:[^"\\]|\\.)*")\s*,?\s*$')
_NAMED = lazy_regex(rb'\s*"(?:text|text/plain)"\s*:\s*"')
_ENDS = lazy_regex(rb"[\r\n]+")
_CELL = lazy_regex(rb'\s*"cell_type"\s*:')
_HTML = lazy_regex(rb'\s*"text/html"\s*:\s*(?P<list>\[\s*$)?')
_TAGS = lazy_regex(r"<tr(?P<style>[^>]*)>|<t(?P<kind>[hd])[^>]*>(?P<cell>[^<]*)</t[hd]>|(?P<ends></tr>)")
_HTML_STRING = lazy_regex(rb'\s*(?:"text/html"\s*:\s*)?(?P<text>"(?:[^"\\]|\\.)*")\s*,?\s*$')


class NotebookText:
    """Reads the chunks of one log, in the order of the file."""

    def __init__(self) -> None:
        self.is_notebook: bool | None = None  # None before the first chunk
        self._printed = False  # inside a list of printed lines
        self._table: HtmlTable | None = None  # inside a list of lines of HTML
        self._shown: list[str] = []  # rows of the last table of the cell

    def read(self, chunk: Chunk) -> Chunk:
        """Returns the chunk as it was printed; the same chunk if the log is no notebook."""
        if self.is_notebook is None:
            self.is_notebook = chunk.first == 1 and _is_notebook(chunk.data)
        if not self.is_notebook:
            return chunk
        texts, numbers = [], []
        lines = chunk.data.removesuffix(b"\n").split(b"\n")
        for number, whole in zip(chunk.number(np.arange(len(lines))).tolist(), lines, strict=True):
            for line in _spread(whole) if number == 1 else [whole]:
                parts = _ENDS.split(self._text(line).strip(b"\r\n"))
                texts += [part[:LIMIT] for part in parts]
                numbers += [number] * len(parts)
        data = b"\n".join(texts) + b"\n" * chunk.data.endswith(b"\n")
        return replace(chunk, data=data, numbers=np.array(numbers, dtype=np.int64), starts=None)

    def _text(self, line: bytes) -> bytes:
        """What a line of the file printed; nothing if it is other JSON."""
        if _OPENS.match(line):
            self._printed = True
            return b""
        html = _HTML.match(line)
        if _CELL.match(line):
            self._shown = []
        if html:
            self._table = HtmlTable(self._shown)
        if html and html["list"]:
            return b""
        if self._table is not None:
            return self._row(self._table, line)
        string = _STRING.match(line) if self._printed or _NAMED.match(line) else None
        self._printed = self._printed and string is not None
        return ESCAPES.sub(b"", _text_of(string).encode(errors="replace"))

    def _row(self, table: HtmlTable, line: bytes) -> bytes:
        string = _HTML_STRING.match(line)
        if string is None or _HTML.match(line):
            self._table = None
        rows = table.rows(_text_of(string))
        self._shown = table.read or self._shown
        return "\n".join(rows).encode(errors="replace")


class HtmlTable:
    """Reads the lines of HTML of one output, and gives the rows that end in each, but for those `shown` before.

    A table without a heading sums up a run. A frame of pandas aligns its heading right.
    """

    def __init__(self, shown: Sequence[str] = ()) -> None:
        self.read: list[str] = []  # all rows so far
        self._shown = shown
        self._seen = 0  # of these rows, from the first on
        self._cells: list[str] = []
        self._has_heading = self._is_frame = False

    def rows(self, html: str) -> list[str]:
        rows = []
        for tag in _TAGS.finditer(html):
            if tag["cell"] is not None:
                self._has_heading = self._has_heading or tag["kind"] == "h"
                self._cells.append(tag["cell"].strip())
            elif tag["ends"]:
                is_read = self._has_heading and not self._is_frame and any(self._cells)
                rows += self._new("\t".join(self._cells)) if is_read else []
                self._cells = []
            else:
                self._is_frame = self._is_frame or "right" in tag["style"]
        return rows

    def _new(self, row: str) -> list[str]:
        """The row, unless it was shown before; if it differs from the one shown, the rows above it are new, too.

        Above the first row that is new the heading comes once more.
        """
        self.read.append(row)
        count = len(self.read)
        if count > self._seen + 1:
            return [row]
        if count <= len(self._shown) and row == self._shown[count - 1]:
            self._seen += 1
            return []
        above = self.read[:1] if self._seen == len(self._shown) else self.read[:-1]
        return [*(above if count > 1 else []), row]


def _text_of(string: re.Match[bytes] | None) -> str:
    """The text of a string of JSON; nothing where it is none."""
    try:
        return str(json.loads(string["text"])) if string else ""
    except ValueError:
        return ""


def _spread(line: bytes) -> list[bytes]:
    """The lines of a notebook that stands on one line; any other line as it is."""
    if not line.endswith(b"}"):
        return [line]
    try:
        return json.dumps(json.loads(line), indent=1).encode().split(b"\n")
    except ValueError:
        return [line]


def _is_notebook(data: bytes) -> bool:
    return _BEGINS.match(data) is not None and (b'"cell_type"' in data or b'"nbformat"' in data)
