"""The report that ends a recording, from run folders whose truth is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.report import summary
from gputel.analysis.report.summary import recording_summary
from gputel.cli import recorded as printed
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store.tiers import GpuColumn, Tier

COLUMNS = (
    GpuColumn("power_w", "W", 1000, "0"),
    GpuColumn("energy_j", "J", 1000, "0"),
    GpuColumn("temp_c", "°C", 1, "0"),
)
STATISTICS = {
    "ticks": 1000,
    "sampled_s": 10.0,
    "late": 3,
    "missed": 2,
    "lateness_us": {"p50": 50.0, "p99": 900.0, "max": 12_300.0},
    "inside_driver_s": {"fast": 0.05, "slow": 0.01},
    "cpu_s": 0.2,
    "resident_mib": 27.4,
    "lowered": [{"tier": "slow", "hz": 0.25, "planned_hz": 1.0}],
}
FACTS: dict[str, Any] = {
    "run": "d16",
    "simulated": None,
    "gpus": [{"gpu": "0", "name": "H100", "limits": {"power_w": 700}, "memory_total_mib": 81_559}],
    "sampling": {"hz": 100.0, "statistics": STATISTICS},
    "started": {"wall_ns": 10**18},
    "ended": {"wall_ns": 10**18 + 10 * SECOND},
    "exit_code": 0,
}


def ticks(watts: int, counter: bool) -> list[tuple[int, int, list[int | None]]]:
    """Ten seconds at 100 Hz: power refreshes every 100 ms around its mean, the counter agrees with the mean."""
    rows: list[tuple[int, int, list[int | None]]] = []
    for tick in range(1000):
        refresh = tick // 10
        power = 1000 * watts + (5000 if refresh % 2 else -5000)
        joules = 100 * watts * refresh if counter else None
        rows.append((0, tick * SECOND // 100, [power, joules, 60]))
    return rows


@pytest.fixture
def folder(tmp_path: Path, compose: Callable[..., None]) -> Callable[..., Path]:
    def make(*, counter: bool = True, **facts: Any) -> Path:
        segment = run_folder.create(tmp_path / "a", {**FACTS, **facts})
        compose(segment.gpu, [Tier("fast", 100.0, COLUMNS)], ticks(400, counter))
        segment.output.write_bytes(b"x" * 1536)
        return segment.path

    return make


def test_the_whole_report(folder: Callable[..., Path]) -> None:
    path = folder()
    events.append(path, 0, "mark", "x")
    told = recording_summary(path)
    assert printed.lines(told) == [
        "",
        "recorded 10.0 s; polled 100.0 Hz, at worst 12.3 ms late, 2 ticks missed",
        "GPU 0    400 W mean, 405 W peak, 3,995.9 J by counter, 4,000.0 J by integral (+0.1 %), 60 °C peak",
        "sensors  polled 100.0 Hz; refreshed: power 10.0 Hz, energy 10.0 Hz",
        "         indeterminate: temperature",
        "cost     2.0 % of a core, of it 0.60 % in the driver; 27.4 MiB resident; "
        "lowered to stay within --max-overhead: slow to 0.25 Hz",
        "events   1 mark",
        f"run      {path} (1.5 KiB of output, {told['gpu_bytes'] / 1024:.1f} KiB of telemetry)",
        f"next     gputel info {path}",
    ]


def test_the_rate_is_that_of_the_rows_that_are_there(tmp_path: Path, compose: Callable[..., None]) -> None:
    """After two seconds at 100 Hz the rate was lowered to 25; the ticks of the loop went on at 100."""
    segment = run_folder.create(tmp_path / "a", FACTS)
    kept = [row for n, row in enumerate(ticks(400, True)) if n <= 200 or n % 4 == 0]
    compose(segment.gpu, [Tier("fast", 100.0, COLUMNS)], kept)
    told = recording_summary(segment.path)
    assert told["sampling"]["polled_hz"] == pytest.approx((len(kept) - 1) / 9.96)
    said = printed.lines(told)
    assert said[1].startswith("recorded 10.0 s; polled 40.1 Hz of 100 asked for, at worst")
    assert said[3].startswith("sensors  polled 40.1 Hz;")


def test_without_a_counter_the_integral_stands_alone(folder: Callable[..., Path]) -> None:
    told = recording_summary(folder(counter=False))
    assert told["gpus"][0]["energy_counter_j"] is None
    assert "4,000.0 J by integral (no counter)" in printed.lines(told)[2]
    assert told["energy_j"] == pytest.approx(4000, rel=0.01)


def test_a_recording_of_few_refreshes_compares_nothing(folder: Callable[..., Path]) -> None:
    told = recording_summary(folder())
    (gpu,) = told["gpus"]
    gpu["few_refreshes"] = summary.few({**gpu, "measured_s": 0.9})
    assert "by integral (too short to compare)" in printed.lines(told)[2]


def test_a_simulated_recording_says_so_first(folder: Callable[..., Path]) -> None:
    assert printed.lines(recording_summary(folder(simulated="1xH100")))[1] == (
        "SIMULATED: 1xH100; no real GPU data"
    )


def test_segments_are_added_up_and_downtime_is_told(
    folder: Callable[..., Path], compose: Callable[..., None]
) -> None:
    path = folder()
    later = {"started": {"wall_ns": 10**18 + 15 * SECOND}, "ended": {"wall_ns": 10**18 + 25 * SECOND}}
    segment = run_folder.add_segment(path, {**FACTS, **later, "exit_code": 3})
    compose(segment.gpu, [Tier("fast", 100.0, COLUMNS)], ticks(200, True))
    told = recording_summary(path)
    assert (told["duration_s"], told["downtime_s"], told["exit_code"]) == (20.0, 5.0, 3)
    assert told["energy_j"] == pytest.approx(6000, rel=0.01)
    assert told["gpus"][0]["power_mean_w"] == pytest.approx(300, rel=0.01)
    assert printed.lines(told)[1].startswith("recorded 20.0 s in 2 segments, down 5.0 s between them; polled")


def test_without_a_gpu_there_is_still_a_report(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "a", {**FACTS, "gpus": [], "sampling": None})
    told = recording_summary(segment.path)
    assert told["energy_j"] is None
    assert printed.lines(told) == [
        "",
        "recorded 10.0 s; no GPU was sampled",
        f"run      {segment.path} (0 B of telemetry)",
        f"next     gputel info {segment.path}",
    ]
