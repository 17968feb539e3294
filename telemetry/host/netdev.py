"""/proc/net/dev: what each network interface received and sent."""

from __future__ import annotations

import re
from pathlib import Path

from gputel.telemetry.host.columns import FAST, NET, NETWORKS
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import HostSource, Values, parser_of_lines

MOST = 32


def networks(root: Path) -> HostSource:
    """The interfaces that are devices of the machine, or have carried something before the start."""
    file = KernelFile(root / "proc/net/dev")
    rows = [line.rpartition(b":") for line in (file.read() or b"").splitlines()[2:]]
    counted = [(name.strip().decode(), _row(counts)) for name, _, counts in rows if counts]
    names = tuple(name for name, row in counted if row[0] or row[1] or _is_device(root, name))[:MOST]
    lines = [re.compile(rb"^ *" + re.escape(name.encode()) + rb":(.*)", re.MULTILINE) for name in names]
    parse = parser_of_lines(lines, _row, len(NETWORKS))
    return HostSource("net/dev", NET, FAST, NETWORKS, (file,), parse, names)


def _is_device(root: Path, name: str) -> bool:
    return (root / "sys/class/net" / name / "device").exists()


def _row(counts: bytes) -> Values:
    """The columns of NETWORKS, of what stands behind the interface's name."""
    fields = [int(field) for field in counts.split()]
    return fields[0], fields[8], fields[3], fields[11], fields[2] + fields[10]
