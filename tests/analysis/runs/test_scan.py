"""Many recordings as one table."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import gputel
from gputel.analysis.runs.scan import run_folders
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import BY_NAME, READINGS
from gputel.telemetry.store import parquet
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import clock
from tests.telemetry.host.machine import MachineRecording, write_process

Compose = Callable[..., None]
KINDS = {
    "l4": (1, ("power_w", "temp_c", "util", "fan")),
    "a100": (2, ("power_w", "energy_j", "temp_c", "temp_mem_c", "throttle", "ecc")),
    "h100": (8, ("power_w", "energy_j", "temp_c", "throttle", "nvlink_rx_mib_s", "sm_active")),
}


def tiers(gpus: int, names: tuple[str, ...]) -> list[Tier]:
    by_rate = {"fast": 10.0, "gpm": 5.0, "slow": 1.0}
    columns: dict[str, list[TierColumn]] = {}
    for gpu in range(gpus):
        for name in names:
            reading = BY_NAME[name]
            column = TierColumn(name, reading.unit, reading.per_unit, str(gpu))
            columns.setdefault(reading.pace.tier, []).append(column)
    return [Tier(name, by_rate[name], tuple(of_tier)) for name, of_tier in columns.items()]


@pytest.fixture
def runs(tmp_path: Path, compose: Compose) -> Path:
    """Three kinds of GPUs: one is compacted, one half, one not at all."""
    for number, (kind, (gpus, names)) in enumerate(KINDS.items()):
        facts = {"run": "all have one name", "simulated": f"{gpus}x{kind}", "started": clock(0)}
        segment = run_folder.create(tmp_path / "runs" / kind, facts)
        segment.gpu.rmdir()
        planned = tiers(gpus, names)
        rows = []
        for at in range(50):
            for place, tier in enumerate(planned):
                if at % round(10 / tier.hz) == 0:
                    counts = [1000 * number + at * n for n in range(len(tier.columns))]
                    rows.append((place, at * SECOND // 10, counts))
        compose(segment.gpu, planned, rows, seal_after_s=2)
        if number < 2:
            parquet.compact(segment.gpu, everything=number == 0)
    return tmp_path / "runs"


@pytest.mark.parametrize("seconds", [False, True])
def test_scan_of_three_kinds_of_gpus_equals_their_frames_one_by_one(runs: Path, seconds: bool) -> None:
    whole = gputel.scan(runs / "*", "gpu", seconds=seconds).collect()
    for kind, (gpus, _) in KINDS.items():
        run = gputel.open_run(runs / kind)
        expected = run.gpu_1s if seconds else run.gpu
        rows = whole.filter(run=str(runs / kind))
        assert_frame_equal(rows.select(expected.columns), expected)
        assert rows.drop(expected.columns).drop("run", "simulated").null_count().sum_horizontal().item() == (
            rows.drop(expected.columns).drop("run", "simulated").width * len(rows)
        )
        assert rows["simulated"].unique().to_list() == [f"{gpus}x{kind}"]
    assert len(whole) == sum(len(whole.filter(run=str(runs / kind))) for kind in KINDS)


def test_scan_has_the_declared_columns_whatever_was_recorded(runs: Path) -> None:
    schema = gputel.scan(runs / "l4").collect_schema()
    assert schema.names() == ["run", "node", "simulated", "time", "gpu", *(r.name for r in READINGS)]
    assert schema == gputel.scan([runs / "h100", runs / "a100"], "gpu").collect_schema()
    columns = gputel.scan(runs / "l4", seconds=True).collect_schema().names()
    assert [name for name in columns if name.startswith(("energy", "throttle"))] == [
        "energy_j_last",
        "energy_j",
        "throttle_any",
        "throttle_last",
    ]


def test_scan_reads_only_what_a_query_needs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    really = pl.read_parquet

    def noted(*args: object, columns: list[str], **options: object) -> pl.DataFrame:
        read.append(columns)
        return really(*args, columns=columns, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pl, "read_parquet", noted)
    means = gputel.scan(runs / "*").group_by("run").agg(pl.col("power_w").mean()).collect()
    assert means.height == 3
    readings = {name for columns in read for name in columns} & set(BY_NAME)
    assert readings == {"power_w"}


def test_rows_of_nodes_have_the_name_of_the_node(tmp_path: Path, compose: Compose) -> None:
    for node in ("0", "1"):
        segment = run_folder.create(tmp_path / "two", {"run": "two"}, node=node)
        segment.gpu.rmdir()
        compose(segment.gpu, tiers(1, ("power_w",)), [(0, 0, [5])])
    rows = gputel.scan(tmp_path / "two").select("node", "gpu", "power_w", "simulated").collect()
    assert rows.rows() == [("0", "0", 0.005, None), ("1", "0", 0.005, None)]


def test_pattern_without_a_run_and_unknown_table_are_refused(runs: Path) -> None:
    (runs / "notes.txt").write_text("no run")
    assert [path.name for path in run_folders([runs / "*"])] == ["a100", "h100", "l4"]
    assert run_folders([runs / "l4", runs / "l*"]) == [runs / "l4"]
    with pytest.raises(GputelError, match="no run is here"):
        gputel.scan(runs / "x*")
    with pytest.raises(GputelError, match="is not a table of a run folder"):
        gputel.scan(runs / "*", "cpu")


@pytest.fixture
def two_machines(tmp_path: Path) -> Path:
    """Two runs of three seconds, the second without its processes."""
    for name, command in (("a", 10), ("b", None)):
        run_folder.create(tmp_path / name / "run", {"run": name})
        recording = MachineRecording(tmp_path / name, command=command)
        write_process(recording.root, 10, 1)
        recording.run(30)
        recording.recorder.close()
    return tmp_path


def test_seconds_of_many_machines_are_one_table(two_machines: Path) -> None:
    rows = gputel.scan([two_machines / "*" / "run"], "disk", seconds=True).collect()
    assert rows.group_by("run", maintain_order=True).len()["len"].to_list() == [3, 3]
    assert set(rows["disk"]) == {"nvme0n1"}
    whole = gputel.scan([two_machines / "*" / "run"], "host", seconds=True)
    assert whole.select("run", "mem_total_mib").collect()["mem_total_mib"].to_list() == [15625.0] * 6


def test_ticks_of_many_machines_hold_counters(two_machines: Path) -> None:
    rows = gputel.scan([two_machines / "*" / "run"], "disk").select("disk", "reads_total").collect()
    assert rows.rows() == [("nvme0n1", 100)] * 60


def test_run_without_a_table_has_no_rows_of_it(two_machines: Path) -> None:
    for seconds in (True, False):
        rows = gputel.scan([two_machines / "*" / "run"], "process", seconds=seconds).collect()
        assert rows["run"].unique().to_list() == [str(two_machines / "a" / "run")]
