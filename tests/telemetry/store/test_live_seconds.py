"""Seconds of a recording that goes on, against the table of seconds that readers make of the whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames
from gputel.telemetry.store.live_seconds import LiveSeconds
from gputel.telemetry.store.tiers import Tier, TierColumn

Compose = Callable[..., None]
START = 10**9


def column(name: str, gpu: str = "0", per_unit: int = 1) -> TierColumn:
    return TierColumn(name, None, per_unit, gpu)


TIERS = (
    Tier("fast", 20.0, (*(column("power_w", gpu, 1000) for gpu in "01"), column("energy_j", "0", 1000))),
    Tier("medium", 5.0, (column("util", "0"), column("throttle", "1"))),
    Tier("slow", 1.0, (column("ecc", "0"), column("temp_mem_c", "1"))),
)


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_the_table_of_seconds(tmp_path: Path, compose: Compose, seed: int) -> None:
    chance = random.Random(seed)
    ticks = [
        (place, n * tier.period_ns, [chance.choice([None, chance.randrange(1 << 20)]) for _ in tier.columns])
        for place, tier in enumerate(TIERS)
        for n in range(int(6 * tier.hz))
    ]
    compose(tmp_path, TIERS, sorted(ticks, key=lambda tick: tick[1]))
    seconds = LiveSeconds(tmp_path).read()
    table = {(row["time"].timestamp(), row["gpu"]): row for row in frames.seconds(tmp_path).to_dicts()}
    assert [row.second for row in seconds] == [START + n for n in range(6)]
    sent = {(row.second, *key): value for row in seconds for key, value in row.figures.items()}
    for (second, name, gpu), value in sent.items():
        in_table = "ecc_max" if name == "ecc_last" else name
        assert table[second, gpu][in_table] == pytest.approx(value, rel=1e-9), (second, name, gpu)
    fast = [
        (second, name, gpu)
        for second, gpu in table
        for name in ("power_w_min", "power_w_mean", "power_w_max")
    ]
    assert {key for key in fast if table[key[0], key[2]][key[1]] is not None} <= sent.keys()
    assert {name for _, name, _ in sent} == {
        "power_w_min", "power_w_mean", "power_w_max", "energy_j_last", "util_mean", "throttle_any", "ecc_last",
        "temp_mem_c_mean",
    }  # fmt: skip


def test_only_new_seconds_come(tmp_path: Path, compose: Compose) -> None:
    tier = Tier("fast", 4.0, (column("util"),))
    compose(tmp_path / "whole", [tier], [(0, n * SECOND // 4, [n]) for n in range(24)])
    written = next((tmp_path / "whole").glob("*.gtb"))
    content, growing = written.read_bytes(), tmp_path / "gpu" / written.name
    live = LiveSeconds(growing.parent, since=START + 2)
    growing.parent.mkdir()
    seen = []
    for end in range(0, len(content), 97):
        growing.write_bytes(content[:end])
        seen += live.read()
    growing.write_bytes(content)
    seen += live.read()
    assert [(row.second - START, row.figures) for row in seen] == [
        (second, {("util_mean", "0"): 4 * second + 1.5}) for second in range(2, 6)
    ]
