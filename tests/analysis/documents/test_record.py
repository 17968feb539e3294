"""What is printed when a recording ends, from run folders whose truth is known."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.document import FactList
from gputel.analysis.documents.record import info_document, record_document
from gputel.analysis.documents.report import report_document
from gputel.analysis.report.run_report import make_report
from gputel.analysis.report.summary import RecordingSummary, recording_summary, run_contents
from gputel.analysis.runs import read_run
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store.tiers import Tier, TierColumn

COLUMNS = (
    TierColumn("power_w", "W", 1000, "0"),
    TierColumn("energy_j", "J", 1000, "0"),
    TierColumn("temp_c", "°C", 1, "0"),
)
STATISTICS = {
    "ticks": 1000,
    "sampled_s": 9.99,
    "late": 3,
    "missed": 2,
    "not_kept": {},
    "lateness_us": {"p50": 50.0, "p99": 900.0, "max": 12_300.0},
    "inside_driver_s": {"fast": 0.05, "slow": 0.01},
    "cpu_s": 0.2,
    "resident_mib": 27.4,
    "lowered": [
        {"tier": "slow", "hz": 0.25, "planned_hz": 1.0},
        {"readings": ["util", "mem_util"], "hz": 10.0, "planned_hz": 100.0},
    ],
    "tiers": {
        "fast": {"rows": 1000, "minutes": [[0, 100.0], [3, 12.5], [5, 100.0]]},
        "slow": {"rows": 10, "minutes": [[0, 1.0]]},
    },
    "startup": {"sampled_s": 1.0, "cpu_s": 0.11},
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


def facts(summary: RecordingSummary) -> dict[str, str]:
    (section,) = record_document(summary).sections
    (item,) = section.items
    assert isinstance(item, FactList)
    return item.known()


def test_summary_says_rate_energy_sensors_overhead_and_sizes(folder: Callable[..., Path]) -> None:
    path = folder()
    events.append(path, 0, "mark", "x")
    summary = recording_summary(path)
    assert facts(summary) == {
        "recorded": "10.0 s; polled 100.0 Hz, at most 12.3 ms late, 2 ticks missed",
        "GPU 0": "400 W mean, 405 W peak, 3,995.9 J by counter, 4,000.0 J by integral (+0.1 %), 60 °C peak",
        "sensors": "refreshed: power 10.0 Hz, energy 10.0 Hz\ntoo few changes to tell: temperature",
        "rows": "fast 1,000, 100.0 Hz; 100 Hz at first, 12.5 Hz from minute 4, 100 Hz from minute 6\nslow 10",
        "overhead": "1.0 % of a core, 0.60 % of the time in calls into the driver, "
        "after 0.11 s of CPU to start; 27.4 MiB resident; "
        "lowered to stay within --max-overhead: slow to 0.25 Hz, util and mem_util to 10 Hz",
        "events": "1 x mark",
        "run": f"{path} (1.5 KiB of output, {summary.telemetry_bytes / 1024:.1f} KiB of telemetry)",
    }
    assert record_document(summary).next == f"gputel report {path}"


def test_recording_of_less_than_a_second_has_the_cost_of_its_start_and_no_share_of_a_core(
    folder: Callable[..., Path],
) -> None:
    short = {**STATISTICS, "sampled_s": 0.4, "ticks": 41, "cpu_s": 0.21, "startup": None, "lowered": []}
    short["tiers"] = {"fast": {"rows": 41, "minutes": []}, "slow": {"rows": 1, "minutes": []}}
    shown = facts(recording_summary(folder(sampling={"hz": 100.0, "statistics": short})))
    assert shown["overhead"] == (
        "0.21 s of CPU to start, 15.00 % of the time in calls into the driver; 27.4 MiB resident"
    )
    assert shown["rows"] == "fast 41\nslow 1"


def test_rows_that_the_disk_did_not_take_are_no_rows(folder: Callable[..., Path]) -> None:
    statistics = {**STATISTICS, "not_kept": {"fast": 200, "slow": 2}}
    shown = facts(recording_summary(folder(sampling={"hz": 100.0, "statistics": statistics})))
    assert shown["recorded"].endswith(", 202 rows not kept, as the disk was full or too slow")
    assert shown["rows"].splitlines()[0].startswith("fast 800, 80.0 Hz; ")


def test_recording_that_ended_before_its_first_sample_has_no_cost(folder: Callable[..., Path]) -> None:
    none = {**STATISTICS, "sampled_s": 0.0, "ticks": 0, "startup": None, "inside_driver_s": {}, "tiers": {}}
    none["lateness_us"] = {"p50": None, "p99": None, "max": None}
    assert "overhead" not in facts(recording_summary(folder(sampling={"hz": 100.0, "statistics": none})))


def test_polling_rate_counts_the_rows_that_are_there(tmp_path: Path, compose: Callable[..., None]) -> None:
    """After two seconds at 100 Hz the rate was lowered to 25; the ticks of the loop went on at 100."""
    segment = run_folder.create(tmp_path / "a", FACTS)
    rows = [row for n, row in enumerate(ticks(400, True)) if n <= 200 or n % 4 == 0]
    compose(segment.gpu, [Tier("fast", 100.0, COLUMNS)], rows)
    summary = recording_summary(segment.path)
    assert summary.sampling
    assert summary.sampling.polled_hz == pytest.approx((len(rows) - 1) / 9.96)
    assert facts(summary)["recorded"].startswith("10.0 s; polled 40.1 Hz of 100 asked for, at most")


def test_integral_stands_alone_without_a_counter(folder: Callable[..., Path]) -> None:
    summary = recording_summary(folder(counter=False))
    assert summary.gpus[0].energy_counter_j is None
    assert "4,000.0 J by integral (no counter)" in facts(summary)["GPU 0"]
    assert summary.energy_j == pytest.approx(4000, rel=0.01)


def test_energies_of_few_refreshes_are_not_compared(folder: Callable[..., Path]) -> None:
    summary = recording_summary(folder())
    short = replace(summary, gpus=[replace(summary.gpus[0], measured_s=0.9)])
    assert "by integral (too short to compare)" in facts(short)["GPU 0"]


def test_difference_of_energies_carries_its_range(folder: Callable[..., Path]) -> None:
    summary = recording_summary(folder())
    rising = replace(summary, gpus=[replace(summary.gpus[0], edges_j=60.0)])
    assert "4,000.0 J by integral (+0.1 ±1.5 %)" in facts(rising)["GPU 0"]


def test_energies_are_not_compared_with_a_counter_that_stood_still(folder: Callable[..., Path]) -> None:
    summary = recording_summary(folder())
    still = replace(summary, gpus=[replace(summary.gpus[0], energy_counter_j=0.0)])
    assert "0.0 J by counter, 4,000.0 J by integral, 60 °C peak" in facts(still)["GPU 0"]


def test_simulated_recording_carries_its_caution(folder: Callable[..., Path]) -> None:
    summary = recording_summary(folder(simulated="1xH100"))
    assert record_document(summary).caution == "SIMULATED: 1xH100; no real GPU data"


def test_segments_are_added_up_and_their_downtime_is_named(
    folder: Callable[..., Path], compose: Callable[..., None]
) -> None:
    path = folder()
    later = {"started": {"wall_ns": 10**18 + 15 * SECOND}, "ended": {"wall_ns": 10**18 + 25 * SECOND}}
    segment = run_folder.add_segment(path, {**FACTS, **later, "exit_code": 3})
    compose(segment.gpu, [Tier("fast", 100.0, COLUMNS)], ticks(200, True))
    summary = recording_summary(path)
    assert (summary.duration_s, summary.downtime_s, summary.exit_code) == (20.0, 5.0, 3)
    assert summary.energy_j == pytest.approx(6000, rel=0.01)
    assert summary.gpus[0].power_mean_w == pytest.approx(300, rel=0.01)
    assert facts(summary)["recorded"].startswith(
        "20.0 s in 2 segments, with 5.0 s downtime between them; polled"
    )


def test_next_commands_can_be_copied_where_the_path_has_spaces(tmp_path: Path) -> None:
    path = run_folder.create(tmp_path / "my runs" / "a", {**FACTS, "gpus": [], "sampling": None}).path
    assert shlex.split(record_document(recording_summary(path)).next) == ["gputel", "report", str(path)]
    following = info_document(run_contents(path)).next
    assert shlex.split(following)[-3:] == ["gputel", "parse", str(path)]
    assert report_document(make_report(read_run(path))).next == f"gputel info '{path}'"


def test_recording_without_a_gpu_has_a_summary(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "a", {**FACTS, "gpus": [], "sampling": None})
    summary = recording_summary(segment.path)
    assert summary.energy_j is None
    assert facts(summary) == {
        "recorded": "10.0 s; no GPU was sampled",
        "run": f"{segment.path} (0 B of telemetry)",
    }
