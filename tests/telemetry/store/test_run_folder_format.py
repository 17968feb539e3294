"""docs/run-folder.md is enough: its reader, in a process without gputel, reads what gputel writes."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.readings import READINGS
from gputel.telemetry.store import frames, parquet, parts
from gputel.telemetry.store.tiers import Tier, TierColumn

PAGE = (Path(__file__).parents[3] / "docs" / "run-folder.md").read_text()
READER = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
ALONE = "import sys; sys.modules['gputel'] = None; exec(sys.stdin.read())"
Value = tuple[int, str, str, float | None]


def read(folder: Path, tier: str = "fast") -> list[Value]:
    """What the page's reader prints, in the order of time."""
    command = [sys.executable, "-I", "-c", ALONE, str(folder), tier]
    answer = subprocess.run(command, input=READER, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    cells = (line.split("\t") for line in answer.stdout.splitlines())
    return sorted(
        (int(time), gpu, name, None if value == "None" else float(value)) for time, gpu, name, value in cells
    )


def measured(frame: pl.DataFrame) -> list[Value]:
    """The same of our frame, without readings that a GPU lacks."""
    timed = frame.with_columns(pl.col("time").dt.epoch("us"), pl.exclude("time", "gpu").cast(pl.Float64))
    values = timed.unpivot(index=["time", "gpu"]).sort("time", "gpu", "variable")
    return [(time, gpu, name, value) for time, gpu, name, value in values.rows()]


def without_nulls(values: list[Value]) -> list[Value]:
    """Journals list what a GPU has, Parquet all columns: they differ in nulls alone."""
    return [value for value in values if value[3] is not None]


TIER = Tier(
    "fast",
    100.0,
    (
        TierColumn("power_w", "W", 1000, "0"),
        TierColumn("energy_j", "J", 1000, "0"),
        TierColumn("ecc", None, 1, "1"),
    ),
)


@pytest.fixture
def folder(tmp_path: Path, compose: Callable[..., None]) -> Path:
    """Nulls, jumps to both ends of 64 bits, times between microseconds."""
    rows = []
    for n in range(240):
        readings = [70_000 + n * n % 977, 10**12 + n * 700, -(2**63) if n == 7 else n % 3]
        nulled = [None if n % 50 == column else reading for column, reading in enumerate(readings)]
        rows.append((0, n * SECOND // 90, nulled))
    compose(tmp_path / "gpu", [TIER], rows)
    return tmp_path / "gpu"


def test_reader_is_short() -> None:
    assert len(READER.splitlines()) <= 45


def test_journals_and_parquet_are_read_by_the_page_alone_and_agree(folder: Path) -> None:
    expected = without_nulls(measured(frames.ticks(folder)))
    journals = read(folder)
    assert sum(value is None for *_, value in journals) == 15
    assert without_nulls(journals) == expected
    assert len(expected) == 3 * 240 - 15
    parquet.compact(folder, everything=True)
    assert without_nulls(read(folder)) == expected


def test_damaged_block_of_a_journal_costs_that_block(folder: Path) -> None:
    whole = read(folder)
    path = folder / "fast-000001.gtb"
    data = bytearray(path.read_bytes())
    starts = [match.start() for match in re.finditer(b"GTB1", data)]
    data[starts[3] + 60] ^= 16
    path.write_bytes(data)
    assert read(folder) == [value for value in whole if value[0] // 10**6 != 10**9 + 1]


def test_table_of_seconds_has_the_columns_on_the_page(folder: Path) -> None:
    parquet.compact(folder, everything=True)
    seconds = pl.read_parquet(folder / "seconds-000001.parquet")
    assert seconds.columns == [
        *("time", "gpu", "ticks", "power_w_min", "power_w_mean", "power_w_max"),
        *("energy_j_first", "energy_j_last", "ecc_min", "ecc_mean", "ecc_max"),
    ]
    assert seconds["ticks"].to_list() == [90, 90, 60] * 2
    assert seconds["gpu"].to_list() == ["0"] * 3 + ["1"] * 3
    listed = set(re.findall(r"`<?(\w+)>?(?:_min)?`", PAGE))
    assert {"time", "gpu", "ticks", "energy_j_first", "energy_j_last"} <= listed


def test_page_names_every_column(folder: Path) -> None:
    parquet.compact(folder, everything=True)
    words = set(re.findall(r"`(\w+)`", PAGE))
    assert {reading.name for reading in READINGS} <= words
    assert set(pl.read_parquet_schema(folder / "fast-000001.parquet")) <= words


@pytest.mark.long
def test_real_recording_is_read_by_the_page_alone_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    run, snapshot = tmp_path / "run", tmp_path / "snapshot"
    names = [sys.executable, "-m", "gputel", "record", "--simulate", "2xH100", "--out", str(run), "--"]
    journal = run / "gpu" / "fast-000001.gtb"
    copied = (
        f"until [ $(cat {journal} 2>/dev/null | wc -c) -gt 9000 ]; do sleep 0.1; done; "
        f"cp -r {run}/gpu {snapshot}"
    )
    subprocess.run([*names, "sh", "-c", copied], env={**os.environ}, check=True, capture_output=True)
    assert {part.compacted for part in parts.current(snapshot)} == {False}
    assert {part.compacted for part in parts.current(run / "gpu")} == {True}
    for folder in (snapshot, run / "gpu"):
        for tier in ("fast", "gpm", "slow"):
            others = [path for path in folder.glob("*-*") if not path.name.startswith(f"{tier}-")]
            alone = tmp_path / f"{folder.name}-{tier}"
            shutil.copytree(folder, alone, ignore=lambda _, names, others=others: [p.name for p in others])
            values = without_nulls(read(alone, tier))
            assert values == without_nulls(measured(frames.ticks(alone)))
            assert len(values) > 2
    assert set(without_nulls(read(snapshot))) <= set(without_nulls(read(run / "gpu")))
