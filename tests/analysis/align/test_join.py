"""What a span cost: the fast join against a slow one that adds up every tick by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.align.join import measured, with_gpus
from gputel.analysis.align.samples import of_table

START = 1_772_359_200_000_000_000  # 1 March 2026, 10:00:00
SECOND = 1_000_000_000
MOMENT = pl.Datetime("ns", "UTC")

Tick = tuple[int, float | None]
Window = tuple[int, int]


def frame_of(ticks: dict[str, list[Tick]], name: str = "power_w") -> pl.DataFrame:
    """Ticks of several GPUs; moments are ns since the start."""
    rows = [(START + at, gpu, value) for gpu, own in ticks.items() for at, value in own]
    times, gpus, values = zip(*rows, strict=True)
    series = (pl.Series("time", times, MOMENT), pl.Series("gpu", gpus), pl.Series(name, values, pl.Float64))
    frame = pl.DataFrame(series)
    return frame.sort("time", maintain_order=True)


def spans_of(windows: Sequence[Window]) -> pl.DataFrame:
    rows = [("train", 1, START + start, START + stop) for start, stop in windows]
    return pl.DataFrame(
        rows, schema={"kind": pl.String, "steps": pl.Int64, "start": MOMENT, "end": MOMENT}, orient="row"
    )


def cost(
    ticks: dict[str, list[Tick]], windows: Sequence[Window], name: str = "power_w"
) -> list[dict[str, Any]]:
    return measured(spans_of(windows), frame_of(ticks, name)).to_dicts()


def held(ticks: list[Tick]) -> list[tuple[int, int, float | None]]:
    """From, to, value: a tick holds until the next, but before a hole, and at the end, for a usual poll."""
    gaps = [after[0] - before[0] for before, after in pairwise(ticks)]
    known = [gap for gap in gaps if gap > 0]
    usual = int(median(known)) if known else 0
    hole = max(10 * usual, SECOND)
    ends = [at + (gap if gap <= hole else usual) for (at, _), gap in zip(ticks, gaps, strict=False)]
    return [(at, end, value) for (at, value), end in zip(ticks, [*ends, ticks[-1][0] + usual], strict=True)]


def by_hand(holds: list[tuple[int, int, float | None]], window: Window) -> tuple[float | None, float | None]:
    """Joules of one GPU in one window, and the largest value that was polled in it or held in it."""
    known = [(start, end, value) for start, end, value in holds if value is not None]
    widths = [(min(end, window[1]) - max(start, window[0]), value) for start, end, value in known]
    joules = [width * value for width, value in widths if width > 0]
    seen = [value for start, _, value in known if window[0] <= start < window[1]]
    seen += [value for width, value in widths if width > 0]
    return math.fsum(joules) / 1e9 if joules else None, max(seen, default=None)


def total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


watts = st.one_of(st.none(), st.integers(60_000, 900_000).map(lambda mw: mw / 1000))
gaps = st.one_of(st.integers(1, 30_000_000), st.integers(1, 3 * SECOND))
polls = st.lists(st.tuples(gaps, watts), min_size=1, max_size=30)
edges = st.lists(st.integers(-SECOND, 20 * SECOND), min_size=2, max_size=12, unique=True).map(sorted)


def timeline(polled: list[tuple[int, float | None]], first: int) -> list[Tick]:
    at, ticks = first, []
    for gap, value in polled:
        at += gap
        ticks.append((at, value))
    return ticks


@given(st.lists(st.tuples(polls, st.integers(0, SECOND)), min_size=1, max_size=3), edges)
def test_energy_and_means_are_those_of_a_slow_sum(
    machines: list[tuple[list[tuple[int, float | None]], int]], borders: list[int]
) -> None:
    """GPUs sampled at different times, holes, ticks without a value, windows longer and shorter than a poll."""
    ticks = {str(gpu): timeline(*polled) for gpu, polled in enumerate(machines)}
    windows = list(pairwise(borders))
    holds = [held(gpu) for gpu in ticks.values()]
    *rows, last = cost(ticks, [*windows, (borders[0], borders[-1])])
    for row, window in zip(rows, windows, strict=True):
        slow = [by_hand(gpu, window) for gpu in holds]
        exact = total([joules for joules, _ in slow])
        if exact is None:
            assert row["energy_j"] is row["power_mean_w"] is None
        else:
            assert row["energy_j"] == pytest.approx(exact, rel=1e-9)
            assert row["power_peak_w"] <= math.fsum(peak for _, peak in slow if peak is not None) + 1e-6
    whole = last["energy_j"]
    parts = total([row["energy_j"] for row in rows])
    assert (whole is None) == (parts is None)
    if whole is not None:
        assert parts == pytest.approx(whole, rel=1e-9)


@given(polls, st.integers(0, SECOND), edges)
def test_peak_is_the_largest_value_that_held(
    polled: list[tuple[int, float | None]], first: int, borders: list[int]
) -> None:
    ticks = timeline(polled, first)
    windows, holds = list(pairwise(borders)), held(ticks)
    for row, window in zip(cost({"0": ticks}, windows), windows, strict=True):
        assert row["power_peak_w"] == by_hand(holds, window)[1]


def every(period_ms: int, seconds: float, value: float | None) -> list[Tick]:
    return [(at * 1_000_000, value) for at in range(0, round(seconds * 1000), period_ms)]


def test_peak_of_two_gpus_is_that_of_one_moment() -> None:
    """Each reaches 500 W, never both at once, and they are sampled at different times."""
    first: list[Tick] = [(at, 500.0 if at < SECOND else 100.0) for at, _ in every(10, 2, 0.0)]
    second: list[Tick] = [(at + 3_000_000, 100.0 if at < SECOND else 500.0) for at, _ in every(10, 2, 0.0)]
    (row,) = cost({"0": first, "1": second}, [(0, 2 * SECOND)])
    assert row["power_peak_w"] == 600
    assert row["measured"] == pytest.approx(1, abs=0.002)


def test_gap_costs_nothing_and_lowers_the_measured_share() -> None:
    """A GPU is lost for 5 of 10 s."""
    ticks = every(10, 2, 300.0) + [(at + 7 * SECOND, watts) for at, watts in every(10, 3, 300.0)]
    whole, within, after = cost(
        {"0": ticks}, [(0, 10 * SECOND), (3 * SECOND, 6 * SECOND), (8 * SECOND, 9 * SECOND)]
    )
    assert whole["energy_j"] == pytest.approx(1500)
    assert whole["measured"] == pytest.approx(0.5)
    assert whole["power_mean_w"] == pytest.approx(300)
    assert (within["energy_j"], within["power_mean_w"], within["power_peak_w"]) == (None, None, None)
    assert within["measured"] == 0
    assert after["energy_j"] == pytest.approx(300)


def test_windows_that_hold_no_tick_get_the_value_that_held() -> None:
    """Steps of 1 ms between polls of 10 ms: an empty stretch, which `reduceat` would answer wrongly."""
    ticks: list[Tick] = [(at, float(at // 10_000_000)) for at, _ in every(10, 0.1, 0.0)]
    rows = cost({"0": ticks}, [(41_000_000 + at * 1_000_000, 42_000_000 + at * 1_000_000) for at in range(3)])
    assert [row["power_peak_w"] for row in rows] == [4, 4, 4]
    assert [row["energy_j"] for row in rows] == [pytest.approx(0.004)] * 3


def test_empty_window_and_one_outside_the_recording_are_null() -> None:
    rows = cost(
        {"0": every(10, 1, 100.0)}, [(SECOND // 2, SECOND // 2), (-SECOND, -1), (5 * SECOND, 6 * SECOND)]
    )
    assert [row["energy_j"] for row in rows] == [None, None, None]
    assert rows[0]["duration_s"] == 0


def test_without_telemetry_only_the_durations_are_known() -> None:
    frame = measured(spans_of([(0, SECOND)]), None)
    assert frame["duration_s"].to_list() == [1.0]
    assert frame["energy_j"].to_list() == [None]
    assert measured(spans_of([]), frame_of({"0": every(10, 1, 1.0)})).is_empty()


def test_counter_is_interpolated_at_the_edges() -> None:
    """500 W, refreshed every 100 ms: a plain difference of readings would be off by up to 50 J."""
    ticks = [
        {
            "time": START + at,
            "gpu": "0",
            "power_w": 500.0 + at // 10**8 % 2 * 1e-9,
            "energy_j": at // 10**8 * 50.0,
        }
        for at, _ in every(10, 4, 0.0)
    ]
    frame = pl.DataFrame(ticks).with_columns(pl.col("time").cast(MOMENT))
    (row,) = measured(spans_of([(1_234_000_000, 2_876_000_000)]), frame).to_dicts()
    assert row["energy_counter_j"] == pytest.approx(500 * 1.642, rel=1e-9)
    assert row["energy_difference"] == pytest.approx(0, abs=1e-9)
    edge, beyond = measured(spans_of([(0, 50_000_000), (3_960_000_000, 5 * SECOND)]), frame).to_dicts()
    assert edge["energy_counter_j"] == pytest.approx(25, rel=1e-9)
    assert beyond["energy_counter_j"] == pytest.approx(20, rel=1e-9)


def test_counter_is_null_where_the_driver_reset_it() -> None:
    counted: list[Tick] = [
        (at, at / 1e9 * 100 if at < SECOND else (at - SECOND) / 1e9 * 100) for at, _ in every(10, 2, 0.0)
    ]
    rows = cost(
        {"0": counted},
        [(SECOND // 2, 3 * SECOND // 4), (SECOND // 2, 3 * SECOND // 2), (5 * SECOND // 4, 3 * SECOND // 2)],
        "energy_j",
    )
    assert [row["energy_counter_j"] for row in rows] == [pytest.approx(25), None, pytest.approx(25)]


def test_counter_includes_the_energy_of_a_gap() -> None:
    at = [n * 10_000_000 for n in range(100)] + [SECOND * 4 + n * 10_000_000 for n in range(100)]
    frame = pl.DataFrame(
        {"time": [START + n for n in at], "gpu": "0", "power_w": 100.0, "energy_j": [n / 1e7 for n in at]}
    ).with_columns(pl.col("time").cast(MOMENT))
    (row,) = measured(spans_of([(0, 5 * SECOND)]), frame).to_dicts()
    assert row["energy_counter_j"] == pytest.approx(500, rel=1e-6)
    assert row["energy_j"] == pytest.approx(200)
    assert row["energy_difference"] is None  # the integral covers only what was sampled


def test_gpus_are_summed_averaged_or_the_hottest_counts() -> None:
    columns = {"power_w": (100.0, 300.0), "util": (50, 100), "temp_c": (40, 70), "mem_used_mib": (10.0, 30.0),
               "sm_mhz": (1000, 2000), "throttle": (0x20, 0x04), "tensor_active": (10.0, None)}  # fmt: skip
    rows = [
        {"time": START + at, "gpu": str(gpu), **{name: both[gpu] for name, both in columns.items()}}
        for at, _ in every(10, 2, 0.0)
        for gpu in (0, 1)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("time").cast(MOMENT))
    (row,) = measured(spans_of([(0, SECOND)]), frame).to_dicts()
    assert row["power_mean_w"] == pytest.approx(400)
    assert row["energy_j"] == pytest.approx(400)
    assert (row["util"], row["sm_mhz"], row["tensor_active"]) == (75, 1500, 10)
    assert (row["temp_c"], row["temp_peak_c"], row["mem_peak_mib"]) == (70, 70, 40)
    assert row["throttled_s"] == pytest.approx(1)  # the power cap of the second is no slowdown
    assert row["energy_counter_j"] is None


def test_power_and_memory_are_unknown_while_one_of_two_gpus_answers_nothing() -> None:
    rows = [
        {"time": START + at, "gpu": gpu, "power_w": 100.0, "mem_used_mib": 10.0}
        for at, _ in every(10, 4, 0.0)
        for gpu in ("0", "1")
        if gpu == "0" or at < 2 * SECOND
    ]
    frame = pl.DataFrame(rows).with_columns(pl.col("time").cast(MOMENT))
    whole, lacking = measured(spans_of([(0, SECOND), (3 * SECOND, 4 * SECOND)]), frame).to_dicts()
    assert (whole["power_mean_w"], whole["mem_peak_mib"]) == (200, 20)
    assert (lacking["power_mean_w"], lacking["mem_peak_mib"], lacking["measured"]) == (None, None, 0.5)


def test_each_node_has_its_own_gpus() -> None:
    frame = frame_of({"0": every(10, 1, 100.0)})
    both = pl.concat(
        [frame.with_columns(node=pl.lit("0")), frame.with_columns(pl.col("power_w") * 3, node=pl.lit("1"))]
    )
    spans = spans_of([(0, SECOND // 2)])
    result = pl.concat([spans.with_columns(node=pl.lit(node)) for node in ("0", "1")])
    assert measured(result, both.sort("time"))["energy_j"].to_list() == [
        pytest.approx(50),
        pytest.approx(150),
    ]
    assert measured(spans, both)["energy_j"].to_list() == [pytest.approx(200)]


def test_gpus_stand_in_the_order_of_their_nodes_and_numbers() -> None:
    frame = frame_of({gpu: every(10, 1, 100.0) for gpu in ("0", "2", "10")})
    nodes = pl.concat([frame.with_columns(node=pl.lit(node)) for node in ("0", "10", "2")]).sort("time")
    _, gpus = with_gpus(spans_of([(0, SECOND)]), of_table(nodes), (0, SECOND))
    order = [(node, gpu) for node in ("0", "2", "10") for gpu in ("0", "2", "10")]
    assert gpus.select("node", "gpu").rows() == order


def test_whole_seconds_give_the_same_energy_as_their_ticks() -> None:
    """A recording that begins and ends within a second."""
    ticks: list[Tick] = [(at, 100.0 + at / 1e7 % 7) for at, _ in every(10, 12.3, 0.0) if at >= 700_000_000]
    frame = frame_of({"0": ticks})
    seconds = (
        frame.group_by(pl.col("time").dt.truncate("1s"), "gpu", maintain_order=True)
        .agg(ticks=pl.len(), power_w_mean=pl.col("power_w").mean(), power_w_max=pl.col("power_w").max())
        .cast({"ticks": pl.Int64})
    )
    windows = [(0, 20 * SECOND), (3 * SECOND, 7 * SECOND), (0, SECOND), (12 * SECOND, 13 * SECOND)]
    for window in windows:
        (exact,), (result,) = cost({"0": ticks}, [window]), measured(spans_of([window]), seconds).to_dicts()
        assert result["energy_j"] == pytest.approx(exact["energy_j"], rel=1e-9)
        assert result["power_peak_w"] == exact["power_peak_w"]
