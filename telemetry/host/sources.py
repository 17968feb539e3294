"""The sources of a machine, and the tiers in which they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gputel.telemetry.host import cgroup, diskstats, load, memory, netdev, pressure, stat
from gputel.telemetry.host.columns import HZ
from gputel.telemetry.host.source import HostSource
from gputel.telemetry.store.tiers import Tier, TierColumn

SOURCES: tuple[Callable[[Path], HostSource], ...] = (
    stat.cpu,
    pressure.pressure,
    diskstats.disks,
    netdev.networks,
    memory.meminfo,
    memory.vmstat,
    load.load,
    load.tcp,
    stat.cores,
)


def open_sources(root: Path, command: int | None = None) -> list[HostSource]:
    """The sources that have a subject: a machine may have no disks. Groups are those of the command."""
    opened = [*(source(root) for source in SOURCES), cgroup.cgroups(root, command)]
    return [source for source in opened if source.subjects]


def arrange(sources: Sequence[HostSource]) -> list[tuple[Tier, list[HostSource]]]:
    """The tiers of each table, with the sources whose values make a row of it."""
    grouped: dict[tuple[str, str], list[HostSource]] = {}
    for source in sources:
        grouped.setdefault((source.table, source.tier), []).append(source)
    return [
        (Tier(name, HZ[name], tuple(column for source in group for column in _columns(source)), table), group)
        for (table, name), group in grouped.items()
    ]


def _columns(source: HostSource) -> list[TierColumn]:
    return [
        TierColumn(column.name, column.unit, column.per_unit, subject)
        for subject in source.subjects
        for column in source.columns
    ]
