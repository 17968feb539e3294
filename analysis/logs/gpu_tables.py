"""Logs of GPU readings -> telemetry rows: nvidia-smi's CSV and dmon, dcgmi's dmon, and hand-made CSVs.

In come the bytes of a file, out goes a frame with `time`, `gpu` and then the columns of telemetry/readings.py in
their units, null where nothing was measured, and the lines that could not be read. A header may stand anywhere and
more than once, since people append to the same file.

A timestamp without a zone is taken as UTC, since the tools print the machine's local time without saying its zone.
dmon's clock without a date gives `elapsed_s` and no `time`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import polars as pl

from gputel.analysis.logs.gpu_columns import INDICES, SCALES, Cell, distinct, understand

CHUNK = 16 << 20
HEAD_LINES = 20
TRAINING = re.compile(
    r"(?i)(^|[_/. ])(loss|lr|learning_rate|step|epoch|iter|iteration|perplexity|accuracy)($|[_/. ])"
)
ENTITY = r"^\s*GPU\s+(\d+)"  # dcgmi prints the kind of an entity apart from its number
INSTANCE = r"^\s*(GPU-[IC]+)\s+(\d+)"
ALWAYS: list[tuple[str, pl.DataType]] = [("time", pl.Datetime("ns", "UTC")), ("gpu", pl.String())]
MISSING = [
    *("", "-", "na", "n/a", "nan", "none", "null", "err!", "not supported", "unknown error"),
    *("[n/a]", "[not supported]", "[unknown error]", "[insufficient permissions]"),
    *("[gpu is lost]", "[gpu requires reset]"),
]
WORDS = {"active": "1", "not active": "0", "enabled": "1", "disabled": "0", "yes": "1", "no": "0"}
UNIT = r"(\d\.?)\s*(?:" + "|".join(SCALES) + ")$"
CLOCK = r"^\d\d:\d\d:\d\d$"

Rejects = list[tuple[int, str]]


@dataclass(frozen=True)
class Telemetry:
    rows: pl.DataFrame
    units: dict[str, str | None]
    sources: dict[str, str]
    rejects: Rejects
    lines: int
    names: tuple[str, ...] = ()  # models of the GPUs, in the order of their first rows


@dataclass(frozen=True)
class Header:
    kind: str
    cells: list[Cell]
    separator: str | None
    first_word: str


def recognize(head: bytes) -> str | None:
    """`nvidia-smi-csv`, `gpu-csv`, `nvidia-smi-dmon` or `dcgmi-dmon`, if the first lines have such a header."""
    lines = _with_commas(head).decode(errors="replace").splitlines()[:HEAD_LINES]
    headers = (header_of(line, after) for line, after in zip_longest(lines, lines[1:], fillvalue=""))
    return next((header.kind for header in headers if header), None)


def parse(data: bytes) -> Telemetry:
    """Reads every section of a file by the header above it."""
    data = _with_commas(data)
    frames: list[pl.DataFrame] = []
    rejects: Rejects = []
    cells: dict[str, Cell] = {}
    names: dict[str, None] = {}
    for header, at, lines in _sections(data):
        table, too_wide = _cells(header, at, lines)
        frame, unreadable = _rows(header, table)
        frames.append(frame)
        names.update(dict.fromkeys(_names(header, table)))
        rejects += too_wide + unreadable
        cells.update(
            {cell.column: cell for cell in reversed(header.cells) if cell.role in ("reading", "other")}
        )
    rows = pl.concat([pl.DataFrame(schema=pl.Schema(ALWAYS)), *frames], how="diagonal_relaxed")
    named = [name for name in rows.columns if name in cells]
    return Telemetry(
        rows,
        {name: cells[name].unit for name in named},
        {name: cells[name].printed.strip() for name in named},
        sorted(rejects),
        data.count(b"\n") + (data[-1:] not in (b"", b"\n")),
        tuple(names),
    )


def _with_commas(data: bytes) -> bytes:
    """Turns a table of semicolons, as spreadsheets write where the decimal point is a comma, into one of commas."""
    first = data.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0]
    if b";" not in first or b"," in first:
        return data
    return data.replace(b",", b".").replace(b";", b",")


def _names(header: Header, table: pl.DataFrame) -> list[str]:
    """Returns the GPUs' models, once each."""
    place = next((i for i, cell in enumerate(header.cells) if cell.role == "name"), None)
    if place is None:
        return []
    names = table[str(place)].unique(maintain_order=True)
    return [str(name) for name in names.filter(~names.str.to_lowercase().is_in(MISSING))]


