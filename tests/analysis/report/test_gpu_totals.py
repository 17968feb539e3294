"""Totals per GPU of a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gputel.analysis.report.gpu_totals import folder_totals, gpu_totals
from gputel.telemetry.clock import SECOND
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store.tiers import Tier, TierColumn

Compose = Callable[..., None]
COLUMNS = (
    TierColumn("power_w", "W", 1000, "0"),
    TierColumn("energy_j", "J", 1000, "0"),
    TierColumn("throttle", "", 1, "0"),
)
FAST = Tier("fast", 10.0, COLUMNS)
HW_SLOWDOWN = 0x8


def record(compose: Compose, folder: Path, seconds: int, throttle: int = 0) -> None:
    """200 W and a counter that agrees, sampled ten times a second."""
    ticks = [(0, n * SECOND // 10, [200_000, n * 20_000, throttle]) for n in range(10 * seconds)]
    compose(folder, [FAST], ticks)


def test_energy_by_counter_and_integral_agree(tmp_path: Path, compose: Compose) -> None:
    record(compose, tmp_path, 20)
    (row,) = folder_totals(tmp_path)
    assert row.power_mean_w == row.power_peak_w == 200
    assert row.measured_s == pytest.approx(20)
    assert row.energy_integral_j == pytest.approx(4000)
    assert row.energy_counter_j == pytest.approx(3980, abs=1)  # up to the last sample
    assert row.throttle_s == {}


def test_counter_of_a_gpu_that_joined_later_counts_from_its_first_sample(
    tmp_path: Path, compose: Compose
) -> None:
    lost = [(0, n * SECOND // 10, [None, None, None]) for n in range(25)]
    joined = [(0, n * SECOND // 10, [200_000, n * 20_000, 0]) for n in range(25, 100)]
    compose(tmp_path, [FAST], [*lost, *joined])
    (row,) = folder_totals(tmp_path)
    assert row.energy_counter_j == pytest.approx(7.4 * 200)


def test_utilization_is_the_mean_of_the_seconds_in_which_it_was_read(
    tmp_path: Path, compose: Compose
) -> None:
    tier = Tier("fast", 10.0, (COLUMNS[0], TierColumn("util", "%", 1, "0")))
    compose(tmp_path, [tier], [(0, n * SECOND // 10, [200_000, n // 50 * 40 or None]) for n in range(150)])
    (row,) = folder_totals(tmp_path, refresh=False)
    assert row.util_mean == pytest.approx(60)


def test_energy_is_the_same_without_rates_of_refresh(tmp_path: Path, compose: Compose) -> None:
    record(compose, tmp_path, 20)
    assert [replace(row, refresh_hz={}, every_poll=[]) for row in folder_totals(tmp_path)] == folder_totals(
        tmp_path, refresh=False
    )


def test_throttled_seconds_are_counted_by_reason(tmp_path: Path, compose: Compose) -> None:
    record(compose, tmp_path, 5, HW_SLOWDOWN)
    (row,) = folder_totals(tmp_path)
    assert list(row.throttle_s.values()) == [5]


@pytest.mark.parametrize("hz", [1.0, 0.1, 0.05, 0.02])
def test_recording_of_hours_at_a_slow_rate_has_no_gap_but_its_own(
    tmp_path: Path, compose: Compose, hz: float
) -> None:
    """300 W for two hours, throttled throughout, without a sample from 48 to 72 minutes."""
    every = round(1 / hz)
    times = [at for at in range(0, 7201, every) if not 2880 < at < 4320]
    ticks = [(0, at * SECOND, [300_000, 300_000 * at, HW_SLOWDOWN]) for at in times]
    compose(tmp_path, [replace(FAST, hz=hz)], ticks)
    (row,) = folder_totals(tmp_path)
    assert row.energy_counter_j == 300 * 7200
    gap = max(after - before for before, after in pairwise(times))
    assert row.unseen_j == pytest.approx(300 * gap)
    assert row.energy_difference == pytest.approx(0, abs=3 * every / 5760)
    assert list(row.throttle_s.values()) == [pytest.approx(7200 - gap, abs=3 * every)]


def test_segments_of_one_gpu_are_added(tmp_path: Path, compose: Compose) -> None:
    segments = [Segment(tmp_path / name, None, n) for n, name in enumerate(("a", "b"), start=1)]
    for segment, seconds in zip(segments, (10, 20), strict=True):
        record(compose, segment.gpu, seconds)
    (row,) = gpu_totals(segments)
    assert row.measured_s == pytest.approx(30)
    assert row.energy_integral_j == pytest.approx(6000)


def test_folder_without_samples_has_no_totals(tmp_path: Path) -> None:
    assert folder_totals(tmp_path) == []


def test_integral_ends_where_a_gpu_is_lost_and_agrees_with_its_counter(
    tmp_path: Path, compose: Compose
) -> None:
    """Readings stop 0.4 s into a second; that second is not counted as a whole."""
    values = [[200_000 + 1000 * (n % 2), n * 20_000, 0] if n < 54 else [None, None, None] for n in range(200)]
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, row) for n, row in enumerate(values)])
    (row,) = folder_totals(tmp_path)
    assert row.measured_s == pytest.approx(5.4)
    assert row.energy_integral_j == pytest.approx(5.4 * 200.5)
    assert row.energy_difference == pytest.approx(0, abs=0.03)
    assert row.covered == pytest.approx(5.4 / 20)


def test_integral_is_compared_with_the_counter_outside_of_a_gap(tmp_path: Path, compose: Compose) -> None:
    """The counter goes on in the gap, from 10 to 30 s; the integral does not."""
    ticks = [(0, n * SECOND // 10, [200_000 + 1000 * (n % 2), n * 20_000, 0]) for n in range(400)]
    compose(tmp_path, [FAST], [tick for tick in ticks if not 10 * SECOND <= tick[1] < 30 * SECOND])
    (row,) = folder_totals(tmp_path)
    assert row.energy_integral_j == pytest.approx(20 * 200.5, rel=1e-3)
    assert row.energy_counter_j == pytest.approx(7980, abs=30)
    assert row.energy_difference == pytest.approx(0, abs=0.02)
    assert row.covered == pytest.approx(0.5, abs=0.01)


def test_counter_that_is_read_once_a_second_is_compared_with_power_of_every_tick(
    tmp_path: Path, compose: Compose
) -> None:
    """The power differs from tick to tick, so no single reading stands for a second."""
    power = [200_000 + 100_000 * (n % 10 == 0) for n in range(400)]
    tiers = [Tier("fast", 10.0, COLUMNS[:1]), Tier("slow", 1.0, COLUMNS[1:2])]
    fast = [(0, n * SECOND // 10, [watts]) for n, watts in enumerate(power)]
    slow = [(1, n * SECOND, [n * 210_000]) for n in range(40)]
    compose(tmp_path, tiers, [*fast, *slow])
    (row,) = folder_totals(tmp_path)
    assert row.energy_integral_j == pytest.approx(40 * 210)
    assert row.unseen_j == pytest.approx(0, abs=1)


def test_few_rows_of_a_constant_power_have_no_difference(tmp_path: Path, compose: Compose) -> None:
    """Three rows: the integral holds the last one, of which the counter knows nothing yet."""
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, [300_000, n * 30_000, 0]) for n in range(3)])
    (row,) = folder_totals(tmp_path)
    assert (row.few_refreshes, row.energy_difference) == (True, None)


@pytest.mark.parametrize(("before", "after"), [(70_000, 690_000), (690_000, 70_000), (300_000, 300_000)])
def test_edges_of_a_short_run_explain_how_far_the_integral_is_from_the_counter(
    tmp_path: Path, compose: Compose, before: int, after: int
) -> None:
    """Ten refreshes a second, each the mean of the last 100 ms; the load begins after one of four seconds."""
    ticks = []
    for n in range(400):
        end = n // 10 * 100  # of the last refresh, in milliseconds
        energy = before * min(end, 1000) + after * max(end - 1000, 0)
        watts = (after if end > 1000 else before) + n // 10 % 2  # a sensor's last digit moves
        ticks.append((0, n * SECOND // 100, [watts, energy // 1000, 0]))
    compose(tmp_path, [replace(FAST, hz=100.0)], ticks)
    (row,) = folder_totals(tmp_path)
    assert row.energy_counter_j
    assert row.energy_difference is not None
    assert row.edges_j is not None
    apart, held = row.energy_difference * row.energy_counter_j, after / 1000 / 100
    assert apart == pytest.approx((before - after) / 1000 * 0.1 + held, abs=1)
    assert abs(apart) <= row.edges_j + 0.01
    assert row.edges_j == pytest.approx(abs(after - before) / 1000 * 0.2 + held, rel=0.05, abs=1)


def test_few_refreshes_have_no_difference(tmp_path: Path, compose: Compose) -> None:
    record(compose, tmp_path, 20)
    (row,) = folder_totals(tmp_path)
    assert replace(row, refresh_hz={"power_w": 1.0}, measured_s=5.0).energy_difference is None


def slow_counter(gap: range) -> tuple[list[Tier], list[tuple[int, int, list[int | None]]]]:
    """300 or 500 W by turns of a second; the counter is read once a second, and nothing within a gap (in ticks)."""
    tiers = [Tier("fast", 10.0, COLUMNS[:1]), Tier("slow", 1.0, COLUMNS[1:2])]
    ticks: list[tuple[int, int, list[int | None]]] = []
    for n in range(400):
        seconds, rest = divmod(n, 10)
        watts = 500_000 if seconds % 2 else 300_000
        energy = seconds // 2 * 800_000 + seconds % 2 * 300_000 + rest * watts // 10
        if n not in gap:
            ticks.append((0, n * SECOND // 10, [watts]))
            if n % 10 == 0 and n + 5 not in gap:
                ticks.append((1, n * SECOND // 10, [energy]))
    return tiers, ticks


def test_gap_beside_a_counter_that_is_read_rarely_does_not_count_for_more_than_it_is(
    tmp_path: Path, compose: Compose
) -> None:
    """The counter grew from the last read before the gap to the first after it, and the integral in part of it."""
    compose(tmp_path, *slow_counter(range(105, 126)))
    (row,) = folder_totals(tmp_path)
    assert row.unseen_j == pytest.approx(0.5 * 300 + 500 + 0.6 * 300, abs=20)
    assert row.energy_difference == pytest.approx(0, abs=0.005)


def test_counter_that_changes_at_each_of_its_rare_reads_has_an_unknown_lag(
    tmp_path: Path, compose: Compose
) -> None:
    """Read once a second, it may be refreshed as rarely: its end may lack a second."""
    compose(tmp_path, *slow_counter(range(0)))
    (row,) = folder_totals(tmp_path)
    assert "energy_j" in row.every_poll
    assert "power_w" not in row.every_poll
    assert row.edges_j is not None
    assert row.edges_j >= 500


def test_first_value_of_a_counter_after_a_gap_may_be_old(tmp_path: Path, compose: Compose) -> None:
    """Refreshed ten times a second, it lacked up to 100 ms there, and more than its range said."""
    values = [[400_000 + n // 10 % 2, n // 10 * 40_000, 0] for n in range(2000)]
    ticks = [(0, n * SECOND // 100, row) for n, row in enumerate(values) if not 501 <= n < 709]
    compose(tmp_path, [replace(FAST, hz=100.0)], ticks)
    (row,) = folder_totals(tmp_path)
    assert row.unseen_j == pytest.approx(2.08 * 400, abs=5)
    assert row.energy_difference == pytest.approx(0, abs=0.001)
