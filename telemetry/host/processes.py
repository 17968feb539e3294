"""The processes of the command: a row a second for each that did something, read from files that stay open.

A process whose files say what they said a second ago writes no row; the command itself always does, so that the
rows tell when the others were looked at. A descriptor of a process that has ended fails for good, even if its
number is given out again: no reuse is missed.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.host.columns import PROCESSES
from gputel.telemetry.host.gpu_users import NO_USE, GpuUsage, GpuUse, Process
from gputel.telemetry.host.kernel_files import Values
from gputel.telemetry.host.process_names import ProcessNames

MOST = 1000
"""Processes that are followed at a time."""
FILES = ("stat", "schedstat", "io", "wchan")
LONGEST = 1024
ENDED = ord("X")
ZOMBIES = b"ZX"
NEVER_RAN = b"0 "
"""What `schedstat` begins with where the kernel does not count."""
DIGITS = "0123456789"
Contents = tuple["bytes | None", ...]


class Stat(NamedTuple):
    """The fields of `stat` that are used; times in clock ticks, memory in pages."""

    name: bytes
    state: int
    parent: int
    major_faults: int
    cpu: int
    cpu_of_ended_children: int
    threads: int
    start: int
    resident: int


@dataclass
class ProcessFiles:
    """A process that is followed; `last` is what its files said."""

    pid: int
    start: int
    descriptors: tuple[int, int, int, int]
    name: bytes
    last: Contents = field(default=())
    alone: bool = False
    """Whether its main thread is its only one, and the kernel counts how long that ran."""
    use: GpuUse = NO_USE

    def read(self) -> Contents | None:
        """Its files, those that are refused as None; None once it has ended.

        If its main thread has not run for a nanosecond, and no thread for a tick of a core, nothing else of it is
        read: it waits where it waited. Of a single thread the first says the second, and costs a third of it.
        """
        stat, schedstat, io, wchan = self.descriptors
        try:
            ran = os.pread(schedstat, LONGEST, 0)
            if self.alone and ran == self.last[1]:
                return self.last
            current = os.pread(stat, LONGEST, 0), ran
            if current == self.last[:2]:
                return self.last
            contents: Contents = (*current, os.pread(io, LONGEST, 0), os.pread(wchan, LONGEST, 0))
        except OSError:  # one of them is refused, or it has ended
            contents = tuple([_pread(each) for each in self.descriptors])
        return contents if contents[0] else None

    def close(self) -> None:
        for descriptor in self.descriptors:
            if descriptor >= 0:
                os.close(descriptor)


class ProcessTree:
    """The command and its descendants; `rows` looks at them once."""

    def __init__(self, root: Path, command: int, names: ProcessNames, usage: GpuUsage) -> None:
        self._proc, self._command, self._names, self._usage = root / "proc", command, names, usage
        self._strangers: dict[Process, GpuUse] = {}
        self._processes: dict[int, ProcessFiles] = {}
        self._others: set[int] = set()
        """Processes that are not the command's."""
        self.left_out = 0
        """Processes beyond MOST."""

    def rows(self) -> Iterator[Values]:
        self._join()
        uses = self._usage.look({pid: process.start for pid, process in self._processes.items()})
        for pid, process in list(self._processes.items()):
            contents, use = process.read(), uses.get(pid, NO_USE)
            if contents == process.last and use == process.use and pid != self._command:
                continue
            stat = _parse(contents[0]) if contents and contents[0] else None
            if contents is None or stat is None or stat.state in ZOMBIES:
                del self._processes[pid]
                process.close()
                self._names.end(process.pid, process.start)
                yield _last_row(pid, process.start)
                continue
            process.last, process.use = contents, use
            process.alone = stat.threads == 1 and not (contents[1] or NEVER_RAN).startswith(NEVER_RAN)
            if stat.name != process.name:  # it has become another program
                process.name = stat.name
                self._names.begin(pid, process.start, stat.parent, stat.name)
            yield *self._row(process, stat, contents), *use
        yield from self._rows_of_strangers()

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _rows_of_strangers(self) -> Iterator[Values]:
        """Rows of the processes that use a GPU beside the command: what they use of it, and their end."""
        before, self._strangers = self._strangers, dict(self._usage.strangers)
        for process, use in self._strangers.items():
            if before.get(process) != use:
                yield *process, *(None,) * (len(PROCESSES) - 2 - len(use)), *use
        for process in before.keys() - self._strangers.keys():
            yield _last_row(*process)

    def _row(self, process: ProcessFiles, stat: Stat, contents: Contents) -> Values:
        called, read, written = _io(contents[2])
        waited = contents[1].split()[1] if contents[1] else None
        return (
            process.pid,
            process.start,
            stat.cpu,
            stat.cpu_of_ended_children,
            stat.resident,
            stat.threads,
            stat.major_faults,
            read,
            written,
            called,
            None if waited is None else int(waited),
            stat.state,
            self._names.wait_channel(contents[3]),
        )

    def _join(self) -> None:
        """Follow new processes whose parent is followed, until there are no more of them."""
        try:
            listed = {int(name) for name in os.listdir(self._proc) if name[0] in DIGITS}  # noqa: PTH208
        except OSError:
            listed = {self._command}
        self._others &= listed
        new = sorted(listed - self._others - self._processes.keys())
        parents = {pid: stat for pid in new if (stat := self._stat(pid))}
        joined = True
        while joined:
            joined = False
            for pid, stat in list(parents.items()):
                if pid == self._command or stat.parent in self._processes:
                    del parents[pid]
                    joined = self._follow(pid, stat) or joined
        self._others.update(pid for pid, stat in parents.items() if stat.parent not in self._processes)

    def _follow(self, pid: int, stat: Stat) -> bool:
        if stat.state in ZOMBIES:
            return False
        if len(self._processes) >= MOST:
            self.left_out += 1
            self._others.add(pid)
            return False
        stat_file, schedstat, io, wchan = (_open(self._proc / str(pid) / name) for name in FILES)
        descriptors = stat_file, schedstat, io, wchan
        self._processes[pid] = ProcessFiles(pid, stat.start, descriptors, stat.name)
        self._names.begin(pid, stat.start, stat.parent, stat.name)
        return True

    def _stat(self, pid: int) -> Stat | None:
        try:
            return _parse((self._proc / str(pid) / "stat").read_bytes())
        except OSError:
            return None


