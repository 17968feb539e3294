"""A `.wandb` file, which W&B writes while a run goes on -> one stored run.

Two of three records are summaries of the row before them, and are passed over. `_step` counts calls of `log`, not
steps: the step is the metric that `define_metric` names, else one that is called like a step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gputel.analysis.logs.log import Provenance
from gputel.analysis.logs.outcome import LogEvent, Status
from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores import wandb_machine
from gputel.analysis.stores.points import StoredRun, TagValues, from_rows, number, settings
from gputel.analysis.stores.protobuf import (
    BYTES,
    DOUBLE,
    VARINT,
    WireError,
    fields,
    moment_ns,
    signed,
    text,
    varint,
)
from gputel.analysis.stores.system_metrics import WANDB, SystemMetrics
from gputel.analysis.stores.wandb_log import FORMAT, RecordReader
from gputel.telemetry.own_files import is_foreign

PIECE = 8 << 20
AXES = ("trainer/global_step", "train/global_step", "global_step", "iter", "iteration", "step")
OWN = ("_step", "_timestamp", "_runtime", "_wandb")
HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, METRIC, RAW_OUTPUT = 2, 3, 4, 5, 7, 12, 13  # kinds of records
RUN, EXIT, MACHINE = 17, 18, 26
MOST_PRINTED = 64 << 20  # bytes of console output
PRINTED = Path("files", "output.log")  # where W&B keeps it beside the file, too
UNKNOWN = "_step"
JSON_TEXT = b"\x82\x01"  # the key of a value
SHORTEST = 8  # bytes of an item
SIZES = {1: 8, 5: 4}  # of fields of fixed size


@dataclass
class _Read:
    """What the records of one file said so far."""

    rows: list[dict[str, float]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)  # metric or pattern -> the metric that is its step
    skipped: Counter[str] = field(default_factory=Counter)
    name: str = ""
    started: int | None = None
    exit_code: int | None = None
    printed: bytearray = field(default_factory=bytearray)
    summary: dict[str, Any] = field(default_factory=dict)
    last_summary: bytes = b""
    stats: SystemMetrics = field(default_factory=lambda: SystemMetrics(WANDB))
    provenance: Provenance = field(default_factory=Provenance)


class FileReader:
    """Reads a `.wandb` file, and later what was written to it since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = RecordReader()
        self._read = _Read()
        self._position = 0

    @property
    def files(self) -> list[Path]:
        return [self.path]

    @property
    def has_end(self) -> bool:
        """Whether the exit of the run was read."""
        return self._read.exit_code is not None

    def advance(self) -> bool:
        before = self._position
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._position)
            while data := file.read(PIECE):
                self._position += len(data)
                for record in self._records.feed(data):
                    _take(record, self._read, self._records)
        return self._position > before

    def run(self) -> StoredRun:
        read, records = self._read, self._records
        if records.is_stuck:  # nothing may follow: what lies behind the damage counts for now
            records, read = (
                deepcopy(records),
                replace(
                    read,
                    rows=list(read.rows),
                    skipped=Counter(read.skipped),
                    printed=bytearray(read.printed),
                    summary=dict(read.summary),
                    stats=deepcopy(read.stats),
                ),
            )
            for record in records.finish():
                _take(record, read, records)
        rejects = list(records.rejects)
        values = from_rows(_rows(read))
        status, cause = _ending(read, values)
        name = read.name or self.path.stem.removeprefix("run-")
        notes = tuple(f"{count:,} {what} skipped" for what, count in sorted(read.skipped.items()))
        stored = StoredRun(name, str(self.path), FORMAT, values, settings(read.config), rejects=rejects)
        provenance = read.provenance
        if provenance == Provenance():
            provenance = wandb_machine.beside(self.path) or provenance
        printed = b"" if len(values) else bytes(read.printed) or self._printed_beside()
        return replace(
            stored,
            status=status,
            cause=cause,
            started=read.started,
            notes=(*notes, *read.stats.notes),
            printed=printed,
            summary=_summary(read),
            telemetry=read.stats.table(provenance.gpu),
            provenance=provenance,
        )

    def _printed_beside(self) -> bytes:
        path = self.path.parent / PRINTED
        if not path.is_file() or is_foreign(path.parent, folder=True) or is_foreign(path):
            return b""
        with path.open("rb") as file:
            return file.read(MOST_PRINTED)


def _take(record: bytes, read: _Read, records: RecordReader) -> None:
    try:
        at, end = 0, len(record)
        while at < end:
            key, at = varint(record, at, end)
            kind = key & 7
            size, start = varint(record, at, end) if kind in (VARINT, BYTES) else (SIZES.get(kind, end), at)
            at = start + size if kind != VARINT else start
            if at > end:
                raise WireError("a field is longer than its record")
            if kind == BYTES and key >> 3 in _TAKERS:
                _TAKERS[key >> 3](record, start, at, read)
    except (WireError, ValueError, IndexError, RecursionError) as error:
        records.rejects.append(Reject(records.records, FORMAT, f"not a record of W&B: {error}"))


