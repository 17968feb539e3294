"""Several looks at the processes of a training -> what each does: its rank and role, its place, if it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gputel.analysis.incidents import places
from gputel.telemetry.inside.stacks import Collective, Frame, ProcessLook

Role: TypeAlias = Literal["trainer", "worker", "launcher"]
Looks: TypeAlias = Sequence[ProcessLook]

MOVED_BYTES = 1 << 20
"""Read or written between the first look and the last, from which on a process is at work."""
BUSY = 0.05
"""Share of a core from which on a process computes; on a full machine it may get no more."""
OWN_S = 0.03
"""Seconds of CPU time that answering may cost; the kernel counts in steps of 0.01."""
WAKEUPS_S = 0.4
"""Wakeups a second of the thread that trains, from which on it is at work: it reads, polls, or waits for a GPU.

A DataLoader that waits for its workers has 0.2. One for each look that was answered by a signal is not counted.
"""
FEWEST_WAKEUPS = 2
WAKEUPS_OF_PROGRAMS_S = 1.0
"""The same of all programs together that it has started and waits for."""
RUNS, STOPPED, BLOCKED = "R", "Tt", "D"
WAITS_FOR_CHILD = "do_wait"


@dataclass(frozen=True)
class Standing:
    """One process over all looks. `look` is the last one; `moved` is None after a single look."""

    look: ProcessLook
    role: Role
    moved: bool | None
    cpu_cores: float | None
    wakeups_s: float | None = None
    """Of the thread that trains."""
    node: str | None = None
    """Its node, where several nodes are judged together."""

    @property
    def rank(self) -> int | None:
        return self.look.rank

    @property
    def frames(self) -> Sequence[Frame]:
        """The calls of the thread that trains, innermost last."""
        return places.training_thread(self.look.threads).frames

    @property
    def place(self) -> Frame | None:
        """The innermost line of the program's own."""
        return places.own_place(self.frames)

    @property
    def collective(self) -> str | None:
        """The collective in which it waits."""
        name = places.collective(self.frames)
        alone = self.look.world is None or self.look.world < 2
        return None if name == "backward" and alone else name

    @property
    def runs(self) -> bool:
        """Whether it computes: in the program's own code that may be a loop without end, or work."""
        wakes = (self.wakeups_s or 0) >= WAKEUPS_S
        return (self.cpu_cores or 0) >= BUSY or wakes or self.look.facts.state == RUNS

    @property
    def collectives(self) -> Mapping[str, Collective]:
        return {each.group: each for each in self.look.flight.collectives}

    @property
    def fault(self) -> str | None:
        """Why it can do nothing, or gave no answer."""
        state, channel = self.look.facts.state, self.look.facts.wait_channel
        where = f" in {channel}" if channel and channel != "0" else ""
        if state in STOPPED:
            return "is stopped (state T)"
        if state in BLOCKED:
            return f"waits for a disk or a file system (state D{where})"
        return None if self.look.threads else f"does not answer (state {state}{where})"


def standings(rounds: Sequence[Looks]) -> list[Standing]:
    """The state of each process of the last look, over all looks."""
    if not rounds:
        return []
    last = with_missing_rank(rounds[-1])
    earlier = [{_identity(look): look for look in looks} for looks in rounds[:-1]]
    by_pid = {look.pid: look for look in last}
    ranked = any(look.rank is not None for look in last)
    found = []
    for look in last:
        before = [looks[_identity(look)] for looks in earlier if _identity(look) in looks]
        cores = _cores(before, look)
        moved = None if not earlier else len(before) < len(earlier) or _moved([*before, look], cores)
        role = _role(look, by_pid, ranked=ranked)
        found.append(Standing(look, role, moved, cores, _wakeups_s(before, look)))
    return found


