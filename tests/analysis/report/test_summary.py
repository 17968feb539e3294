"""The summary that ends a recording, and the contents that `gputel info` shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.analysis.report.summary import few, polled_hz, recording_summary, refreshed, run_contents
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store.tiers import GpuColumn, Tier
from tests.recordings.printed import clock

Compose = Callable[..., None]
H100 = {"gpu": "0", "name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}, "memory_total_mib": 81_559}


@pytest.fixture
def recorded(tmp_path: Path, compose: Compose) -> Path:
    """One GPU at 300 W, sampled ten times a second for 20 s, in a run of 30 s."""
    facts = {
        "run": "d12",
        "argv": ["python", "train.py"],
        "gpus": [H100],
        "started": clock(0),
        "ended": clock(30),
    }
    segment = run_folder.create(tmp_path / "d12", facts)
    segment.gpu.rmdir()
    tier = Tier("fast", 10.0, (GpuColumn("power_w", "W", 1000, "0"),))
    compose(segment.gpu, [tier], [(0, n * SECOND // 10, [300_000]) for n in range(200)])
    segment.output.write_text("step 1\n")
    return tmp_path / "d12"


def test_summary_has_duration_energy_and_the_gpus_name(recorded: Path) -> None:
    summary = recording_summary(recorded)
    assert (summary["run"], summary["duration_s"], summary["segments"]) == ("d12", 30, 1)
    assert summary["energy_j"] == pytest.approx(6000)
    (gpu,) = summary["gpus"]
    assert (gpu["name"], gpu["power_limit_w"]) == (H100["name"], 700)
    assert summary["output_bytes"] == len("step 1\n")
    assert summary["sampling"] is None  # the sampler left no statistics


def test_polled_rate_is_that_of_the_samples(recorded: Path) -> None:
    assert polled_hz([recorded / "gpu"]) == pytest.approx(10)
    assert polled_hz([]) is None


def test_contents_name_the_command_and_the_range_of_each_reading(recorded: Path) -> None:
    contents = run_contents(recorded)
    assert contents["argv"] == ["python", "train.py"]
    telemetry = contents["telemetry"]
    assert telemetry["rows"] == 200
    assert telemetry["columns"]["power_w"] == {"unit": "W", "min": 300, "mean": 300, "max": 300}
    assert contents["segments"][0]["output_bytes"] == len("step 1\n")


def test_lines_have_the_time_of_the_read_that_brought_them(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(9)})
    fill(segment, [line(0), "words\n", line(10), "step 10: train loss 4.8, val loss 4.9\n"], 1)
    log = gputel.parse(tmp_path / "d12")
    assert log.name == "d12"
    assert log.records["time"].to_list() == [moment(1), moment(3)]
    assert log.evals["time"].to_list() == [moment(4)] * 2
    assert (log.log.started, log.log.ended) == (START, START + 9 * SECOND)


def test_segments_follow_each_other_as_attempts(tmp_path: Path) -> None:
    first = run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(3)})
    fill(first, [line(0), line(10), line(20)], 0)
    second = run_folder.add_segment(
        tmp_path / "d12", {"run": "d12", "started": clock(10), "ended": clock(13)}
    )
    fill(second, [line(10), line(20), line(30)], 10)
    log = gputel.parse(tmp_path / "d12")
    assert log.log.places == [("train", 1), ("train", 2)]
    assert log.records.select("attempt", "step", "line").rows() == [
        (1, 0, 1), (1, 10, 2), (1, 20, 3), (2, 10, 4), (2, 20, 5), (2, 30, 6),
    ]  # fmt: skip
    assert log.steps["step"].to_list() == [0, 10, 20, 30]
    assert log.steps["attempt"].to_list() == [1, 2, 2, 2]
    assert log.log.lines == 6


def test_a_run_folder_without_an_end_is_running(tmp_path: Path) -> None:
    fill(run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0)}), [line(0)], 0)
    assert gputel.parse(tmp_path / "d12").status == "running"


def test_a_run_folder_without_output_is_empty_and_no_fault(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(1)})
    assert gputel.parse(tmp_path / "d12").is_empty


def test_a_log_that_somebody_still_writes_is_running(tmp_path: Path) -> None:
    """Also where another log was looked at a moment before, and nobody had this one open then."""
    path = tmp_path / "live.log"
    path.write_text(line(0))
    assert gputel.parse(path).status == "unknown"
    with path.open("w") as writer:
        writer.write(line(0))
        writer.flush()
        os.fsync(writer.fileno())
        assert gputel.parse(path).status == "running"
    assert gputel.parse(path).status == "unknown"
