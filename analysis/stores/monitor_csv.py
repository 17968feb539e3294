"""`monitor.csv` of Stable-Baselines3 -> one stored run: a row for each episode that ended.

The first line is a comment in JSON with the start of the run; `t` counts seconds since then. The step is the sum of
the lengths, as Stable-Baselines3 draws it. A continued file has no second start: where `t` falls, times are
unknown from then on.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores.points import (
    StoredRun,
    cell_number,
    from_rows,
    moment_ns,
    number,
    settings,
    whole,
)

FORMAT = "csv"
START = b"#{"
HEADER = ["r", "l", "t"]  # reward, length and seconds; columns that the program asked for may follow
NAMES = {"r": "episode_reward", "l": "episode_length"}


def is_monitor(head: bytes) -> bool:
    """Whether bytes begin the episodes of an environment."""
    lines = head.split(b"\n", 2)
    return (
        len(lines) > 2
        and lines[0].startswith(START)
        and b'"t_start"' in lines[0]
        and lines[1].strip().split(b",")[:3] == [name.encode() for name in HEADER]
    )


def read(path: Path, data: bytes) -> StoredRun:
    """Reads the episodes of one environment."""
    comment, _, table = data.decode(errors="replace").partition("\n")
    try:
        stated = json.loads(comment.removeprefix("#"))
    except (ValueError, RecursionError):
        stated = {}
    start = number(stated.pop("t_start", None))
    started = moment_ns(start) or None
    name = path.name.removesuffix(".csv").removesuffix("monitor").rstrip(".") or path.resolve().parent.name
    rejects: list[Reject] = []
    values = from_rows(_rows(table, start if started else None, rejects))
    return StoredRun(name, str(path), FORMAT, values, settings(stated), rejects=rejects, started=started)


def _rows(
    table: str, start: float | None, rejects: list[Reject]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    reader = csv.reader(io.StringIO(table))
    header = next(reader)
    step, last = 0, 0.0
    try:
        for row in reader:
            cells = dict(zip(header, map(cell_number, row), strict=False))
            length, seconds = whole(cells.get("l")), cells.get("t")
            if len(row) != len(header) or length is None or length < 0 or seconds is None:
                rejects.append(Reject(reader.line_num + 1, FORMAT, "a row is no episode"))
                continue
            step += length
            start = start if seconds >= last else None
            last = seconds
            moment = None if start is None else start + seconds
            yield (
                step,
                moment_ns(moment),
                {NAMES.get(n, n): c for n, c in cells.items() if c is not None and n != "t"},
            )
    except csv.Error:
        return
