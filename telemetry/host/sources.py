"""Sources of the machine around the GPUs: files under /proc -> the integers in them, and the tiers that store them.

A source has a function that opens it, a row in `SOURCES`, and its columns in `columns.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gputel.telemetry.host import cgroup
from gputel.telemetry.host.columns import (
    CORE,
    CORES,
    DISK,
    DISKS,
    FAST,
    HOST,
    HZ,
    LOAD,
    MEMINFO,
    NET,
    NETWORKS,
    PRESSURE,
    PRESSURES,
    SLOW,
    STAT,
    TCP,
    VMSTAT,
)
from gputel.telemetry.host.kernel_files import (
    Contents,
    HostSource,
    KernelFile,
    Values,
    by_subject,
    numbers_by_name,
    parser_of_lines,
    pressure_totals,
)
from gputel.telemetry.store.tiers import Tier, TierColumn

TIME_KINDS = 8  # user nice system idle iowait irq softirq steal; what follows is part of user and nice


def cpu(root: Path) -> HostSource:
    """All cores together."""
    return HostSource("stat", HOST, FAST, STAT, (KernelFile(root / "proc/stat"),), _all_cores)


def cores(root: Path) -> HostSource:
    """Each core that the machine has at the start."""
    file = KernelFile(root / "proc/stat")
    names = tuple(name.decode()[3:] for name in _core_lines(file.read() or b"") if name != b"cpu")

    def parse(contents: Contents) -> Values:
        lines = _core_lines(contents[0] or b"")
        rows = {name[3:]: _core(fields) for name, fields in lines.items() if name != b"cpu"}
        return by_subject(rows, names, len(CORES))

    return HostSource("cores", CORE, SLOW, CORES, (file,), parse, names)


def _core_lines(content: bytes) -> dict[bytes, list[bytes]]:
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
    user, nice, system, idle, iowait, irq, softirq, steal = _time_kinds(
        content[: content.index(b"\n")].split()[1:]
    )
    kernel = system + irq + softirq
    busy = user + nice + kernel
    return busy, user + nice, kernel, iowait, steal, busy + idle + iowait + (steal or 0)


def _core(fields: list[bytes]) -> Values:
    user, nice, system, idle, iowait, irq, softirq, steal = _time_kinds(fields)
    busy = user + nice + system + irq + softirq
    return busy, iowait, steal, busy + idle + iowait + (steal or 0)


def _time_kinds(fields: list[bytes]) -> tuple[int, int, int, int, int, int, int, int | None]:
    """The ticks of each kind; some systems count no stolen time."""
    user, nice, system, idle, iowait, irq, softirq = map(int, fields[: TIME_KINDS - 1])
    steal = int(fields[TIME_KINDS - 1]) if len(fields) >= TIME_KINDS else None
    return user, nice, system, idle, iowait, irq, softirq, steal


RESOURCES = ("cpu", "io", "memory")


def pressure(root: Path) -> HostSource:
    """How long tasks waited for a core, a disk or memory.

    With the counters switched off, a kernel has the files, and reading them fails.
    """
    files = tuple(KernelFile(root / "proc/pressure" / resource) for resource in RESOURCES)
    return HostSource("pressure", HOST, FAST, PRESSURE, files, _pressures)


def _pressures(contents: Contents) -> Values:
    by_name = {
        f"{resource}_{kind}": total
        for resource, content in zip(RESOURCES, contents, strict=True)
        for kind, total in pressure_totals(content).items()
    }
    return tuple(by_name.get(name) for name in PRESSURES)


NO_DISK = re.compile(r"(loop|ram|zram|fd|sr)\d+")
PARTITION = re.compile(r"((nvme|mmcblk)\w*p|[a-z]+)\d+")
"""How partitions are named, where /sys does not list the whole disks."""
MOST_DISKS = 64
FIELDS = 13


def disks(root: Path) -> HostSource:
    """What each whole disk that the machine has at the start read and wrote; disks in memory are left out."""
    file = KernelFile(root / "proc/diskstats")
    rows = (line.split() for line in (file.read() or b"").splitlines())
    listed = [fields[2].decode() for fields in rows if len(fields) >= FIELDS]
    names = tuple(name for name in listed if _is_whole(root, name))[:MOST_DISKS]
    lines = [re.compile(rb" " + re.escape(name.encode()) + rb" (.*)") for name in names]
    parse = parser_of_lines(lines, _disk_row, len(DISKS))
    return HostSource("diskstats", DISK, FAST, DISKS, (file,), parse, names)


def _is_whole(root: Path, name: str) -> bool:
    blocks = root / "sys/block"
    whole = (blocks / name).exists() if blocks.is_dir() else not PARTITION.fullmatch(name)
    return whole and not NO_DISK.fullmatch(name)


def _disk_row(counts: bytes) -> Values:
    """The columns of DISKS, of what stands behind the device's name."""
    reads, _, read, read_ms, writes, _, written, write_ms, flying, busy_ms = map(int, counts.split()[:10])
    return read, written, reads, writes, read_ms, write_ms, flying, busy_ms


MOST_INTERFACES = 32


def networks(root: Path) -> HostSource:
    """What each interface carried that is a device of the machine or had traffic before the start."""
    file = KernelFile(root / "proc/net/dev")
    rows = [line.rpartition(b":") for line in (file.read() or b"").splitlines()[2:]]
    counted = [(name.strip().decode(), _interface_row(counts)) for name, _, counts in rows if counts]
    names = tuple(name for name, row in counted if row[0] or row[1] or _is_device(root, name))[
        :MOST_INTERFACES
    ]
    lines = [re.compile(rb"^ *" + re.escape(name.encode()) + rb":(.*)", re.MULTILINE) for name in names]
    parse = parser_of_lines(lines, _interface_row, len(NETWORKS))
    return HostSource("net/dev", NET, FAST, NETWORKS, (file,), parse, names)


def _is_device(root: Path, name: str) -> bool:
    return (root / "sys/class/net" / name / "device").exists()


def _interface_row(counts: bytes) -> Values:
    """The columns of NETWORKS, of what stands behind the interface's name."""
    fields = [int(field) for field in counts.split()]
    return fields[0], fields[8], fields[3], fields[11], fields[2] + fields[10]


COUNTS = re.compile(
    rb"^(pswpin|pswpout|pgmajfault|oom_kill|allocstall\w*|workingset_refault(?:_file)?) (\d+)$", re.MULTILINE
)
"""The few that are used, of some two hundred lines."""


def meminfo(root: Path) -> HostSource:
    """Amounts of memory by use."""
    return HostSource("meminfo", HOST, SLOW, MEMINFO, (KernelFile(root / "proc/meminfo"),), _memory)


def vmstat(root: Path) -> HostSource:
    """Costs of a shortage of memory: faults, reclaims, swapping."""
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


RUNNING = re.compile(rb"^procs_running (\d+)", re.MULTILINE)
BLOCKED = re.compile(rb"^procs_blocked (\d+)", re.MULTILINE)
TCP_FIELDS = (b"OutSegs", b"RetransSegs")


def load(root: Path) -> HostSource:
    """Tasks that run or wait."""
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


SOURCES: tuple[Callable[[Path], HostSource], ...] = (
    cpu,
    pressure,
    disks,
    networks,
    meminfo,
    vmstat,
    load,
    tcp,
    cores,
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