def header_of(line: str, after: str) -> Header | None:
    """A header names a GPU or a time and at least one reading; a name such as loss makes it a training log."""
    if line.lstrip().startswith("#") and "," not in line:
        return _column_header(line, after)
    printed = [cell.strip() for cell in line.split(",")]
    if len(printed) < 2 or any(not cell or cell[0].isdigit() or TRAINING.search(cell) for cell in printed):
        return None
    if after.strip() and after.count(",") != line.count(","):
        return None
    dmon = line.lstrip().startswith("#")
    units = [cell.strip().lstrip("# ") for cell in after.split(",")] if dmon and after.startswith("#") else []
    cells = distinct([understand(cell, *units[i : i + 1]) for i, cell in enumerate(printed)])
    if not _is_telemetry(cells):
        return None
    queried = any("." in cell.column or "." in cell.printed for cell in cells)
    kind = "nvidia-smi-dmon" if dmon else "nvidia-smi-csv" if queried else "gpu-csv"
    return Header(kind, cells, ",", printed[0])


def _column_header(line: str, after: str) -> Header | None:
    words = line.lstrip("# \t").split()
    if TRAINING.search(line):
        return None
    dcgm = words[:1] == ["Entity"]
    units = after.lstrip("# \t").split() if after.lstrip().startswith("#") and not dcgm else []
    aligned = units if len(units) == len(words) else [None] * len(words)
    cells = distinct([understand(word, unit, dcgm=dcgm) for word, unit in zip(words, aligned, strict=True)])
    if not _is_telemetry(cells):
        return None
    return Header("dcgmi-dmon" if dcgm else "nvidia-smi-dmon", cells, None, "#")


def _is_telemetry(cells: list[Cell]) -> bool:
    """Whether a reading has a time or a GPU; a temperature alone has a GPU, or it is that of anything."""
    roles, readings = {cell.role for cell in cells}, [cell for cell in cells if cell.role == "reading"]
    if {cell.column for cell in readings} == {"temp_c"} and "gpu" not in roles:
        readings = [cell for cell in readings if cell.gpu or "gpu" in cell.printed.lower()]
    placed = bool(roles & {"time", "gpu", "elapsed"}) or any(cell.gpu for cell in cells)
    return bool(readings) and placed


def _sections(data: bytes) -> Iterator[tuple[Header, list[int], list[str]]]:
    """The lines under each header with their numbers, in pieces of some megabytes."""
    header: Header | None = None
    number = 0
    for lines in _pieces(data):
        kept: list[int] = []
        for at, line in enumerate(lines):
            if _may_be_header(header, line):
                found = header_of(line, lines[at + 1] if at + 1 < len(lines) else "")
                if found and header and found != header and kept:
                    yield header, [number + i + 1 for i in kept], [lines[i] for i in kept]
                    kept = []
                header = found or header
            elif header and _holds_values(header, line):
                kept.append(at)
        if header and kept:
            yield header, [number + i + 1 for i in kept], [lines[i] for i in kept]
        number += len(lines)


def _pieces(data: bytes) -> Iterator[list[str]]:
    start = 0
    while start < len(data):
        end = start + CHUNK
        end = data.rfind(b"\n", start, end) + 1 or len(data) if end < len(data) else len(data)
        yield data[start:end].removesuffix(b"\n").decode(errors="replace").replace("\0", "").split("\n")
        start = end


def _may_be_header(header: Header | None, line: str) -> bool:
    return header is None or line.startswith(header.first_word) or line.lstrip().startswith("#")


