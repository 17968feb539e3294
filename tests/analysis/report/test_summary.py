"""The summary that ends a recording, and the contents that `gputel info` shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputel.analysis.report.summary import (
    polled_hz,
    recording_summary,
    refreshed,
    run_contents,
)
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.completeness import not_sampled
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.process import output_index
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import clock

Compose = Callable[..., None]
H100 = {"gpu": "0", "name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}, "memory_total_mib": 81_559}
STATISTICS = {
    "ticks": 200,
    "late": 0,
    "not_kept": {},
    "missed": 0,
    "sampled_s": 20.0,
    "cpu_s": 0.1,
    "inside_driver_s": {"power_w": 0.01},
    "lateness_us": {"max": 100},
    "resident_mib": 27.0,
    "lowered": [],
    "tiers": {"fast": {"rows": 200, "minutes": [[0, 10.0]]}},
}


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
    tier = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"),))
    compose(segment.gpu, [tier], [(0, n * SECOND // 10, [300_000]) for n in range(200)])
    segment.output.write_text("step 1\n")
    segment.index.write_bytes(output_index.pack(None, 7))
    return tmp_path / "d12"


def test_summary_has_duration_energy_and_the_gpus_name(recorded: Path) -> None:
    summary = recording_summary(recorded)
    assert (summary.run, summary.duration_s, summary.segments) == ("d12", 30, 1)
    assert summary.energy_j == pytest.approx(6000)
    (gpu,) = summary.gpus
    assert (gpu.name, gpu.power_limit_w) == (H100["name"], 700)
    assert summary.output_bytes == len("step 1\n")
    assert summary.sampling is None  # the sampler left no statistics


def test_polled_rate_is_that_of_the_samples(recorded: Path) -> None:
    assert polled_hz([recorded / "gpu"]) == pytest.approx(10)
    assert polled_hz([]) is None


def test_contents_name_the_command_and_the_range_of_each_reading(recorded: Path) -> None:
    contents = run_contents(recorded)
    assert contents.argv == ["python", "train.py"]
    telemetry = contents.telemetry
    assert telemetry is not None
    assert telemetry.rows == 200
    assert telemetry.columns["power_w"] == {"unit": "W", "min": 300, "mean": 300, "max": 300}
    assert contents.segments[0].output_bytes == len("step 1\n")


def test_few_refreshes_are_flagged(recorded: Path) -> None:
    (gpu,) = recording_summary(recorded).gpus
    assert replace(gpu, refresh_hz={"power_w": 1.0}, measured_s=5.0).few_refreshes
    assert not replace(gpu, refresh_hz={"power_w": 10.0}, measured_s=5.0).few_refreshes
    assert replace(gpu, refresh_hz={}, measured_s=5.0).few_refreshes
    assert not replace(gpu, refresh_hz={}, measured_s=50.0).few_refreshes


def test_refresh_rates_keep_a_reading_with_too_few_changes(recorded: Path) -> None:
    (gpu,) = recording_summary(recorded).gpus
    rates = {"power_w": 10.0, "util": None, "fan": 1.0}
    assert refreshed(replace(gpu, refresh_hz=rates)) == {"power_w": 10.0, "util": None}


def test_json_has_a_row_per_gpu_with_its_name_and_both_energies(recorded: Path) -> None:
    answer = recording_summary(recorded).as_json()
    (gpu,) = answer["gpus"]
    assert list(answer)[:3] == ["run", "path", "simulated"]
    assert (gpu["node"], gpu["gpu"], gpu["name"], gpu["few_refreshes"]) == (None, "0", H100["name"], False)
    assert (gpu["energy_counter_j"], gpu["energy_integral_j"]) == (None, pytest.approx(6000))


def test_gpu_that_is_lost_at_the_end_is_not_sampled_and_one_that_came_back_is(tmp_path: Path) -> None:
    for wall, (kind, gpu) in enumerate([("gpu_lost", "0"), ("gpu_lost", "1"), ("gpu_back", "0")]):
        events.append(tmp_path, wall, kind, f"GPU {gpu}: {kind}", gpu=gpu)
    assert not_sampled(tmp_path) == ["GPU 1: gpu_lost"]
    events.append(tmp_path, 9, "no_telemetry", "no driver")
    assert not_sampled(tmp_path) == ["GPU 1: gpu_lost", "no driver"]


def test_gpu_of_two_segments_is_one_gpu(recorded: Path) -> None:
    run_folder.add_segment(recorded, {"run": "d12", "gpus": [H100], "started": clock(40), "ended": clock(50)})
    assert run_contents(recorded).gpus == [H100]


@pytest.mark.parametrize(
    "changed",
    [{"lateness_us": None}, {"ticks": "x"}, {"lowered": [1]}, {"tiers": {"fast": []}}, {"cpu_s": {}}, []],
    ids=str,
)
def test_sampling_of_wrong_types_is_left_out_and_named(recorded: Path, changed: object) -> None:
    statistics = {**STATISTICS, **changed} if isinstance(changed, dict) else [1]
    run_folder.update(recorded, sampling={"hz": 10, "statistics": statistics})
    with pytest.warns(DamagedFile, match="sampling"):
        assert recording_summary(recorded).sampling is None


def test_sampling_of_whole_statistics_is_summarized(recorded: Path) -> None:
    run_folder.update(recorded, sampling={"hz": 10, "statistics": STATISTICS})
    sampling = recording_summary(recorded).sampling
    assert sampling is not None
    assert (sampling.asked_hz, sampling.ticks, sampling.tiers[0].rows) == (10, 200, 200)
