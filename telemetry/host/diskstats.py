"""/proc/diskstats: what each whole disk read and wrote, and how long that took."""

from __future__ import annotations

import re
from pathlib import Path

from gputel.telemetry.host.columns import DISK, DISKS, FAST
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import HostSource, Values, parser_of_lines

NO_DISK = re.compile(r"(loop|ram|zram|fd|sr)\d+")
PARTITION = re.compile(r"((nvme|mmcblk)\w*p|[a-z]+)\d+")
"""How partitions are named, where /sys does not list the whole disks."""
MOST = 64
FIELDS = 13


def disks(root: Path) -> HostSource:
    """The disks that the machine has at the start, partitions and disks in memory left out."""
    file = KernelFile(root / "proc/diskstats")
    rows = (line.split() for line in (file.read() or b"").splitlines())
    listed = [fields[2].decode() for fields in rows if len(fields) >= FIELDS]
    names = tuple(name for name in listed if _is_whole(root, name))[:MOST]
    lines = [re.compile(rb" " + re.escape(name.encode()) + rb" (.*)") for name in names]
    parse = parser_of_lines(lines, _row, len(DISKS))
    return HostSource("diskstats", DISK, FAST, DISKS, (file,), parse, names)


def _is_whole(root: Path, name: str) -> bool:
    blocks = root / "sys/block"
    whole = (blocks / name).exists() if blocks.is_dir() else not PARTITION.fullmatch(name)
    return whole and not NO_DISK.fullmatch(name)


def _row(counts: bytes) -> Values:
    """The columns of DISKS, of what stands behind the device's name."""
    reads, _, read, read_ms, writes, _, written, write_ms, flying, busy_ms = map(int, counts.split()[:10])
    return read, written, reads, writes, read_ms, write_ms, flying, busy_ms