def _last_row(pid: int, start: int) -> Values:
    return tuple({"pid": pid, "start": start, "state": ENDED}.get(column.name) for column in PROCESSES)


def raise_file_limit() -> None:
    """Let this process open as many files as it may: four for each process that is followed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open(path: Path) -> int:
    """A descriptor; -1 where it is refused."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _pread(descriptor: int) -> bytes | None:
    if descriptor < 0:
        return None
    try:
        return os.pread(descriptor, LONGEST, 0)
    except OSError:
        return None


def _parse(content: bytes) -> Stat | None:
    """None of a file that says something else. The name may hold spaces and brackets."""
    begin, end = content.find(b"("), content.rfind(b")")
    fields = content[end + 2 :].split()
    if begin < 0 or end < begin or len(fields) < 22:
        return None
    numbers = [int(value) for value in fields[1:22]]
    return Stat(
        name=content[begin + 1 : end],
        state=fields[0][0],
        parent=numbers[0],
        major_faults=numbers[8],
        cpu=numbers[10] + numbers[11],
        cpu_of_ended_children=numbers[12] + numbers[13],
        threads=numbers[16],
        start=numbers[18],
        resident=numbers[20],
    )


def _io(content: bytes | None) -> tuple[int | None, int | None, int | None]:
    """Bytes read by calls, read from storage, written to storage; None where the file is refused."""
    fields = (content or b"").split()
    if len(fields) < 12:
        return None, None, None
    return int(fields[1]), int(fields[9]), int(fields[11])
