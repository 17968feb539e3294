"""How often a sensor refreshed, and energy in two ways, on waveforms whose answer is known beforehand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.report.gpu_totals import gpu_totals
from gputel.analysis.runs import sensors
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store.tiers import Tier, TierColumn

START = 10**18
Compose = Callable[..., None]


def polled(
    values: Callable[[np.ndarray], np.ndarray], hz: float, seconds: float, jitter_ms: float = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Poll stamps, and what a sensor showed at them."""
    chance = np.random.default_rng(7)
    times = np.arange(round(hz * seconds)) * 1e9 / hz + chance.uniform(
        0, jitter_ms * 1e6, round(hz * seconds)
    )
    return times.astype(np.int64) + START, values(times / 1e9)


def refreshing(every_s: float, seed: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    levels = np.random.default_rng(seed).integers(300_000, 700_000, 100_000)
    return lambda at: levels[(at // every_s).astype(int)] / 1000


@pytest.mark.parametrize("refresh_ms", [20, 100.2, 166, 1000])
@pytest.mark.parametrize("hz", [100, 77])
def test_period_of_a_sensor_is_found_whatever_the_polling(refresh_ms: float, hz: float) -> None:
    refresh = sensors.period(*polled(refreshing(refresh_ms / 1000), hz, 60))
    assert refresh is not None
    assert refresh.hz == pytest.approx(1000 / refresh_ms, rel=0.01)


def test_sensor_that_changes_at_every_poll_may_be_faster() -> None:
    slow = sensors.period(*polled(refreshing(0.1), 100, 30))
    fast = sensors.period(*polled(refreshing(0.001), 100, 30))
    assert slow is not None
    assert fast is not None
    assert (slow.every_poll, fast.every_poll) == (False, True)
    assert fast.hz <= 100.1


def test_period_of_100_ms_is_found_in_three_seconds() -> None:
    refresh = sensors.period(*polled(refreshing(0.1), 100, 3))
    assert refresh is not None
    assert refresh.hz == pytest.approx(10, rel=0.03)


@pytest.mark.parametrize(
    "values",
    [
        lambda at: np.full(len(at), 70.0),
        lambda at: (at > 17).astype(float),
        lambda at: np.searchsorted(np.cumsum(np.random.default_rng(3).exponential(0.7, 1000)), at),
    ],
    ids=["idle", "one change", "changes when it likes"],
)
def test_value_that_hardly_changes_is_indeterminate(values: Callable[[np.ndarray], np.ndarray]) -> None:
    assert sensors.period(*polled(values, 100, 60)) is None


def test_sensor_of_a_real_a100_refreshed_9_9_times_a_second(real_logs: Path) -> None:
    table = pl.read_csv(real_logs / "gpu" / "nvidia-smi-query-a100-13ms.csv", infer_schema=False)
    frame = table.select(
        pl.col("timestamp")
        .str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="ns", time_zone="UTC")
        .alias("time"),
        pl.lit("0").alias("gpu"),
        pl.col(" power.draw.instant [W]").str.strip_chars().cast(pl.Float64).alias("power_w"),
        pl.col(" pstate").alias("pstate"),
    )
    refreshes = sensors.refresh(frame)
    assert refreshes["0", "pstate"] is None
    power = refreshes["0", "power_w"]
    assert power is not None
    assert power.hz == pytest.approx(9.886, abs=0.01)


@given(
    st.lists(st.integers(50_000, 700_000), min_size=30, max_size=60),
    st.integers(0, 900),
    st.integers(1000, 1900),
)
def test_held_power_adds_up_to_the_exact_energy(levels: list[int], start_ms: int, end_ms: int) -> None:
    """The truth: each level lasts 100 ms, and is polled every 10."""
    times = START + np.arange(len(levels) * 10) * 10_000_000
    power = np.repeat(np.array(levels), 10) / 1000
    joules = sensors.integral(times, power, START + start_ms * 10**6, START + end_ms * 10**6)
    exact = sum(levels[ms // 100] / 1000 for ms in range(start_ms, end_ms)) / 1000
    assert joules == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("start_ms", "end_ms"), [(1_234, 8_765), (0, 9_990)])
def test_counter_is_interpolated_between_its_refreshes(start_ms: int, end_ms: int) -> None:
    """500 W, and a counter that moves every 100 ms: a plain difference would be off by up to 50 J."""
    at = np.arange(1000) * 0.01
    times, power = START + np.arange(1000) * 10_000_000, np.full(1000, 500.0)
    counter = np.floor(at * 10 + 1e-9) / 10 * 500 + 12_345
    start, end = (sensors.counter_at(times, counter, power, START + ms * 10**6) for ms in (start_ms, end_ms))
    assert start is not None
    assert end is not None
    assert end - start == pytest.approx(0.5 * (end_ms - start_ms), rel=1e-9)


def test_nothing_measured_is_none_not_zero() -> None:
    times, nothing = START + np.arange(10) * 10**7, np.full(10, np.nan)
    assert sensors.integral(times, nothing, START, START + 10**8) is None
    assert sensors.counter_at(times, nothing, nothing, START) is None
    assert sensors.difference(None, None) is None


FAST = Tier(
    "fast",
    100.0,
    (
        TierColumn("power_w", "W", 1000, "0"),
        TierColumn("energy_j", "J", 1000, "0"),
        TierColumn("throttle", None, 1, "0"),
        TierColumn("power_w", "W", 1000, "1"),
    ),
)
SLOW = Tier("slow", 1.0, (TierColumn("mem_used_mib", "MiB", 1024, "0"),))


def square_wave(seconds: float) -> list[tuple[int, int, list[int | None]]]:
    """100 and 500 W, a second each from 0.35 s on; the counter tells every 100 ms what was used until then."""
    recorded: list[tuple[int, int, list[int | None]]] = []
    for n in range(round(seconds * 100)):
        at = n / 100 + 0.35
        shown = int(at * 10 + 1e-6) / 10
        watts = 500 if int(at + 1e-6) % 2 else 100
        recorded.append(
            (0, n * 10_000_000, [watts * 1000, round(used(shown) * 1000), 0x20 if at > 10 else 1, None])
        )
        if n % 100 == 0:
            recorded.append((1, n * 10_000_000, [1024 * n]))
    return recorded


def used(at: float) -> float:
    whole, rest = divmod(at, 2)
    return whole * 600 + 100 * min(rest, 1) + 500 * max(rest - 1, 0)


@pytest.mark.parametrize("seal_after_s", [600, 5])
def test_account_of_a_recording(tmp_path: Path, compose: Compose, seal_after_s: int) -> None:
    compose(tmp_path / "gpu", [FAST, SLOW], square_wave(20), seal_after_s=seal_after_s)
    first, second = gpu_totals([Segment(tmp_path)])
    exact = used(0.35 + 19.99) - used(0.35)
    assert first.energy_counter_j == pytest.approx(exact, rel=1e-6)
    assert first.energy_integral_j == pytest.approx(exact, rel=2e-3)
    assert first.energy_difference == pytest.approx(0, abs=2e-3)
    assert first.power_mean_w == pytest.approx(exact / 19.99, rel=2e-3)
    assert first.power_peak_w == 500
    assert first.mem_peak_mib == 1900
    assert first.throttle_s == {"software thermal slowdown": 11}
    assert first.refresh_hz["energy_j"] == pytest.approx(10, rel=0.01)
    assert first.refresh_hz["power_w"] == pytest.approx(1, rel=0.01)
    assert second.gpu == "1"
    assert second.power_mean_w is None
    assert second.energy_integral_j is None


def test_segments_and_nodes_are_added_up(tmp_path: Path, compose: Compose) -> None:
    compose(tmp_path / "gpu", [FAST, SLOW], square_wave(6))
    compose(tmp_path / "segments" / "2" / "gpu", [FAST, SLOW], square_wave(4))
    rows = gpu_totals(
        [Segment(tmp_path), Segment(tmp_path / "segments" / "2", None, 2), Segment(tmp_path, "1")]
    )
    exact = used(6.34) + used(4.34) - 2 * used(0.35)
    assert [(row.node, row.gpu) for row in rows] == [(None, "0"), (None, "1"), ("1", "0"), ("1", "1")]
    assert rows[0].energy_counter_j == pytest.approx(exact, rel=1e-6)
    assert rows[0].measured_s == pytest.approx(10, abs=0.05)


def test_recording_without_gpus_has_an_empty_account(tmp_path: Path) -> None:
    assert gpu_totals([Segment(tmp_path)]) == []