def _take_history(data: bytes, at: int, end: int, read: _Read) -> None:
    """Reads a row of the history; the loop is written out since nearly all of a file goes through it."""
    row: dict[str, float] = {}
    while at < end:
        key = data[at]
        size, at = (data[at + 1], at + 2) if data[at + 1] < 0x80 else varint(data, at + 1, end)
        stop = at + size
        if stop > end:
            raise WireError("a field is longer than its record")
        if key == 0x0A:
            _take_item(data, at, stop, row, read)
        elif key == 0x12 and size:
            row[UNKNOWN] = float(signed(next((each.value for each in fields(data, at, stop)), 0)))
        elif key & 7 != BYTES:
            raise WireError("a row of the history holds something else")
        at = stop
    read.rows.append(row)


def _take_item(data: bytes, at: int, end: int, row: dict[str, float], read: _Read) -> None:
    """Takes one value; nearly all are a short name and a short JSON text, in this order."""
    middle = at + 2 + data[at + 1]
    if data[at] == 0x0A and middle + 3 <= end and data[middle : middle + 2] == JSON_TEXT:
        content = data[middle + 3 : end]
        if len(content) == data[middle + 2] < 0x80 and data[at + 1] < 0x80:
            name = data[at + 2 : middle].decode(errors="replace")
            try:
                row[name] = float(content)
            except ValueError:
                _take_json(name, content, row, read)
            return
    names: list[str] = []
    for part in fields(data, at, end):
        if part.number in (1, 2):
            names.append(text(data, part))
        elif part.number == 16:
            content = data[part.start : part.end]
            try:
                row["/".join(names)] = float(content)
            except ValueError:
                _take_json("/".join(names), content, row, read)
        elif part.number in (3, 4, 5, 6, 7, 8):
            _take_typed("/".join(names), part.number, data, part, row, read)


def _take_json(name: str, content: bytes, row: dict[str, float], read: _Read) -> None:
    _take_value(name, json.loads(content), row, read)


def _take_value(name: str, value: object, row: dict[str, float], read: _Read) -> None:
    """Takes a number; older versions keep a dictionary of numbers whole, newer ones a value for each."""
    cell = number(value)
    if cell is not None:
        row[name] = cell
    elif isinstance(value, dict) and "_type" not in value:
        for key, inner in value.items():
            _take_value(f"{name}/{key}", inner, row, read)
    elif isinstance(value, dict):
        read.skipped[str(value["_type"])] += 1
    elif value is not None:
        read.skipped["lists" if isinstance(value, list) else "texts"] += 1


def _take_typed(name: str, kind: int, data: bytes, part: Any, row: dict[str, float], read: _Read) -> None:
    """A value of the newer schema: boolean, integer, number, text or JSON in a field of its own."""
    if kind in (4, 5):
        row[name] = float(signed(part.value))
    elif kind == 6 and part.kind == 1:
        row[name] = float(DOUBLE.unpack(data[part.start : part.end])[0])
    elif kind in (7, 8):
        content = data[part.start : part.end]
        _take_json(
            name, json.dumps(content.decode(errors="replace")).encode() if kind == 7 else content, row, read
        )


def _take_config(data: bytes, at: int, end: int, read: _Read) -> None:
    for part in fields(data, at, end):
        if part.number == 1 and part.kind == BYTES:
            names, value = [], None
            for each in fields(data, part.start, part.end):
                if each.number in (1, 2):
                    names.append(text(data, each))
                elif each.number == 16:
                    value = json.loads(data[each.start : each.end])
            if names and not names[0].startswith("_"):
                read.config[".".join(names)] = value


def _take_summary(data: bytes, at: int, end: int, read: _Read) -> None:
    """Takes what a program has set itself; of what repeats the row before it, the last one is kept for the end."""
    read.last_summary = data[at:end]
    name = data[at + 4 : at + 4 + data[at + 3]] if end - at > SHORTEST else b""
    if not (read.rows and name.decode(errors="replace") in read.rows[-1]):
        read.summary |= _summary_items(read.last_summary)


