"""The table of whole seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames, journal, parquet, ticks
from gputel.telemetry.store.seconds import one_second_rows, readable
from gputel.telemetry.store.tiers import Tier, TierColumn

MS = 1_000_000


def column(name: str, gpu: str = "0", per_unit: int = 1) -> TierColumn:
    return TierColumn(name, None, per_unit, gpu)


FAST = Tier("fast", 100.0, (column("power_w", "0", 1000), column("power_w", "1", 1000)))


Compose = Callable[..., None]


def test_whole_seconds_keep_every_extreme(tmp_path: Path, compose: Compose) -> None:
    watts = [100, 900, 101, None, 102, 103]
    compose(tmp_path, [FAST], [(0, n * SECOND // 4, [watt, None]) for n, watt in enumerate(watts)])
    frame = frames.seconds(tmp_path).filter(gpu="0")
    names = [f"power_w_{statistic}" for statistic in ("min", "mean", "max")]
    assert frame.select("ticks", *names).rows() == [
        (4, 0.1, 0.367, 0.9),
        (2, 0.102, 0.1025, 0.103),
    ]
    assert frame["time"].dt.epoch("s").to_list() == [10**9, 10**9 + 1]
    assert frames.seconds(tmp_path).filter(gpu="1")["power_w_max"].to_list() == [None, None]


def energy_ticks(joules: list[tuple[float, int]]) -> Iterator[tuple[int, int, list[int]]]:
    return ((0, int(at * SECOND), [counter]) for at, counter in joules)


def test_energy_of_a_second_is_what_the_counter_grew_since_the_second_before(
    tmp_path: Path, compose: Compose
) -> None:
    counter = Tier("fast", 10.0, (column("energy_j", "0", 1000),))
    seen = [
        (0.2, 1000),
        (0.9, 1500),
        (1.1, 1600),
        (1.9, 2500),
        (2.5, 3000),
        (7.0, 9000),
        (7.5, 9300),
        (8.0, 10),
    ]
    compose(tmp_path, [counter], energy_ticks(seen))
    frame = frames.seconds(tmp_path)
    assert frame["energy_j"].to_list() == pytest.approx([0.5, 1.0, 0.5, 0.3, None])
    assert frame["energy_j_last"].to_list() == [1.5, 2.5, 3.0, 9.3, 0.01]


def test_mask_of_reasons_keeps_every_bit_that_was_set(tmp_path: Path, compose: Compose) -> None:
    mask = Tier("fast", 10.0, (column("throttle"),))
    compose(tmp_path, [mask], [(0, n * SECOND // 4, [bits]) for n, bits in enumerate([1, 4, 8, 1])])
    assert frames.seconds(tmp_path).select("throttle_any", "throttle_last").row(0) == (13, 1)


def test_second_that_a_restart_cut_in_two_is_one_row(tmp_path: Path, compose: Compose) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND // 8, [n, 0]) for n in range(2)])
    compose(tmp_path, [FAST], [(0, n * SECOND // 8, [n, 0]) for n in range(5, 8)])
    frame = frames.seconds(tmp_path).filter(gpu="0")
    assert frame.select("ticks", "power_w_min", "power_w_max").rows() == [(5, 0, 0.007)]
    assert frame["power_w_mean"].item() == pytest.approx(0.0038)


SLOW = Tier("slow", 0.5, (column("fan"), column("ecc")))


def test_slow_reading_is_one_column_in_the_file_and_three_in_the_frame(
    tmp_path: Path, compose: Compose
) -> None:
    rows = [(0, n * SECOND // 2, [n, n]) for n in range(20)] + [(1, n * SECOND, [n, 0]) for n in (0, 2)]
    compose(tmp_path, [FAST, SLOW], sorted(rows, key=lambda tick: tick[1]))
    parquet.compact(tmp_path, everything=True)
    names = list(pl.read_parquet_schema(tmp_path / "seconds-000001.parquet"))
    assert names == ["time", "gpu", "ticks", "power_w_min", "power_w_mean", "power_w_max", "fan", "ecc"]
    frame = frames.seconds(tmp_path).filter(gpu="0")
    for statistic in ("min", "mean", "max"):
        assert frame[f"fan_{statistic}"].to_list() == [0, 0, *[2] * 7, None]


def test_last_values_are_there_for_those_who_follow_a_recording(tmp_path: Path, compose: Compose) -> None:
    compose(tmp_path, [FAST, SLOW], [(0, 0, [7, 8]), (1, 0, [30, 2]), (0, 10 * MS, [9, None])])
    loaded = []
    for name in ("fast", "slow"):
        content = journal.read(tmp_path / f"{name}-000001.gtb")
        assert content
        loaded.append((content.tier, ticks.from_journal(content)))
    frame = readable(one_second_rows(loaded, last=True))
    assert frame.select("power_w_last", "fan_last", "ecc_max").rows() == [(0.009, 30, 2), (0.008, None, None)]
