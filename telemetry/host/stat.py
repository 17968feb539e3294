"""/proc/stat: where the time of all cores went, and of each."""

from __future__ import annotations

from pathlib import Path

from gputel.telemetry.host.columns import CORE, CORES, FAST, HOST, SLOW, STAT
from gputel.telemetry.host.kernel_file import KernelFile
from gputel.telemetry.host.source import Contents, HostSource, Values, by_subject

KINDS = 8  # user nice system idle iowait irq softirq steal; what follows is part of user and nice


def cpu(root: Path) -> HostSource:
    """All cores together."""
    return HostSource("stat", HOST, FAST, STAT, (KernelFile(root / "proc/stat"),), _all_cores)


def cores(root: Path) -> HostSource:
    """Each core that the machine has at the start."""
    file = KernelFile(root / "proc/stat")
    names = tuple(name.decode()[3:] for name in _lines(file.read() or b"") if name != b"cpu")

    def parse(contents: Contents) -> Values:
        lines = _lines(contents[0] or b"")
        rows = {name[3:]: _core(fields) for name, fields in lines.items() if name != b"cpu"}
        return by_subject(rows, names, len(CORES))

    return HostSource("cores", CORE, SLOW, CORES, (file,), parse, names)


def _lines(content: bytes) -> dict[bytes, list[bytes]]:
    """The fields of the lines that begin with `cpu`."""
    lines: dict[bytes, list[bytes]] = {}
    for line in content.splitlines():
        if not line.startswith(b"cpu"):
            break
        name, *fields = line.split()
        lines[name] = fields
    return lines


def _all_cores(contents: Contents) -> Values:
    content = contents[0]
    if content is None:
        return (None,) * len(STAT)
    user, nice, system, idle, iowait, irq, softirq, steal = _kinds(
        content[: content.index(b"\n")].split()[1:]
    )
    kernel = system + irq + softirq
    busy = user + nice + kernel
    return busy, user + nice, kernel, iowait, steal, busy + idle + iowait + (steal or 0)


def _core(fields: list[bytes]) -> Values:
    user, nice, system, idle, iowait, irq, softirq, steal = _kinds(fields)
    busy = user + nice + system + irq + softirq
    return busy, iowait, steal, busy + idle + iowait + (steal or 0)


def _kinds(fields: list[bytes]) -> tuple[int, int, int, int, int, int, int, int | None]:
    """The ticks of each kind; some systems count no stolen time."""
    user, nice, system, idle, iowait, irq, softirq = map(int, fields[: KINDS - 1])
    steal = int(fields[KINDS - 1]) if len(fields) >= KINDS else None
    return user, nice, system, idle, iowait, irq, softirq, steal
