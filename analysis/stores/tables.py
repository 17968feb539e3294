"""Tables of metrics -> one stored run: CSV of Lightning, Keras, YOLO, Stable-Baselines3 and Ray Tune.

The header's cells are names, padded by some; an empty cell is null, and so is `NA`, which Keras writes for a metric
that an epoch lacks; `nan` is a value. Lightning writes training and validation in rows of their own with the same
step. Ray Tune, which RLlib uses, writes texts and settings into them too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores import plain_yaml, ray_tune
from gputel.analysis.stores.points import StoredRun, cell_number, from_rows, moment_ns, settings

FORMAT = "csv"
AXES = (
    "step",
    "trainer/global_step",
    "global_step",
    "train/global_step",
    "iteration",
    "iter",
    "training_iteration",
    "time/total_timesteps",
    "total_timesteps",
    "epoch",
)
NULLS = frozenset({"", "NA"})
SETTING = "config/"  # begins the columns of Ray Tune that hold a setting
NAME = re.compile(r"[^\W\d][\w./ @():%+-]*")


def is_table(head: bytes) -> bool:
    """Whether bytes begin a table of metrics of a tool, which says so by its header.

    Names with slashes, or an epoch as the first column or beside the step; every cell below is a number or empty.
    """
    lines = head.split(b"\n", 2)
    header = _cells(lines[0])
    if set(header) >= ray_tune.COLUMNS:
        return b"\0" not in head  # the header alone may be longer than what is looked at
    if len(lines) < 3 or b"\0" in head:
        return False
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
    config = plain_yaml.settings_beside(path.parent)
    if column_names(data) >= ray_tune.COLUMNS:
        config |= ray_tune.settings_beside(path.parent)
    values = from_rows(_rows(data, rejects, config))
    return StoredRun(name, str(path), FORMAT, values, config, rejects=rejects)


def column_names(data: bytes) -> set[str]:
    """Returns the names in the first line of a table."""
    return set(_cells(data.split(b"\n", 1)[0]))


def _rows(
    data: bytes, rejects: list[Reject], config: dict[str, float | str]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yields the step, the time in ns and the numbers of each row; adds the settings in the rows to `config`."""
    text = data.decode(errors="replace")
    header = _cells(text.split("\n", 1)[0].encode())
    axis = next((name for name in AXES if name in header), None)
    if axis is None:
        return
    delimiter = _delimiter(text.split("\n", 1)[0])
    is_ray_tune = set(header) >= ray_tune.COLUMNS
    for line, row in _lines(text, delimiter):
        if len(row) == 1 < len(header) and cell_number(row[0]) is None:
            continue  # a message among the rows: `Saving model to best.pt`
        if len(row) != len(header):
            rejects.append(Reject(line, FORMAT, f"a row has {len(row)} cells, and the header {len(header)}"))
            continue
        cells = dict(zip(header, map(cell_number, row), strict=True))
        step = cells[axis]
        if step is None or step != step or abs(step) > 2**62 or step != int(step):
            rejects.append(Reject(line, FORMAT, f"a row has no whole {axis}"))
            continue
        moment = 0
        if is_ray_tune:
            config |= _settings_of_row(header, row)
            moment = moment_ns(cells.get(ray_tune.MOMENT))
            cells = {n: c for n, c in cells.items() if not n.startswith(SETTING) and n not in ray_tune.OWN}
        is_epoch = axis == "epoch"
        yield int(step), moment, {n: c for n, c in cells.items() if c is not None and (n != axis or is_epoch)}


def _settings_of_row(header: Sequence[str], row: Sequence[str]) -> dict[str, float | str]:
    """Returns the settings in a row of Ray Tune: `config/model/depth` is `model.depth`."""
    return settings(
        {
            name.removeprefix(SETTING).replace("/", "."): cell
            for name, cell in zip(header, row, strict=True)
            if name.startswith(SETTING) and cell
        }
    )


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


def _is_number_or_empty(cell: str) -> bool:
    return cell in NULLS or cell_number(cell) is not None
