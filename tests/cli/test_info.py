import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gputel.analysis.logs import summary
from gputel.analysis.runs import read_run
from gputel.cli import group
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import output_index
from gputel.telemetry.store.tiers import Tier, TierColumn

TIER = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("temp_c", "°C", 1, "0")))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compose: Callable[..., None]) -> Path:
    """A run of two segments, ten seconds apart: 100 W, then 200 W, the temperature never measured."""
    monkeypatch.chdir(tmp_path)
    for number, watts in ((1, 100), (2, 200)):
        facts = {
            "run": "d16",
            "argv": ["python", "train.py"],
            "gpus": [{"gpu": "0", "name": "H100"}],
            "simulated": "1xH100",
            "started": {"wall_ns": 10**18 + 20 * number * SECOND},
            "ended": {"wall_ns": 10**18 + (20 * number + 10) * SECOND},
            "exit_code": 2 - number,
            "tags": {"lr": "3e-4"},
        }
        path = Path("runs/a")
        segment = run_folder.create(path, facts) if number == 1 else run_folder.add_segment(path, facts)
        (segment.path / "gpu").rmdir()
        compose(segment.gpu, [TIER], [(0, tick * SECOND // 10, [watts * 1000, None]) for tick in range(50)])
        events.append(segment.path, 10**18, "mark", "here")
        segment.output.write_bytes(b"x" * 2048)
        segment.index.write_bytes(output_index.pack(None, 2048))
    return Path("runs/a")


def info(*args: str) -> str:
    answer = CliRunner().invoke(group, ["info", *args], standalone_mode=False)
    assert answer.exception is None, answer.exception
    return answer.stdout


def test_json_tells_segments_downtime_and_what_was_measured(recorded: Path) -> None:
    held = json.loads(info(str(recorded), "--json"))
    assert (held["duration_s"], held["downtime_s"]) == (20.0, 10.0)
    assert [segment["exit_code"] for segment in held["segments"]] == [1, 0]
    assert [segment["events"] for segment in held["segments"]] == [{"mark": 1}, {"mark": 1}]
    assert held["telemetry"]["rows"] == 100
    assert held["telemetry"]["columns"] == {
        "power_w": {"unit": "W", "min": 100.0, "mean": 150.0, "max": 200.0}
    }


def test_people_read_first_that_it_was_simulated(recorded: Path) -> None:
    said = info("latest")
    assert said.startswith("SIMULATED: 1xH100; no real GPU data\nrun       d16\n")
    assert "tags      lr=3e-4" in said
    assert "downtime  10.0 s" in said
    assert "2.0 KiB" in said


def test_folder_without_telemetry_is_described_too(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "b", {"run": "b"})
    assert json.loads(info(str(tmp_path / "b"), "--json"))["telemetry"] is None
    assert "no end" in info(str(tmp_path / "b"))


def test_table_in_a_pipe_is_as_wide_as_it_must_be(recorded: Path) -> None:
    plain = {**os.environ, "NO_COLOR": "1"}
    answer = CliRunner().invoke(group, ["info", str(recorded)], env=plain, standalone_mode=False)
    assert re.search(
        r"^attempt +started +time +exit +output +telemetry +events$", answer.stdout, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("output", "said"), [(b"step 1\n", "a log was copied as it grew"), (b"", "only telemetry was recorded")]
)
def test_info_of_a_recording_without_a_command_says_what_was_recorded(
    tmp_path: Path, output: bytes, said: str
) -> None:
    segment = run_folder.create(tmp_path / "followed", {"run": "followed", "argv": []})
    segment.output.write_bytes(output)
    assert f"command  none: {said}\n" in info(str(tmp_path / "followed"))


@pytest.mark.filterwarnings("ignore::gputel.telemetry.errors.DamagedFile")
def test_info_of_a_run_whose_description_is_damaged_claims_nothing_about_its_command(recorded: Path) -> None:
    for described in recorded.rglob("run.json"):
        described.write_bytes(b"")
    shown = info(str(recorded))
    assert "command  unknown: run.json does not name it\n" in shown
    assert re.search(r"rows? of \d+ GPUs?$", shown, re.MULTILINE)


def test_start_of_a_run_is_the_same_in_info_and_parse(recorded: Path) -> None:
    log = read_run(recorded).log
    times = [json.loads(info(str(recorded), "--json"))["segments"][0]["started"], summary.run(log)["started"]]
    assert len(set(times)) == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", times[0])
