"""Compaction: the same rows afterwards, from exactly one of two files, whatever happens in between."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store import blocks, frames, journal, parquet, parts, ticks
from gputel.telemetry.store.tiers import Tier, TierColumn

FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))


SLOW = Tier("slow", 1.0, (TierColumn("fan", "%", 1, "0"),))


Compose = Callable[..., None]


def record(folder: Path, compose: Compose, seconds: int = 12) -> None:
    rows = [(0, n * SECOND // 10, [n, None if n % 7 == 0 else -n]) for n in range(seconds * 10)]
    rows += [(1, n * SECOND, [n]) for n in range(seconds)]
    compose(folder, [FAST, SLOW], sorted(rows, key=lambda tick: tick[1]), seal_after_s=2)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_compaction_changes_no_row(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path, compose)
    before, seconds = frames.ticks(tmp_path), frames.seconds(tmp_path)
    parquet.compact(tmp_path, everything=True)
    assert all(name.endswith(".parquet") for name in names(tmp_path))
    assert frames.ticks(tmp_path).equals(before)
    assert frames.seconds(tmp_path).equals(seconds)
    assert frames.scan(tmp_path).collect().equals(before)


def test_part_that_is_being_written_is_left_alone(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path, compose)
    parquet.compact(tmp_path, everything=False)
    assert [name for name in names(tmp_path) if name.endswith(".gtb")] == [
        "fast-000006.gtb",
        "slow-000006.gtb",
    ]
    assert "seconds-000005.parquet" in names(tmp_path)


@pytest.mark.parametrize("left", ["fast-000002", "slow-000003"])
def test_journal_beside_the_file_that_stands_for_it_is_read_once_and_removed_later(
    tmp_path: Path, compose: Compose, left: str
) -> None:
    """A crash between making the one and removing the other."""
    record(tmp_path / "gpu", compose)
    before = frames.ticks(tmp_path / "gpu")
    shutil.copy(tmp_path / "gpu" / f"{left}.gtb", tmp_path)
    parquet.compact(tmp_path / "gpu", everything=True)
    shutil.copy(tmp_path / f"{left}.gtb", tmp_path / "gpu")
    assert frames.ticks(tmp_path / "gpu").equals(before)
    parquet.compact(tmp_path / "gpu", everything=False)
    assert f"{left}.gtb" not in names(tmp_path / "gpu")
    assert frames.ticks(tmp_path / "gpu").equals(before)


def test_tables_of_seconds_are_merged_eight_by_eight(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path, compose, seconds=2 * 70)
    seconds = frames.seconds(tmp_path)
    parquet.compact(tmp_path, everything=True)
    tables = [name for name in names(tmp_path) if name.startswith("seconds")]
    assert tables[0] == "seconds-000001-000064.parquet"
    assert len(tables) == 1 + 6
    assert frames.seconds(tmp_path).equals(seconds)


def test_file_left_behind_by_a_merge_is_not_counted_twice(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path / "gpu", compose, seconds=2 * 9)
    seconds = frames.seconds(tmp_path / "gpu")
    parquet.compact(tmp_path / "gpu", everything=True)
    merged = tmp_path / "gpu" / "seconds-000001-000008.parquet"
    shutil.copy(merged, tmp_path / "gpu" / "seconds-000003.parquet")
    assert frames.seconds(tmp_path / "gpu").equals(seconds)
    parquet.compact(tmp_path / "gpu", everything=False)
    assert "seconds-000003.parquet" not in names(tmp_path / "gpu")


def test_damage_is_reported_before_the_journal_is_removed(tmp_path: Path, compose: Compose) -> None:
    gpu = tmp_path / "gpu"
    record(gpu, compose, seconds=2)
    path = gpu / "fast-000001.gtb"
    data = bytearray(path.read_bytes())
    second = data.index(b"GTB1", data.index(b"GTB1", 10) + 1)
    data[second + 60] ^= 255
    path.write_bytes(data)
    parquet.compact(gpu, everything=True)
    (event,) = events.read(tmp_path)
    assert event["kind"] == "gap"
    assert str(event["text"]).startswith(f"gpu/fast-000001.gtb:{second}: ")
    assert frames.ticks(gpu).filter(gpu="0")["power_w"].to_list() == [n / 1000 for n in range(10, 20)]


def test_file_that_holds_nothing_readable_is_never_removed(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path, compose, seconds=2)
    (tmp_path / "fast-000002.gtb").write_bytes(b"not a journal, but not ours to throw away")
    parquet.compact(tmp_path, everything=True)
    assert "fast-000002.gtb" in names(tmp_path)
    assert frames.ticks(tmp_path).height == 40


KILLED = """
import os, sys
from pathlib import Path
from gputel.telemetry.store import parquet