def _summary_items(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in fields(data):
        if part.number == 1 and part.kind == BYTES:
            names, content = [], b"null"
            for each in fields(data, part.start, part.end):
                if each.number in (1, 2) and each.kind == BYTES:
                    names.append(text(data, each))
                elif each.number == 16 and each.kind == BYTES:
                    content = data[each.start : each.end]
            found["/".join(names)] = json.loads(content)
    return found


def _summary(read: _Read) -> dict[str, float | str]:
    """What was set or logged and has no value in the history."""
    with suppress(ValueError, RecursionError):  # damage of the last one costs that one
        read.summary |= _summary_items(read.last_summary)
    in_history = {name for row in read.rows for name in row}
    own = (name for name in read.summary if name not in in_history and not name.startswith("_"))
    return settings({name: cell for name in own if not _is_object(cell := read.summary[name])})


def _is_object(cell: object) -> bool:
    """Whether a value is a histogram, an image or such."""
    return isinstance(cell, dict) and "_type" in cell


def _take_metric(data: bytes, at: int, end: int, read: _Read) -> None:
    """Takes which metric is the step of another."""
    name = axis = ""
    for part in fields(data, at, end):
        if part.number in (1, 2) and part.kind == BYTES:
            name = text(data, part)
        elif part.number == 4 and part.kind == BYTES:
            axis = text(data, part)
    if name and axis:
        read.axes[name] = axis


def _take_run(data: bytes, at: int, end: int, read: _Read) -> None:
    for part in fields(data, at, end):
        if part.number == 4 and part.kind == BYTES:
            _take_config(data, part.start, part.end, read)
        elif part.number == 8 and part.kind == BYTES:
            read.name = text(data, part)
        elif part.number == 17 and part.kind == BYTES:
            read.started = moment_ns(data, part) or None


def _take_exit(data: bytes, at: int, end: int, read: _Read) -> None:
    read.exit_code = next((signed(part.value) for part in fields(data, at, end) if part.number == 1), 0)


def _take_output(data: bytes, at: int, end: int, read: _Read) -> None:
    """Takes what was printed, while the history has no values."""
    if read.rows or len(read.printed) > MOST_PRINTED:
        return
    for part in fields(data, at, end):
        if part.number == 3 and part.kind == BYTES:
            read.printed += data[part.start : part.end]


def _take_stats(data: bytes, at: int, end: int, read: _Read) -> None:
    wandb_machine.take_readings(data, at, end, read.stats)


def _take_machine(data: bytes, at: int, end: int, read: _Read) -> None:
    read.provenance = wandb_machine.add(read.provenance, data, at, end)


_TAKERS = {
    HISTORY: _take_history,
    OUTPUT: _take_output,
    RAW_OUTPUT: _take_output,
    CONFIG: _take_config,
    SUMMARY: _take_summary,
    STATS: _take_stats,
    METRIC: _take_metric,
    RUN: _take_run,
    EXIT: _take_exit,
    MACHINE: _take_machine,
}


def _rows(read: _Read) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Gives each value the step of its metric; what has none in its row is counted and left out."""
    present = {name for row in read.rows for name in row}
    axis = _main_axis(read, present)
    axis_of = {name: _axis_of(name, read, present, axis) for name in present}
    steps = {*axis_of.values(), *OWN}
    is_single = set(axis_of.values()) <= {axis}
    for row in read.rows:
        seconds = row.get("_timestamp", 0.0)
        moment = int(seconds * 1e6) * 1000 if 0 < seconds < 9e9 else 0
        groups: dict[int, dict[str, float]] = {}
        if is_single:
            step = row.get(axis)
            if step is not None and step == step and abs(step) < 2**62:
                yield int(step), moment, {name: cell for name, cell in row.items() if name not in steps}
                continue
        for name, cell in row.items():
            if name in steps:
                continue
            step = row.get(axis_of[name])
            if step is None or step != step or abs(step) > 2**62:
                read.skipped[f"values without {axis_of[name]}"] += 1
                continue
            groups.setdefault(int(step), {})[name] = cell
        for step, cells in groups.items():
            yield step, moment, cells


def _main_axis(read: _Read, present: set[str]) -> str:
    stated = Counter(axis for axis in read.axes.values() if axis in present)
    if stated:
        return stated.most_common(1)[0][0]
    return next((name for name in AXES if name in present), UNKNOWN)


def _axis_of(name: str, read: _Read, present: set[str], main: str) -> str:
    stated = read.axes.get(name)
    if stated is None:
        stated = next(
            (axis for pattern, axis in read.axes.items() if "*" in pattern and fnmatchcase(name, pattern)),
            None,
        )
    return stated if stated in present else main


def _ending(read: _Read, values: TagValues) -> tuple[Status, LogEvent | None]:
    if read.exit_code is None:
        last = int(values.step[-1]) if len(values) else None
        words = "the file has no rows" if last is None else f"the file ends at step {last:,}"
        return "unknown", LogEvent("", 0, words)
    if read.exit_code == 0:
        return "completed", None
    return "failed", LogEvent("", 0, f"W&B noted exit code {read.exit_code}", fatal="failed")
