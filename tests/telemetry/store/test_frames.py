"""A gpu/ folder as frames."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store import frames, journal, parquet
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.conftest import GivenClock

MS = 1_000_000


def column(name: str, gpu: str = "0", per_unit: int = 1) -> TierColumn:
    return TierColumn(name, None, per_unit, gpu)


FAST = Tier("fast", 100.0, (column("power_w", "0", 1000), column("power_w", "1", 1000)))


MEDIUM = Tier("medium", 10.0, (column("temp_c", "0"),))


SLOW = Tier("slow", 1.0, (column("fan", "0"), column("fan", "1")))


Compose = Callable[..., None]


def test_row_has_the_slower_reading_as_of_its_own_time(tmp_path: Path, compose: Compose) -> None:
    ticks = [(0, n * 10 * MS, [n * 1000, 0]) for n in range(40)]
    ticks += [(1, n * 100 * MS + 5 * MS, [50 + n]) for n in range(4)]
    compose(tmp_path, [FAST, MEDIUM, SLOW], sorted(ticks, key=lambda tick: tick[1]))
    of_first = frames.ticks(tmp_path).filter(gpu="0")
    since_start = of_first["time"].dt.epoch("ns") - 10**18
    expected = [None if at < 5 * MS else 50 + (at - 5 * MS) // (100 * MS) for at in since_start]
    assert of_first["temp_c"].to_list() == expected
    assert of_first["power_w"].to_list() == [float(n) for n in range(40)]


def test_tier_that_fell_silent_becomes_null_after_three_of_its_periods(
    tmp_path: Path, compose: Compose
) -> None:
    ticks = [(1, n * 100 * MS, [50]) for n in range(3)] + [(0, n * 10 * MS, [1, 1]) for n in range(100)]
    compose(tmp_path, [FAST, MEDIUM], sorted(ticks, key=lambda tick: tick[1]))
    temperatures = frames.ticks(tmp_path).filter(gpu="0")["temp_c"].to_list()
    assert temperatures == [50] * 51 + [None] * 49


def test_tier_that_was_slowed_down_keeps_its_values_for_its_new_period(
    tmp_path: Path, compose: Compose
) -> None:
    at = [0, 100, 200, 400, 800, 1600, 2400, 3200, 4000]
    ticks = [(1, ms * MS, [ms]) for ms in at] + [(0, n * 10 * MS, [1, 1]) for n in range(480)]
    compose(tmp_path, [FAST, MEDIUM], sorted(ticks, key=lambda tick: tick[1]))
    frame = frames.ticks(tmp_path).filter(gpu="0")
    assert frame.tail(240)["temp_c"].null_count() == 0


def test_rows_stand_tick_by_tick_with_the_gpus_in_order(tmp_path: Path, compose: Compose) -> None:
    compose(tmp_path, [FAST, SLOW], [(1, 0, [30, None]), (0, 10 * MS, [1, 2]), (0, 20 * MS, [3, None])])
    frame = frames.ticks(tmp_path)
    assert frame.columns == ["time", "gpu", "power_w", "fan"]
    assert frame.schema["time"] == pl.Datetime("ns", "UTC")
    assert frame.select("gpu", "power_w", "fan").rows() == [
        ("0", 0.001, 30),
        ("1", 0.002, None),
        ("0", 0.003, 30),
        ("1", None, None),
    ]


@pytest.mark.parametrize("sealed_every_s", [600, 2])
def test_sampled_rate_is_rows_over_time_compacted_or_not(
    tmp_path: Path, compose: Compose, sealed_every_s: int
) -> None:
    """Five seconds at 100 Hz, two of nothing, three at 50 Hz; a slower tier counts for nothing."""
    at = [*range(0, 5000, 10), *range(7000, 10_001, 20)]
    ticks = [(0, ms * MS, [1, 1]) for ms in at] + [(2, s * SECOND, [30, 30]) for s in range(9)]
    compose(
        tmp_path,
        [FAST, MEDIUM, SLOW],
        sorted(ticks, key=lambda tick: tick[1]),
        seal_after_s=sealed_every_s,
    )
    expected = frames.Sampled(len(at), 10.0)
    assert frames.sampled(tmp_path) == expected
    parquet.compact(tmp_path, everything=False)
    assert frames.sampled(tmp_path) == expected
    parquet.compact(tmp_path, everything=True)
    assert frames.sampled(tmp_path) == expected


@pytest.mark.parametrize("compacted", [False, True])
def test_late_first_row_makes_the_sampled_time_no_shorter(tmp_path: Path, compacted: bool) -> None:
    """The first tick comes 25 ms late, and the next two are caught up with."""
    clock = GivenClock()

    def on_trouble(kind: str, text: str) -> None:
        pytest.fail(f"{kind}: {text}")

    writer = journal.Writer(PartWriter(tmp_path, [FAST], clock, on_trouble=on_trouble, compactor=None))
    for deadline in range(0, 1001 * MS, 10 * MS):
        clock.now = max(deadline, 25 * MS)
        writer.append(0, deadline, clock.now, [1, 1])
    writer.close()
    if compacted:
        parquet.compact(tmp_path, everything=True)
    assert frames.sampled(tmp_path) == frames.Sampled(101, 1.0)


def test_sampled_rate_needs_two_rows(tmp_path: Path, compose: Compose) -> None:
    assert frames.sampled(tmp_path / "nothing") is None
    compose(tmp_path, [FAST, SLOW], [(0, 0, [1, 1]), (1, 0, [30, 30])])
    assert frames.sampled(tmp_path) is None


def test_recording_may_be_read_before_anything_is_in_it(tmp_path: Path, compose: Compose) -> None:
    for folder in (tmp_path / "nothing", tmp_path):
        assert frames.ticks(folder).columns == ["time", "gpu"]
        assert frames.seconds(folder).columns == ["time", "gpu", "ticks"]
        assert frames.scan(folder).collect().height == 0
    compose(tmp_path, [FAST], [])
    assert frames.ticks(tmp_path).columns == ["time", "gpu", "power_w"]
    assert frames.seconds(tmp_path).height == 0
    (tmp_path / "fast-000002.gtb").write_bytes(b"GTB1")
    assert frames.scan(tmp_path).collect().height == 0


def test_scan_reads_only_what_is_asked_for(tmp_path: Path, compose: Compose) -> None:
    ticks = [(0, n * SECOND // 10, [n, -n]) for n in range(100)]
    ticks.insert(50, (1, 5 * SECOND, [7, 8]))
    compose(tmp_path, [FAST, SLOW], ticks, seal_after_s=3)
    whole = frames.ticks(tmp_path)
    lazy = frames.scan(tmp_path)
    assert lazy.collect().equals(whole)
    assert lazy.collect(engine="streaming").height == whole.height
    assert lazy.select("power_w").head(3).collect()["power_w"].to_list() == [0.0, 0.0, 0.001]
    late = lazy.filter(pl.col("power_w") > 0.09).select("gpu", "power_w").collect()
    assert late.height == 9
    assert lazy.select(pl.col("fan").max()).collect().item() == 8


class SteppingClock:
    """Wall time is set back by ten seconds after two."""

    now = 0

    def stamp(self) -> Stamp:
        return Stamp(10**18 + self.now - (10 * SECOND if self.now >= 2 * SECOND else 0), self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = monotonic


def test_wall_clock_that_is_set_back_shows_as_it_was_and_rows_keep_their_order(tmp_path: Path) -> None:
    clock = SteppingClock()
    writer = journal.Writer(PartWriter(tmp_path, [FAST], clock, on_trouble=print, compactor=None))
    for second in range(4):
        clock.sleep_until(second * SECOND)
        writer.append(0, clock.now, clock.now, [second, 0])
    writer.close()
    frame = frames.ticks(tmp_path).filter(gpu="0")
    assert frame["power_w"].to_list() == [0, 0.001, 0.002, 0.003]
    assert (frame["time"].dt.epoch("s") - 10**9).to_list() == [0, 1, -8, -7]


def test_one_gpu_alone_has_the_rows_that_it_has_among_all(tmp_path: Path, compose: Compose) -> None:
    ticks = [(0, n * 10 * MS, [n, 1000 + n]) for n in range(300)]
    ticks += [(1, n * 100 * MS + 5 * MS, [50 + n]) for n in range(30)]
    compose(tmp_path, [FAST, MEDIUM], sorted(ticks, key=lambda tick: tick[1]))
    whole = frames.ticks(tmp_path)
    for gpu in ("0", "1"):
        alone = frames.ticks(tmp_path, ("power_w",), gpu)
        assert alone.equals(whole.filter(gpu=gpu).select("time", "gpu", "power_w"))
        (seconds,) = frames.seconds_in_turn(tmp_path, ("power_w",), ("mean",), gpu)
        all_readings = frames.seconds(tmp_path).filter(gpu=gpu)
        assert seconds.equals(all_readings.select(seconds.columns))


SOME = Tier(
    "fast", 100.0, (column("power_w", "0", 1000), column("temp_c", "0"), column("power_w", "1", 1000))
)
OTHERS = Tier("medium", 10.0, (column("temp_c", "1"), column("util", "0")))


def test_reading_that_is_fast_on_one_gpu_and_slow_on_another_is_one_column(
    tmp_path: Path, compose: Compose
) -> None:
    ticks: list[tuple[int, int, list[int | None]]] = [(1, n * 100 * MS, [70 + n, 90]) for n in range(3)]
    ticks += [(0, n * 10 * MS, [n, None if n == 5 else n, n]) for n in range(30)]
    compose(tmp_path, [SOME, OTHERS], sorted(ticks, key=lambda tick: tick[1]))
    for compacted in (False, True):
        if compacted:
            parquet.compact(tmp_path, everything=True)
        temperatures = frames.ticks(tmp_path).partition_by("gpu", as_dict=True)
        assert temperatures["0",]["temp_c"].to_list() == [None if n == 5 else n for n in range(30)]
        assert temperatures["1",]["temp_c"].to_list() == [70 + n // 10 for n in range(30)]
        assert temperatures["1",]["util"].null_count() == 30
        seconds = frames.seconds(tmp_path)
        assert seconds.select("gpu", "temp_c_min", "temp_c_max", "util_max").rows() == [
            ("0", 0, 29, 90),
            ("1", 70, 72, None),
        ]


def test_gpu_whose_fastest_tier_is_slow_has_the_rows_of_that_tier(tmp_path: Path, compose: Compose) -> None:
    medium = Tier("medium", 10.0, (column("temp_c", "0"), column("temp_c", "1")))
    fast = Tier("fast", 100.0, (column("power_w", "1", 1000),))
    ticks = [(0, n * 10 * MS, [n]) for n in range(20)] + [(1, n * 100 * MS, [n, n]) for n in range(2)]
    compose(tmp_path, [fast, medium], sorted(ticks, key=lambda tick: tick[1]))
    frame = frames.ticks(tmp_path)
    assert frame["time"].is_sorted()
    assert frame.filter(gpu="0").select("power_w", "temp_c").rows() == [(None, 0), (None, 1)]
    assert frame.filter(gpu="1")["temp_c"].to_list() == [0] * 10 + [1] * 10
    assert frames.ticks(tmp_path, ("temp_c",), "0")["temp_c"].to_list() == [0, 1]