def _holds_values(header: Header, line: str) -> bool:
    """Whether a line holds readings: dcgmi prints a line of units below its names, without a `#`."""
    words = line.split(maxsplit=1)
    return bool(words) and not (header.kind == "dcgmi-dmon" and words[0].lower() == "id")


def _cells(header: Header, numbers: list[int], lines: list[str]) -> tuple[pl.DataFrame, Rejects]:
    """Text cells in columns "0", "1", ... and "line"; a row that is too short or too long is a reject."""
    text = pl.Series("cells", lines)
    if header.kind == "dcgmi-dmon":
        text = text.str.replace(ENTITY, "$1").str.replace(INSTANCE, "$1:$2")
    split = text.str.split(header.separator) if header.separator else text.str.extract_all(r"\S+")
    table = pl.DataFrame({"line": numbers, "cells": split}, schema_overrides={"line": pl.Int64})
    width = len(header.cells)
    fits = table.filter(pl.col("cells").list.len() == width)
    columns = [pl.col("cells").list.get(i).str.strip_chars(' "\r').alias(str(i)) for i in range(width)]
    unfit = table.filter(pl.col("cells").list.len() != width).select("line", pl.col("cells").list.len())
    return fits.select("line", *columns), [
        (line, f"{found} cells under a header of {width}") for line, found in unfit.iter_rows()
    ]


def _rows(header: Header, table: pl.DataFrame) -> tuple[pl.DataFrame, Rejects]:
    """Typed rows of one section: one per GPU, also where a line holds several GPUs side by side."""
    shared, rejects = _when_and_where(header, table)
    by_gpu: dict[str | None, list[pl.Series]] = {cell.gpu: [] for cell in header.cells if cell.gpu}
    for i, cell in enumerate(header.cells):
        if cell.role not in ("reading", "other"):
            continue
        values = numbers(table[str(i)], cell.scale).alias(cell.column)
        if cell.role == "other" and values.null_count() == table.height:
            continue  # a name, a serial number
        by_gpu.setdefault(cell.gpu, []).append(values)
        rejects += unread(cell, table["line"], table[str(i)], values)
    common = by_gpu.pop(None, [])
    if not by_gpu:
        return shared.with_columns(common), rejects
    return _interleave(
        [shared.with_columns(pl.lit(gpu).alias("gpu"), *common, *own) for gpu, own in by_gpu.items()]
    ), rejects