def with_missing_rank(looks: Looks) -> Looks:
    """Gives the one rank that is missing to the one silent process that was started like the others.

    A process knows its rank late, and one that is stopped cannot be asked.
    """
    ranked = [look for look in looks if look.rank is not None]
    worlds, parents = {look.world for look in ranked}, {look.facts.parent for look in ranked}
    silent = [
        look for look in looks if look.rank is None and look.facts.parent in parents and not _answers(look)
    ]
    (world,) = worlds if len(worlds) == 1 else (None,)
    missing = set(range(world or 0)) - {look.rank for look in ranked}
    if len(silent) != 1 or len(missing) != 1:
        return looks
    found = replace(silent[0], rank=missing.pop(), world=world)
    return [found if look is silent[0] else look for look in looks]


def _answers(look: ProcessLook) -> bool:
    return look.answered_by == "listener"


def _identity(look: ProcessLook) -> tuple[int, int]:
    return look.pid, look.facts.start


def _role(look: ProcessLook, by_pid: Mapping[int, ProcessLook], *, ranked: bool) -> Role:
    """A worker has a parent of its rank that is no launcher; a launcher may have no rank while others have."""
    if places.is_launcher(places.training_thread(look.threads).frames) or (ranked and look.rank is None):
        return "launcher"
    parent = by_pid.get(look.facts.parent)
    if parent is not None and parent.rank == look.rank and not places.is_launcher(parent.main):
        return "worker"
    return "trainer"


def _cores(before: Looks, look: ProcessLook) -> float | None:
    """How many cores it used since the first look, beyond what answering costs."""
    if not before:
        return None
    seconds, used = look.at_s - before[0].at_s, look.facts.cpu_s - before[0].facts.cpu_s
    return max(0.0, used - OWN_S) / seconds if seconds > 0 else None


def _wakeups_s(before: Looks, look: ProcessLook) -> float | None:
    if not before:
        return None
    first, last = _wakeups(before[0]), _wakeups(look)
    seconds = look.at_s - before[0].at_s
    if first is None or last is None or seconds <= 0:
        return None
    woken = last - first - sum(not _answers(each) for each in before)
    return woken / seconds if woken >= FEWEST_WAKEUPS else 0.0


def _wakeups(look: ProcessLook) -> int | None:
    thread = places.training_thread(look.threads)
    return look.facts.wakeups if thread.main else thread.wakeups


def _moved(looks: Looks, cores: float | None) -> bool:
    """Whether its stack changed, but for the line of the innermost frame: a loop has several.

    Or whether it is at work although its frames stay: it reads or writes, or computes in a library, or waits for a
    thread or a program of its own that works.
    """
    if len({_paths(look) for look in looks}) > 1 or _awaited_program_works(looks):
        return True
    first, last = looks[0].facts.io_bytes, looks[-1].facts.io_bytes
    if first is not None and last is not None and last - first >= MOVED_BYTES:
        return True
    return (cores or 0) >= BUSY and places.works_in_library(places.training_thread(looks[-1].threads).frames)


def _awaited_program_works(looks: Looks) -> bool:
    first, last = looks[0].facts, looks[-1].facts
    waits = last.wait_channel == WAITS_FOR_CHILD or places.waits_for_program(looks[-1].main)
    if not waits or first.children is None or last.children is None:
        return False
    before, after = first.children, last.children
    seconds = looks[-1].at_s - looks[0].at_s
    return (
        after.pids != before.pids
        or after.cpu_s - before.cpu_s >= BUSY * seconds > 0
        or after.io_bytes - before.io_bytes >= MOVED_BYTES
        or after.wakeups - before.wakeups >= WAKEUPS_OF_PROGRAMS_S * seconds > 0
    )


def _paths(look: ProcessLook) -> tuple[object, ...]:
    """The paths of the main thread, and of the threads for which it may wait."""
    awaited = sorted(places.awaited_threads(look.threads), key=lambda thread: thread.name)
    return (_path(look.main), *(_path(thread.frames) for thread in awaited))


def _path(frames: Sequence[Frame]) -> tuple[object, ...]:
    return (*frames[:-1], *(frame[::2] for frame in frames[-1:]))
