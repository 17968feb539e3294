"""Tables beside gpu/: a folder each, with a column named like it, from one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store import frames, parquet
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn

HOST = Tier("fast", 10.0, (TierColumn("load", None, 100),), "host")
DISK = Tier("fast", 10.0, tuple(TierColumn("reads_total", None, 1, disk) for disk in ("sda", "sdb")), "disk")


class StandingClock:
    """A clock that stands at the moment that was last set."""

    now = 5 * SECOND

    def stamp(self) -> Stamp:
        return Stamp(1_000 * SECOND + self.now, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = monotonic


@pytest.mark.parametrize("compacted", [False, True])
def test_two_tables_of_one_writer_are_read_each_from_its_folder(tmp_path: Path, compacted: bool) -> None:
    clock, faults = StandingClock(), list[str]()
    writer = Writer(
        PartWriter(
            tmp_path,
            [HOST, DISK],
            clock,
            on_trouble=lambda kind, text: faults.append(f"{kind}: {text}"),
            compactor=None,
            by_table=True,
        )
    )
    for tick in range(20):
        clock.now = 5 * SECOND + tick * SECOND // 10
        writer.append(0, clock.now, clock.now, [tick])
        writer.append(1, clock.now, clock.now, [tick * 10, None])
    writer.close()
    for table in ("host", "disk"):
        if compacted:
            parquet.compact(tmp_path / table, everything=True)
    host, disk = frames.ticks(tmp_path / "host"), frames.ticks(tmp_path / "disk")
    assert not faults
    assert host.columns == ["time", "load"]
    assert host["load"].to_list() == [tick / 100 for tick in range(20)]
    assert disk.columns == ["time", "disk", "reads_total"]
    assert disk.rows()[-2:][0][1:] == ("sda", 190)
    assert disk.rows()[-1][1:] == ("sdb", None)
    assert not list(tmp_path.glob("*/seconds-*"))
