"""/proc/loadavg, /proc/stat and /proc/net/snmp: tasks that run or wait, and TCP segments."""

from __future__ import annotations

import re
from pathlib import Path

from gputel.telemetry.host.columns import HOST, LOAD, SLOW, TCP
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import Contents, HostSource, Values

RUNNING = re.compile(rb"^procs_running (\d+)", re.MULTILINE)
BLOCKED = re.compile(rb"^procs_blocked (\d+)", re.MULTILINE)
TCP_FIELDS = (b"OutSegs", b"RetransSegs")


def load(root: Path) -> HostSource:
    files = KernelFile(root / "proc/loadavg"), KernelFile(root / "proc/stat")
    return HostSource("loadavg", HOST, SLOW, LOAD, files, _tasks)


def tcp(root: Path) -> HostSource:
    """The segments of the network namespace in which the recorder runs."""
    return HostSource("snmp", HOST, SLOW, TCP, (KernelFile(root / "proc/net/snmp"),), _segments)


def _tasks(contents: Contents) -> Values:
    average, stat = contents
    minute = int(average.split()[0].replace(b".", b"")) if average else None
    return minute, *(_count(pattern, stat or b"") for pattern in (RUNNING, BLOCKED))


def _count(pattern: re.Pattern[bytes], content: bytes) -> int | None:
    match = pattern.search(content)
    return int(match[1]) if match else None


def _segments(contents: Contents) -> Values:
    lines = [line.split() for line in (contents[0] or b"").splitlines() if line.startswith(b"Tcp:")]
    counts = dict(zip(*lines, strict=True)) if len(lines) == 2 else {}
    return tuple(int(counts[name]) if name in counts else None for name in TCP_FIELDS)
