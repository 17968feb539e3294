"""The control groups of the command: what they are allowed, and how often that held them up.

`self` is its own group; of those above it only the ones with a limit. Both versions of cgroups are read; in a
container the path of the host is not there, and the group is the root of what is mounted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gputel.telemetry.host.columns import CGROUP, CGROUPS, SLOW
from gputel.telemetry.host.kernel_files import (
    Contents,
    HostSource,
    KernelFile,
    Values,
    numbers_by_name,
    pressure_totals,
)

SELF = "self"
NO_LIMIT = 1 << 60
"""A memory limit from here on is no limit: version 1 writes the largest number of pages."""
V2 = (
    "cpu.stat", "cpu.max", "memory.max", "memory.current", "memory.events", "io.stat",
    "cpu.pressure", "io.pressure", "memory.pressure",
)  # fmt: skip
V1 = (
    ("cpu", "cpu.stat"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.cfs_period_us"),
    ("memory", "memory.limit_in_bytes"),
    ("memory", "memory.usage_in_bytes"),
    ("memory", "memory.failcnt"),
    ("memory", "memory.oom_control"),
    ("blkio", "blkio.throttle.io_service_bytes"),
)


def cgroups(root: Path, pid: int | None = None) -> HostSource:
    """The control groups of a process, or of this one."""
    own = root / "proc" / ("self" if pid is None else str(pid)) / "cgroup"
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines() if line.count(":") >= 2]
    except OSError:
        lines = []
    paths = {controller: path for _, controllers, path in lines for controller in controllers.split(",")}
    mounted = root / "sys/fs/cgroup"
    is_v2 = (mounted / "cgroup.controllers").exists()
    groups = dict(_v2(mounted, paths.get("", "/")) if is_v2 else _v1(mounted, paths))
    parse = _parse_v2 if is_v2 else _parse_v1
    limited = {}
    for name, group in groups.items():
        if _matters(name, parse([file.read() for file in group])):
            limited[name] = group
        else:
            for file in group:
                file.close()
    each = len(V2) if is_v2 else len(V1)

    def parse_all(contents: Contents) -> Values:
        parts = (contents[at : at + each] for at in range(0, len(contents), each))
        return tuple(value for part in parts for value in parse(part))

    files = tuple(file for group in limited.values() for file in group)
    return HostSource(CGROUP, CGROUP, SLOW, CGROUPS, files, parse_all, tuple(limited))


class Allowance(NamedTuple):
    """The tightest limits of this process's groups; None without one."""

    cores: float | None
    memory_left: int | None
    """Bytes."""


def allowance(root: Path = Path("/")) -> Allowance:
    source = cgroups(root)
    values = source.read()
    source.close()
    groups = [
        _named(values[at : at + len(CGROUPS)])
        for at in range(0, len(CGROUPS) * len(source.subjects), len(CGROUPS))
    ]
    cores = [limit / 1000 for group in groups if (limit := group["cpu_limit_cores"]) is not None]
    left = [
        limit - (group["mem_used_mib"] or 0)
        for group in groups
        if (limit := group["mem_limit_mib"]) is not None
    ]
    return Allowance(min(cores, default=None), min(left, default=None))


def cores() -> int:
    """The cores that this process may schedule on, whatever its groups allow of their time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_cores(root: Path = Path("/")) -> int:
    """How many processes of this one's groups can run at once; at least 1."""
    allowed = allowance(root).cores
    return cores() if allowed is None else max(1, min(cores(), int(allowed)))


def _named(values: Values) -> dict[str, int | None]:
    return dict(zip((column.name for column in CGROUPS), values, strict=True))


def _matters(name: str, values: Values) -> bool:
    """Whether something of its own group is known, or a group above it has a limit."""
    if name == SELF:
        return any(value is not None for value in values)
    named = _named(values)
    return named["cpu_limit_cores"] is not None or named["mem_limit_mib"] is not None


def _upwards(path: str) -> Iterator[tuple[str, str]]:
    """Name and path of a group and of each above it."""
    whole = PurePosixPath(path)
    yield SELF, path
    yield from ((str(parent), str(parent)) for parent in whole.parents if parent != whole)


def _v2(mounted: Path, path: str) -> Iterator[tuple[str, list[KernelFile]]]:
    for name, group in _upwards(path):
        folder = _folder(mounted, group)
        yield name, [KernelFile(folder / file) for file in V2]


def _v1(mounted: Path, paths: Mapping[str, str]) -> Iterator[tuple[str, list[KernelFile]]]:
    """A process has a group for each controller: those above them meet by their names."""
    above = dict.fromkeys(name for path in paths.values() for name, _ in _upwards(path))
    for name in above:
        files = []
        for controller, file in V1:
            folder = _folder(
                _mount(mounted, controller), paths.get(controller, "/") if name == SELF else name
            )
            files.append(KernelFile(folder / file))
        yield name, files


def _mount(mounted: Path, controller: str) -> Path:
    """Controllers may be mounted together, as in `cpu,cpuacct`."""
    together = [path for path in mounted.glob(f"*{controller}*") if controller in path.name.split(",")]
    return together[0] if together else mounted / controller


def _folder(mounted: Path, path: str) -> Path:
    folder = mounted / path.lstrip("/")
    return folder if folder.is_dir() else mounted


def _parse_v2(contents: Contents) -> Values:
    cpu, limit, mem_limit, mem_used, events, io, *pressures = contents
    stat, happened = numbers_by_name(cpu or b""), numbers_by_name(events or b"")
    quota, _, period = (limit or b"").partition(b" ")
    cores = int(quota) * 1000 // int(period) if quota.isdigit() else None
    waited = [pressure_totals(content).get("some") for content in pressures]
    return (
        cores,
        stat.get(b"nr_periods"),
        stat.get(b"nr_throttled"),
        stat.get(b"throttled_usec"),
        _bytes(mem_limit),
        _bytes(mem_used),
        happened.get(b"max"),
        happened.get(b"oom_kill"),
        _sum(io, b"rbytes="),
        _sum(io, b"wbytes="),
        *waited,
    )


def _parse_v1(contents: Contents) -> Values:
    cpu, quota, period, mem_limit, mem_used, hits, oom, io = contents
    stat = numbers_by_name(cpu or b"")
    has_quota = quota is not None and quota.strip().isdigit() and period
    cores = int(quota or 0) * 1000 // int(period or 1) if has_quota else None
    throttled_ns = stat.get(b"throttled_time")
    return (
        cores,
        stat.get(b"nr_periods"),
        stat.get(b"nr_throttled"),
        None if throttled_ns is None else throttled_ns // 1000,
        _bytes(mem_limit),
        _bytes(mem_used),
        _bytes(hits),
        numbers_by_name(oom or b"").get(b"oom_kill"),
        _sum(io, b"Read "),
        _sum(io, b"Write "),
        None,
        None,
        None,
    )


def _bytes(content: bytes | None) -> int | None:
    """None without a limit, which is `max` or a number that no machine reaches."""
    text = (content or b"").strip()
    return int(text) if text.isdigit() and int(text) < NO_LIMIT else None


def _sum(content: bytes | None, before: bytes) -> int | None:
    """The sum over devices of the numbers behind a word; None where the file is missing."""
    if content is None:
        return None
    parts: Sequence[bytes] = content.split(before)[1:]
    return sum(int(part.split()[0]) for part in parts if part.split())
