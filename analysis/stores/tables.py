"""Tables of metrics -> one stored run: CSV of Lightning, Keras, YOLO and Stable-Baselines3.

The header's cells are names, padded by some; an empty cell is null, `nan` is a value. Lightning writes training and
validation in rows of their own with the same step.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores.plain_yaml import settings_beside
from gputel.analysis.stores.points import StoredRun, from_rows

FORMAT = "csv"
AXES = (
    "step",
    "trainer/global_step",
    "global_step",
    "train/global_step",
    "iteration",
    "iter",
    "time/total_timesteps",
    "total_timesteps",
    "epoch",
)
NAME = re.compile(r"[^\W\d][\w./ @():%+-]*")


def is_table(head: bytes) -> bool:
    """Whether bytes begin a table of metrics of a tool, which says so by its header.

    Names with slashes, or an epoch as the first column or beside the step; every cell below is a number or empty.
    """
    lines = head.split(b"\n", 2)
    if len(lines) < 3 or b"\0" in head:
        return False
    header = _cells(lines[0])
    if len(header) < 2 or len(set(header)) < len(header) or not all(NAME.fullmatch(name) for name in header):
        return False
    known = [name for name in header if name in AXES]
    is_of_tool = (
        any("/" in name for name in header) or header[0] == "epoch" or {"epoch", "step"} <= set(header)
    )
    cells = _cells(lines[1])
    return bool(known) and is_of_tool and len(cells) == len(header) and all(map(_is_number_or_empty, cells))


def read(path: Path, data: bytes) -> StoredRun:
    """Reads a table; the first of `AXES` that the header has is the step."""
    generic = path.stem in ("metrics", "results", "progress", "log", "training")
    name = path.resolve().parent.name if generic else path.stem
    rejects: list[Reject] = []
    values = from_rows(_rows(data, rejects))
    return StoredRun(name, str(path), FORMAT, values, settings_beside(path.parent), rejects=rejects)


def _rows(data: bytes, rejects: list[Reject]) -> Iterator[tuple[int, int, dict[str, float]]]:
    text = data.decode(errors="replace")
    header = _cells(text.split("\n", 1)[0].encode())
    axis = next((name for name in AXES if name in header), None)
    if axis is None:
        return
    delimiter = _delimiter(text.split("\n", 1)[0])
    for line, row in _lines(text, delimiter):
        if len(row) != len(header):
            rejects.append(Reject(line, FORMAT, f"a row has {len(row)} cells, and the header {len(header)}"))
            continue
        cells = dict(zip(header, map(_number, row), strict=True))
        step = cells[axis]
        if step is None or step != step or abs(step) > 2**62 or step != int(step):
            rejects.append(Reject(line, FORMAT, f"a row has no whole {axis}"))
            continue
        is_epoch = axis == "epoch"
        yield int(step), 0, {n: c for n, c in cells.items() if c is not None and (n != axis or is_epoch)}


def _lines(text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields the rows below the header with their lines; none that is longer than a row of numbers can be."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        for at, row in enumerate(reader, start=1):
            if at > 1 and row:
                yield reader.line_num, row
    except csv.Error:
        return


def _cells(line: bytes) -> list[str]:
    text = line.decode(errors="replace").rstrip("\r").lstrip("\ufeff")
    return [cell.strip().strip('"').strip() for cell in text.split(_delimiter(text))]


def _delimiter(line: str) -> str:
    """A comma, unless a tab or a semicolon, which Keras' CSVLogger can be given, stands more often."""
    return max(",\t;", key=line.count)


def _number(cell: str) -> float | None:
    text = cell.strip()
    try:
        return float(text) if text and len(text) < 64 and "_" not in text else None
    except ValueError:
        return None


def _is_number_or_empty(cell: str) -> bool:
    return not cell or _number(cell) is not None
