"""/proc/meminfo and /proc/vmstat: what fills the memory, and what its shortage costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gputel.telemetry.host.columns import HOST, MEMINFO, SLOW, VMSTAT
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import Contents, HostSource, Values, numbers_by_name

COUNTS = re.compile(
    rb"^(pswpin|pswpout|pgmajfault|oom_kill|allocstall\w*|workingset_refault(?:_file)?) (\d+)$", re.MULTILINE
)
"""The few that are used, of some two hundred lines."""


def meminfo(root: Path) -> HostSource:
    return HostSource("meminfo", HOST, SLOW, MEMINFO, (KernelFile(root / "proc/meminfo"),), _memory)


def vmstat(root: Path) -> HostSource:
    return HostSource("vmstat", HOST, SLOW, VMSTAT, (KernelFile(root / "proc/vmstat"),), _paging)


def _memory(contents: Contents) -> Values:
    kib = numbers_by_name(contents[0] or b"")
    total, available, shmem = kib.get(b"MemTotal"), kib.get(b"MemAvailable"), kib.get(b"Shmem")
    return (
        total,
        _difference(total, available),
        available,
        _difference(kib.get(b"Cached"), shmem),
        kib.get(b"Dirty"),
        kib.get(b"Writeback"),
        shmem,
        _difference(kib.get(b"SwapTotal"), kib.get(b"SwapFree")),
    )


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _paging(contents: Contents) -> Values:
    counts = {name: int(count) for name, count in COUNTS.findall(contents[0] or b"")}
    refaults = counts.get(b"workingset_refault_file", counts.get(b"workingset_refault"))
    return (
        counts.get(b"pswpin"),
        counts.get(b"pswpout"),
        counts.get(b"pgmajfault"),
        refaults,
        _sum_of(counts, b"allocstall"),
        counts.get(b"oom_kill"),
    )


def _sum_of(counts: Mapping[bytes, int], prefix: bytes) -> int | None:
    """The counts by zone of memory, or the one count of older kernels."""
    values = [value for name, value in counts.items() if name.startswith(prefix)]
    return sum(values) if values else None
