"""A GPU's users as the driver lists them -> the processes of the command that use it, and the others.

In a container the driver may say numbers of the host, which can equal a number in the container. So inside one a
number counts only if its process has a device of NVIDIA open. If a single number then belongs to no process, and a
single process of the command has such a device open, they are the same; other such numbers are users that cannot be
seen from here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.clock import Clock
from gputel.telemetry.host.process_names import ProcessNames
from gputel.telemetry.machine import COMMAND, GpuUsers, UserLook

DEVICES = ("/dev/nvidia", "/dev/dxg")
"""On Linux, and on Windows' subsystem for Linux."""
INITIAL = "pid:[4026531836]"
"""The namespace of processes that no container has."""
NO_START = 0
OTHER, UNSEEN = "other", "unseen"


class GpuUse(NamedTuple):
    """What a process uses: a bit for each GPU; bytes of their memory and % of their time, added up over them."""

    gpus: int | None = None
    memory: int | None = None
    share: int | None = None

    def plus(self, gpu: int, memory: int | None, share: int | None) -> GpuUse:
        if self.gpus is None:
            return GpuUse(1 << gpu, memory, share)
        return GpuUse(self.gpus | 1 << gpu, _sum(self.memory, memory), _sum(self.share, share))


NO_USE = GpuUse()
Process = tuple[int, int]
"""Number and start."""


class GpuUsage:
    """`look` gives what each followed process uses, by number; `strangers` are those who are not the command's."""

    def __init__(
        self, root: Path, clock: Clock, command: int, names: ProcessNames, latest: Mapping[str, UserLook]
    ) -> None:
        self._proc, self._clock, self._command = root / "proc", clock, command
        self._names, self._latest = names, latest
        self._in_container = not _is_initial(self._proc)
        self._holding: set[Process] = set()
        self._known: tuple[object, ...] = ()
        self._uses: dict[int, GpuUse] = {}
        self.strangers: dict[Process, GpuUse] = {}

    def look(self, followed: Mapping[int, int]) -> Mapping[int, GpuUse]:
        """`followed` has the start of each process; nothing is read where nothing has changed."""
        now = self._clock.monotonic()
        looks = {gpu: look.users for gpu, look in dict(self._latest).items() if now <= look.until}
        known = (looks, followed)
        if known != self._known:
            self._known = known
            self._assign(looks, followed)
        return self._uses

    def faults(self) -> str | None:
        """Why users are not known."""
        faults = [f"GPU {gpu}: {look.users.fault}" for gpu, look in self._latest.items() if look.users.fault]
        return "; ".join(faults) or None

    def _assign(self, looks: Mapping[str, GpuUsers], followed: Mapping[int, int]) -> None:
        self._holding &= set(followed.items())
        owners = self._owners({user.pid for users in looks.values() for user in users.users}, followed)
        uses: dict[int, GpuUse] = {}
        strangers: dict[Process, GpuUse] = {}
        for index, users in looks.items():
            gpu = self._names.gpu(index)
            for user in users.users:
                pid, start = owner = owners[user.pid]
                if followed.get(pid) == start:
                    uses[pid] = uses.get(pid, NO_USE).plus(gpu, user.memory, user.share)
                else:
                    strangers[owner] = strangers.get(owner, NO_USE).plus(gpu, user.memory, user.share)
        self._uses, self.strangers = uses, strangers

    def _owners(self, numbers: Collection[int], followed: Mapping[int, int]) -> dict[int, Process]:
        """The process behind each number of the driver."""
        owners: dict[int, Process] = {}
        for number in numbers:
            own = self._command if number == COMMAND else number
            if own in followed and (
                number == COMMAND or not self._in_container or self._holds(own, followed)
            ):
                owners[number] = own, followed[own]
            else:
                owners[number] = number, self._start(number)
        unseen = [number for number, (_, start) in owners.items() if start == NO_START]
        if len(unseen) == 1 and self._in_container:
            named = {pid for pid, _ in owners.values()}
            holders = [pid for pid in followed if pid not in named and self._holds(pid, followed)]
            if len(holders) == 1:
                owners[unseen[0]] = holders[0], followed[holders[0]]
        for pid, start in {owner for owner in owners.values() if owner not in followed.items()}:
            self._names.stranger(pid, start, self._name(pid) if start else None, OTHER if start else UNSEEN)
        return owners

    def _start(self, pid: int) -> int:
        """When a process that is not the command's was started; NO_START of one that cannot be seen from here."""
        if self._in_container and not _has_device_open(self._proc / str(pid)):
            return NO_START
        try:
            return int((self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            return NO_START

    def _name(self, pid: int) -> str | None:
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
        except OSError:
            return None

    def _holds(self, pid: int, followed: Mapping[int, int]) -> bool:
        process = pid, followed[pid]
        if process not in self._holding and _has_device_open(self._proc / str(pid)):
            self._holding.add(process)
        return process in self._holding


def _is_initial(proc: Path) -> bool:
    try:
        return str((proc / "self/ns/pid").readlink()) == INITIAL
    except OSError:
        return False


def _has_device_open(process: Path) -> bool:
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        return False
    return any(_target(link).startswith(DEVICES) for link in links)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b
