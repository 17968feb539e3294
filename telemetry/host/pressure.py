"""/proc/pressure: how long tasks waited for a core, a disk or memory.

A kernel with the counters switched off has the files, and reading them fails.
"""

from __future__ import annotations

import re
from pathlib import Path

from gputel.telemetry.host.columns import FAST, HOST, PRESSURE, PRESSURES
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import Contents, HostSource, Values

RESOURCES = ("cpu", "io", "memory")
TOTAL = re.compile(rb"^(some|full) .*\btotal=(\d+)", re.MULTILINE)


def pressure(root: Path) -> HostSource:
    files = tuple(KernelFile(root / "proc/pressure" / resource) for resource in RESOURCES)
    return HostSource("pressure", HOST, FAST, PRESSURE, files, _totals)


def totals(content: bytes | None) -> dict[str, int]:
    """Microseconds by `some` and `full`; before Linux 5.13 the one of cores has no `full`."""
    return {kind.decode(): int(total) for kind, total in TOTAL.findall(content or b"")}


def _totals(contents: Contents) -> Values:
    by_name = {
        f"{resource}_{kind}": total
        for resource, content in zip(RESOURCES, contents, strict=True)
        for kind, total in totals(content).items()
    }
    return tuple(by_name.get(name) for name in PRESSURES)