def _interleave(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Turns GPUs that stood side by side in a line into rows."""
    numbered = [frame.with_row_index("row") for frame in frames]
    return pl.concat(numbered, how="diagonal_relaxed").sort("row", maintain_order=True).drop("row")


def _when_and_where(header: Header, table: pl.DataFrame) -> tuple[pl.DataFrame, Rejects]:
    """`time` and `gpu`, with `node` and `elapsed_s` if they are printed."""

    def places(role: str) -> list[int]:
        return [i for i, cell in enumerate(header.cells) if cell.role == role]

    stamp = stamps([table[str(i)] for i in places("time")], table.height)
    columns = [times(stamp), gpu_ids(header.cells, table, places("gpu"))]
    columns += [table[str(i)].alias("node") for i in places("node")[:1]]
    columns += [numbers(table[str(i)], 1.0).alias("elapsed_s") for i in places("elapsed")[:1]]
    if clock_only(stamp):
        return pl.DataFrame([*columns, elapsed(stamp)]), []
    return pl.DataFrame(columns), unread(Cell("time", "time", "time"), table["line"], stamp, columns[0])


def unread(cell: Cell, lines: pl.Series, text: pl.Series, values: pl.Series) -> list[tuple[int, str]]:
    """Line and reason of every cell that is neither a value nor a word for "not measured"."""
    bad = values.is_null() & ~text.str.to_lowercase().is_in(MISSING)
    expected = "a time" if cell.role == "time" else "a number"
    cells = zip(lines.filter(bad), text.filter(bad), strict=True)
    return [(line, f"{cell.printed.strip()} is {word!r}, expected {expected}") for line, word in cells]


def numbers(text: pl.Series, scale: float) -> pl.Series:
    """`32768 MiB`, `0 %`, `P0`, `0x0000000000000004`, `Not Active`; the words for "not measured" are null."""
    word = text.str.to_lowercase().replace(WORDS)
    flags = word.str.strip_prefix("0x").str.to_integer(base=16, strict=False).cast(pl.Float64)
    plain = word.str.replace(r"^p(\d+)$", "$1").str.replace(UNIT, "$1")
    values = pl.when(word.str.starts_with("0x")).then(flags).otherwise(plain.cast(pl.Float64, strict=False))
    return _series(pl.when(~word.is_in(MISSING)).then(values if scale == 1.0 else values * scale))


def gpu_ids(cells: list[Cell], table: pl.DataFrame, at: list[int]) -> pl.Series:
    """The printed index; else the order in which printed names appear; else 0, for the only GPU."""
    if not at:
        return _series(pl.repeat("0", table.height, dtype=pl.String).alias("gpu"))
    best = min(at, key=lambda i: cells[i].rank)
    ids: pl.Series = table[str(best)].alias("gpu")
    if cells[best].column in INDICES:
        return _series(ids.str.replace(r"(?i)^(gpu|cuda)[ :]?(\d+)$", "$2"))
    seen = ids.unique(maintain_order=True)
    return _series(ids.replace_strict(seen, [str(i) for i in range(len(seen))], return_dtype=pl.String))


def stamps(parts: list[pl.Series], height: int) -> pl.Series:
    """Timestamps as text; dmon prints day and time in two columns."""
    text = pl.concat_str(parts[:2], separator=" ") if parts else pl.repeat("-", height, dtype=pl.String)
    return _series(text.alias("time"))


def clock_only(stamp: pl.Series) -> bool:
    return bool(stamp.len()) and bool(stamp.str.contains(CLOCK).all())


def elapsed(clock: pl.Series) -> pl.Series:
    """Seconds since the first row; the clock starts again at midnight."""
    parts = [clock.str.slice(start, 2).cast(pl.Int64) for start in (0, 3, 6)]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    days = (seconds.diff() < 0).fill_null(False).cum_sum()
    return _series((seconds + days * 86400 - seconds.first()).cast(pl.Float64).alias("elapsed_s"))


def times(stamp: pl.Series) -> pl.Series:
    """UTC, in ns: `2023/07/30 17:28:02.589`, ISO 8601 with or without a zone, `20240104 13:54:35`, Unix time."""
    plain = stamp.str.replace("T", " ").str.replace_all("/", "-").str.replace(r"\s*(Z|UTC)$", "")
    plain = plain.str.replace(r"^(\d{4})(\d\d)(\d\d) ", "$1-$2-$3 ")
    local = plain.str.replace(r"(\d)\s*[+-]\d\d:?\d\d$", "$1")
    parsed = local.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False).cast(pl.Int64)
    since_1970 = pl.when(parsed.is_not_null()).then(parsed - _offset(plain)).otherwise(_unix(plain))
    return _series(since_1970.cast(pl.Datetime("ns", "UTC")).alias("time"))


def _offset(text: pl.Series) -> pl.Series:
    zone = text.str.extract_groups(r"\d\s*([+-])(\d\d):?(\d\d)$").struct
    hours, minutes = (zone.field(name).cast(pl.Int64) for name in ("2", "3"))
    sign = zone.field("1").replace_strict({"-": -1, "+": 1}, return_dtype=pl.Int64)
    return _series((sign * (hours * 60 + minutes) * 60_000_000_000).fill_null(0))


def _unix(text: pl.Series) -> pl.Series:
    """Unix times in s, ms, us or ns, told apart by the number of digits; right from 2001 to 2286."""
    digits = text.str.extract_groups(r"^(\d{10,19})(?:\.(\d+))?$").struct
    written = digits.field("1") + digits.field("2").fill_null("").str.head(9)
    return _series(written.str.pad_end(19, "0").str.head(19).cast(pl.Int64, strict=False))


def _series(expression: pl.Expr | pl.Series) -> pl.Series:
    return pl.DataFrame().select(expression).to_series()
