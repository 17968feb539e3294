"""`gputel export`: a recording as one wide table, for tools that know nothing of it."""

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.exports import recording
from gputel.analysis.logs import gpu_tables
from gputel.cli import main
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import parquet
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.telemetry.host.machine import MachineRecording

Compose = Callable[..., None]
FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))
MEDIUM = Tier("medium", 5.0, (TierColumn("temp_c", "°C", 1, "0"), TierColumn("fan", "%", 1, "0")))


@pytest.fixture
def recorded(tmp_path: Path, compose: Compose) -> Path:
    segment = run_folder.create(tmp_path / "run", {})
    ticks = [(0, n * SECOND // 10, [70_000 + n, None if n == 3 else n]) for n in range(40)]
    ticks += [(1, n * SECOND // 5, [50 + n, 30]) for n in range(20)]
    compose(segment.gpu, [FAST, MEDIUM], sorted(ticks, key=lambda tick: tick[1]), seal_after_s=2)
    return segment.path


def gputel(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_wide_table_has_a_row_a_tick_and_a_column_a_gpu_and_reading(recorded: Path, tmp_path: Path) -> None:
    assert (
        gputel("export", recorded, "--csv", tmp_path / "wide.csv", "--parquet", tmp_path / "wide.parquet")
        == 0
    )
    with (tmp_path / "wide.csv").open() as file:
        header, first, *rest = csv.reader(file)
    assert header == ["time", "gpu0_power_w", "gpu0_temp_c", "gpu0_fan", "gpu1_power_w"]
    assert first[0] == "2001-09-09T01:46:40.000000000Z"
    assert first[1:] in (["70.0", "50", "30", "0.0"], ["70.0", "", "", "0.0"])
    assert len(rest) == 39
    assert rest[2][4] == ""
    table = pl.read_parquet(tmp_path / "wide.parquet")
    assert table.schema["time"] == pl.Datetime("ns", "UTC")
    assert table["gpu0_power_w"].to_list() == [(70_000 + n) / 1000 for n in range(40)]
    assert table["gpu1_power_w"].to_list() == [None if n == 3 else n / 1000 for n in range(40)]


def test_first_users_layout_is_what_their_scripts_read(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "gpu_metrics.csv"
    assert gputel("export", recorded, "--csv", target, "--layout", "gpu_metrics") == 0
    lines = target.read_text().splitlines()
    assert lines[0] == "timestamp,elapsed_sec,gpu0_power_w,gpu0_temp_c,gpu1_power_w"
    assert lines[1].startswith("2001-09-09T01:46:40.000000Z,0.0,70.0,")
    assert lines[12].startswith("2001-09-09T01:46:41.100000Z,1.1,70.011,")
    again = gpu_tables.parse(target.read_bytes()).rows
    assert again.filter(gpu="0")["power_w"].to_list() == [(70_000 + n) / 1000 for n in range(40)]


def test_compacted_run_gives_the_same_table(recorded: Path, tmp_path: Path) -> None:
    gputel("export", recorded, "--csv", tmp_path / "before.csv")
    parquet.compact(recorded / "gpu", everything=True)
    gputel("export", recorded, "--csv", tmp_path / "after.csv")
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()


def test_nodes_have_rows_of_their_own(tmp_path: Path, compose: Compose) -> None:
    for node in ("0", "1"):
        segment = run_folder.create(tmp_path / "run", {}, node=node)
        compose(segment.gpu, [FAST], [(0, n * SECOND, [n, n]) for n in range(3)])
    assert gputel("export", tmp_path / "run", "--parquet", tmp_path / "wide.parquet") == 0
    table = pl.read_parquet(tmp_path / "wide.parquet")
    assert table.columns == ["time", "node", "gpu0_power_w", "gpu1_power_w"]
    assert table["node"].to_list() == ["0"] * 3 + ["1"] * 3


def test_file_that_exists_is_overwritten_only_if_gputel_wrote_it(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.parquet"
    theirs.write_text("measured for a month")
    assert gputel("export", recorded, "--csv", theirs) == 1
    assert (
        capsys.readouterr().err == f"error: {theirs}: is there already; choose another path, or --force it\n"
    )
    assert theirs.read_text() == "measured for a month"
    assert gputel("export", recorded, "--csv", theirs, "--force") == 0
    assert gputel("export", recorded, "--parquet", ours) == 0
    assert gputel("export", recorded, "--parquet", ours) == 0
    pl.DataFrame({"a": [1]}).write_parquet(ours)
    assert gputel("export", recorded, "--parquet", ours) == 1


def test_simulated_run_is_said_to_be_simulated(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder.update(recorded, simulated="2xH100")
    assert gputel("export", recorded, "--csv", tmp_path / "a.csv") == 0
    assert capsys.readouterr().err.endswith("; SIMULATED: 2xH100; no real GPU data\n")


def test_progress_counts_every_part(recorded: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    recording.to_csv(recorded, tmp_path / "a.csv", done=steps.append)
    assert sum(steps) == recording.steps(recorded) == 2


def test_run_without_telemetry_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder.create(tmp_path / "run", {})
    assert gputel("export", tmp_path / "run", "--csv", tmp_path / "a.csv") == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'run'}: no telemetry was recorded; see what it holds: gputel info\n"
    )


def test_place_that_cannot_be_written_is_one_line(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "table.csv"
    assert gputel("export", recorded, "--csv", target) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {target}: cannot be written: ")
    assert said.count("\n") == 1


def test_export_without_a_format_is_an_error(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gputel("export", recorded) == 2
    assert "nothing to write: name a file with --csv or --parquet" in capsys.readouterr().err


def test_table_of_the_machine_is_exported_a_row_a_second(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "made"})
    recording = MachineRecording(tmp_path)
    recording.run(30)
    recording.recorder.close()
    target = tmp_path / "disks.csv"
    assert gputel("export", tmp_path / "run", "--csv", target, "--table", "disk") == 0
    lines = target.read_text().splitlines()
    assert lines[0].startswith("time,disk,read_mib_s,write_mib_s")
    assert [line.split(",")[1] for line in lines[1:]] == ["nvme0n1"] * 3


def test_table_that_was_not_recorded_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder.create(tmp_path / "run", {"run": "made"})
    assert gputel("export", tmp_path / "run", "--csv", tmp_path / "x.csv", "--table", "host") == 1
    assert "no host was recorded" in capsys.readouterr().err