calls = 0
def dying(name):
    real = getattr(os, name)
    def call(*args, **options):
        global calls
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), 9)
        calls += 1
        return real(*args, **options)
    setattr(os, name, call)

for name in ("replace", "rename", "unlink", "fsync"):
    dying(name)
parquet.compact(Path(sys.argv[1]), everything=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_kill_in_the_middle_of_compaction_costs_nothing(tmp_path: Path, compose: Compose, calls: int) -> None:
    record(tmp_path, compose, seconds=6)
    before, seconds = frames.ticks(tmp_path), frames.seconds(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(calls)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert frames.ticks(tmp_path).equals(before)
    assert frames.seconds(tmp_path).equals(seconds)
    parquet.compact(tmp_path, everything=True)
    assert frames.ticks(tmp_path).equals(before)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [".compact.lock"]
    assert parts.superseded(tmp_path) == []


VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 1000))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30))
def test_any_readings_survive_writing_and_compaction(
    tmp_path_factory: pytest.TempPathFactory, compose: Compose, rows: list[tuple[int | None, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("gpu")
    tier = Tier("fast", 10.0, (TierColumn("ecc", None, 1, "0"), TierColumn("pstate", None, 1, "0")))
    compose(folder, [tier], [(0, n * SECOND // 10, row) for n, row in enumerate(rows)], seal_after_s=1)
    assert frames.ticks(folder).select("ecc", "pstate").rows() == rows
    parquet.compact(folder, everything=True)
    assert frames.ticks(folder).select("ecc", "pstate").rows() == rows


def test_parquet_file_describes_itself(tmp_path: Path, compose: Compose) -> None:
    record(tmp_path, compose, seconds=2)
    parquet.compact(tmp_path, everything=True)
    facts = json.loads(pl.read_parquet_metadata(tmp_path / "fast-000001.parquet")["gputel"])
    assert len(facts.pop("crc32")) == 8
    assert facts == {
        "version": 2,
        "table": "gpu",
        "tier": "fast",
        "hz": 10.0,
        "gpus": ["0", "1"],
        "columns": [{"name": "power_w", "unit": "W", "per_unit": 1000}],
    }
    table = pl.read_parquet(tmp_path / "fast-000001.parquet")
    assert dict(table.schema) == {
        "second": pl.Datetime("us", "UTC"),
        "offset_us": pl.Int64,
        "late_us": pl.Int64,
        "to_monotonic_ns": pl.Int64,
        "to_boot_ns": pl.Int64,
        "gpu": pl.String,
        "power_w": pl.Float64,
    }
    assert table["gpu"].to_list() == ["0"] * 20 + ["1"] * 20


COUNTS = st.one_of(st.none(), st.integers(-(2**51), 2**51), st.integers(0, 100_000))


@given(st.lists(COUNTS, min_size=1, max_size=50), st.sampled_from([100, 1000, 1024, 2**20]))
def test_every_integer_of_the_driver_comes_back_from_units(counts: list[int | None], per_unit: int) -> None:
    """Up to 2^51: the energy counter of a GPU at 1 kW reaches that after 71 years."""
    values = np.array([[count or 0] for count in counts], np.int64)
    deadlines = np.arange(len(counts), dtype=np.int64) * SECOND
    valid = np.array([[count is not None] for count in counts])
    block = blocks.Ticks(Stamp(0, 0, 0), deadlines, deadlines * 0, values, valid)
    tier = Tier("fast", 1.0, (TierColumn("x", None, per_unit, "0"),))
    frame = ticks.from_journal(journal.Journal(Path(), tier, [block], []))
    assert [None if x is None else round(x * per_unit) for x in frame["x"]] == counts
