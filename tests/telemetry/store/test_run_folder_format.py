"""docs/run-folder.md is enough: a reader written from that page alone, without numpy and without our code."""

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames, parquet
from gputel.telemetry.store.tiers import GpuColumn, Tier

PAGE = Path(__file__).parents[3] / "docs" / "run-folder.md"
Row = tuple[int, list[int | None]]


def blocks(data: bytes) -> Iterator[tuple[int, int, tuple[int, int], bytes]]:
    """(flags, rows, (monotonic, wall), payload) of every good block."""
    at = data.find(b"GTB1")
    while at >= 0:
        if len(data) - at >= 52:
            version, flags, _, length = struct.unpack_from("<BBHI", data, at + 4)
            rows, monotonic, wall = struct.unpack_from("<Iqq", data, at + 20)
            (crc,) = struct.unpack_from("<I", data, at + 48)
            payload = data[at + 52 : at + 52 + length]
            if version == 1 and len(payload) == length and zlib.crc32(data[at : at + 48] + payload) == crc:
                yield flags, rows, (monotonic, wall), zlib.decompress(payload, -15) if flags & 1 else payload
                at += 52 + length - 1
        at = data.find(b"GTB1", at + 1)


def numbers(payload: bytes, at: int, width: int, count: int) -> list[int]:
    """A group stored rank by rank, zigzag undone."""
    found = []
    for n in range(count):
        u = sum(payload[at + rank * count + n] << 8 * rank for rank in range(width))
        found.append((u >> 1) ^ -(u & 1))
    return found


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def ticks(payload: bytes, flags: int, rows: int, columns: int) -> list[list[int | None]]:
    """All W columns of each row."""
    wide = columns + 2
    widths = payload[:wide]
    last = numbers(payload, wide, 8, wide)
    changes = [[0] * (rows - 1) for _ in range(wide)]
    at = wide * 9
    for width in (1, 2, 4, 8):
        chosen = [column for column in range(wide) if widths[column] == width]
        group = numbers(payload, at, width, len(chosen) * (rows - 1))
        at += width * len(group)
        for place, column in enumerate(chosen):
            changes[column] = group[place * (rows - 1) : (place + 1) * (rows - 1)]
    table: list[list[int | None]] = [list(last)]
    for row in range(rows - 1):
        last = [wrapped(value + changes[column][row]) for column, value in enumerate(last)]
        table.append(list(last))
    if flags & 8:
        for bit in range(rows * columns):
            if not payload[at + bit // 8] >> bit % 8 & 1:
                table[bit // columns][bit % columns + 2] = None
    return table


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """The schema, and (wall ns, readings) of every tick."""
    schema: dict[str, Any] = {}
    rows: list[Row] = []
    for flags, count, (_, wall), payload in blocks(path.read_bytes()):
        if flags & 2:
            schema = json.loads(payload)
        elif count:
            for i, (x, late_us, *readings) in enumerate(ticks(payload, flags, count, len(schema["columns"]))):
                assert x is not None
                assert late_us is not None
                rows.append((wall + x + i * schema["period_ns"] + 1000 * late_us, readings))
    return schema, rows


TIER = Tier(
    "fast",
    100.0,
    (
        GpuColumn("power_w", "W", 1000, "0"),
        GpuColumn("energy_j", "J", 1000, "0"),
        GpuColumn("ecc", None, 1, "1"),
    ),
)


@pytest.fixture
def recorded(tmp_path: Path, compose: Callable[..., None]) -> tuple[Path, list[Row]]:
    rows: list[Row] = []
    for n in range(240):
        readings = [70_000 + n * n % 977, 10**12 + n * 700, -(2**63) if n == 7 else n % 3]
        rows.append(
            (
                10**18 + n * SECOND // 90,
                [None if n % 50 == column else r for column, r in enumerate(readings)],
            )
        )
    compose(tmp_path / "gpu", [TIER], [(0, wall - 10**18, readings) for wall, readings in rows])
    return tmp_path / "gpu", rows


def test_journal_can_be_read_from_the_page_alone(recorded: tuple[Path, list[Row]]) -> None:
    folder, rows = recorded
    schema, found = read(folder / "fast-000001.gtb")
    assert [column["per_unit"] for column in schema["columns"]] == [1000, 1000, 1]
    assert found == rows


def test_damage_costs_the_block_it_is_in(recorded: tuple[Path, list[Row]]) -> None:
    folder, rows = recorded
    path = folder / "fast-000001.gtb"
    data = bytearray(path.read_bytes())
    starts = [match.start() for match in re.finditer(b"GTB1", data)]
    data[starts[3] + 60] ^= 16
    path.write_bytes(data)
    assert read(path)[1] == [row for row in rows if row[0] // SECOND != 10**9 + 1]


def test_compacted_part_can_be_read_from_the_page_alone(recorded: tuple[Path, list[Row]]) -> None:
    folder, rows = recorded
    parquet.compact(folder, everything=True)
    table = pl.read_parquet(folder / "fast-000001.parquet")
    assert table.columns[:5] == re.findall(r"`(anchor_ns|to_\w+|offset_ns|late_us)`", PAGE.read_text())[:5]
    time = table["anchor_ns"] + table["to_wall_ns"] + table["offset_ns"] + 1000 * table["late_us"]
    assert time.to_list() == [wall for wall, _ in rows]
    assert table.select("0.power_w", "0.energy_j", "1.ecc").rows() == [tuple(row) for _, row in rows]
    seconds = pl.read_parquet(folder / "seconds-000001.parquet")
    assert seconds.columns[:4] == ["second", "ticks", "0.power_w.min", "0.power_w.mean"]
    assert seconds["ticks"].to_list() == [90, 90, 60]


def test_page_names_every_reading_and_the_reader_agrees_with_ours(
    recorded: tuple[Path, list[Row]],
) -> None:
    from gputel.telemetry.readings import READINGS

    words = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    assert {reading.name for reading in READINGS} <= words
    folder, rows = recorded
    ours = frames.ticks(folder).filter(gpu="1")
    assert ours["time"].dt.epoch("ns").to_list() == [wall for wall, _ in rows]
    assert ours["ecc"].to_list() == [readings[2] for _, readings in rows]
