"""The last second and the last minutes of each GPU."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl

from gputel.analysis.live.follower import Follower
from gputel.analysis.live.gpus import GpuHistory
from gputel.telemetry.clock import SECOND
from tests.analysis.live.scenes import (
    FAST,
    Clock,
    make_run,
    read,
)
from tests.conftest import Compose


def test_seconds_without_a_sample_are_gaps_in_a_strip(tmp_path: Path, clock: Clock, compose: Compose) -> None:
    folder = make_run(tmp_path / "d16")
    ticks = [(0, at * SECOND, (at * 1000, 90)) for at in (0, 1, 5, 6)]
    compose(folder / "gpu", [FAST], ticks)
    follower = Follower([str(folder)], now=clock)
    read(follower, clock)
    (gpu,) = follower.runs[0].state.view().gpus
    assert str(gpu.strips["power_w_mean"]) == "[0.0, 1.0, nan, nan, nan, 5.0, 6.0]"
    follower.close()


NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def second(at: int, **readings: float | None) -> pl.DataFrame:
    return pl.DataFrame({"time": [NOON + timedelta(seconds=at)], "gpu": ["0"], "ticks": [10], **readings})


def test_readings_of_another_tier_complete_a_second() -> None:
    gpus = GpuHistory()
    gpus.take(second(0, power_w_mean=500.0), "")
    gpus.take(second(1, power_w_mean=510.0), "")
    gpus.take(second(1, temp_c_max=60.0), "")
    (gpu,) = gpus.view()
    assert gpu.last == {"power_w_mean": 510.0, "temp_c_max": 60.0}
    assert gpu.strips["power_w_mean"] == [500.0, 510.0]


def test_strip_holds_ten_minutes_also_across_a_long_gap() -> None:
    gpus = GpuHistory()
    for at in (0, 10_000):
        gpus.take(second(at, power_w_mean=float(at)), "")
    (gpu,) = gpus.view()
    assert len(gpu.strips["power_w_mean"]) == 600
    assert gpu.strips["power_w_mean"][-1] == 10_000.0


def test_same_index_on_two_nodes_is_two_gpus_with_their_own_names_and_limits() -> None:
    gpus = GpuHistory()
    for rank, name in ((0, "H100"), (1, "A100")):
        card = {"gpu": "0", "name": name, "limits": {"power_w": 700}, "memory_total_mib": 1000 * (rank + 1)}
        gpus.describe({"node_rank": rank, "host": {"name": f"box{rank}"}, "gpus": [card]})
    for node in (1, 0):
        gpus.take(second(0, power_w_mean=1.0), f"nodes/{node}/output.log")
    first, gpu = gpus.view()
    assert (first.node, first.name, first.host) == ("0", "H100", "box0")
    assert (gpu.node, gpu.name, gpu.host) == ("1", "A100", "box1")
    assert gpu.limits == {"power_w": 700, "memory_total_mib": 2000}
    assert gpus.memory_mib("0", "nodes/1/output.log") == 2000
    assert gpus.memory_mib("7", "") is None


def test_gpu_that_was_never_sampled_is_not_shown() -> None:
    gpus = GpuHistory()
    gpus.describe({"gpus": [{"gpu": "0", "name": "H100"}]})
    assert gpus.view() == []
