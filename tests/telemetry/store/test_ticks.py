"""Parts as frames."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry.store import frames, journal, ticks
from gputel.telemetry.store.tiers import Tier, TierColumn

MS = 1_000_000


def column(name: str, gpu: str = "0", per_unit: int = 1) -> TierColumn:
    return TierColumn(name, None, per_unit, gpu)


FAST = Tier("fast", 100.0, (column("power_w", "0", 1000), column("power_w", "1", 1000)))


Compose = Callable[..., None]


def test_numbers_are_what_they_were_not_a_last_digit_off(tmp_path: Path, compose: Compose) -> None:
    compose(tmp_path, [FAST], [(0, n * 10 * MS, [n, 0]) for n in range(2000)])
    power = frames.ticks(tmp_path).filter(gpu="0")["power_w"].to_list()
    assert power == [n / 1000 for n in range(2000)]


def test_journals_read_each_file_once_for_all_gpus(
    tmp_path: Path, compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose(tmp_path, [FAST], [(0, n * 10 * MS, [n, n]) for n in range(10)])
    read: list[Path] = []
    really = journal.read

    def noted(path: Path) -> journal.Journal | None:
        read.append(path)
        return really(path)

    monkeypatch.setattr(journal, "read", noted)
    cache = ticks.PartCache()
    alone = [frames.ticks(tmp_path, gpu=gpu, cache=cache) for gpu in ("0", "1")]
    assert len(read) == 1
    assert pl.concat(alone).sort("time", maintain_order=True).equals(frames.ticks(tmp_path))
    assert len(read) == 2
