"""What /proc says of a process that may be stuck: its state, where the kernel waits, what it has used."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.inside.stacks import ChildrenFacts, ProcessFacts
from gputel.telemetry.secrets import mask, mask_argv

PROC = Path("/proc")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LONGEST_COMMAND = 300
RESTING = "SD"
TRIES, AGAIN_S = 20, 0.003
MOST_TICKS, MOST_SWITCHES = 5, 400
"""The most per second of a thread that waits for the GIL: 200 switches, and a tick or two."""


def facts(pid: int, proc: Path = PROC) -> ProcessFacts | None:
    """Facts about a process; None if it has ended, or there is no /proc. Secrets in the command line are masked."""
    folder = proc / str(pid)
    stat = _stat(folder / "stat")
    if stat is None or stat[0] in "ZX":
        return None
    words = [word for word in (_text(folder / "cmdline") or "").split("\0") if word]
    return ProcessFacts(
        parent=int(stat[1]),
        start=int(stat[19]),
        state=stat[0],
        command=mask(" ".join(mask_argv(words)))[:LONGEST_COMMAND],
        wait_channel=_text(folder / "wchan") or None,
        cpu_s=(int(stat[11]) + int(stat[12])) * TICK_S,
        io_bytes=_io_bytes(_text(folder / "io")),
        wakeups=_wakeups(_text(folder / "status")),
    )


def children(listening: Collection[int], proc: Path = PROC) -> dict[int, ChildrenFacts]:
    """What the processes below each of these have used, but for those below another of them."""
    stats = {int(path.name): stat for path in proc.glob("[0-9]*") if (stat := _stat(path / "stat"))}
    below: dict[int, set[int]] = {pid: set() for pid in listening if pid in stats}
    for pid in stats.keys() - below.keys():
        above, seen = int(stats[pid][1]), {pid}
        while above in stats and above not in below and above not in seen:
            seen.add(above)
            above = int(stats[above][1])
        if above in below:
            below[above].add(pid)
    return {
        pid: ChildrenFacts(
            frozenset(found),
            TICK_S * (_ticks(stats[pid], 13) + sum(_ticks(stats[each], 11) for each in found)),
            sum(_io_bytes(_text(proc / str(each) / "io")) or 0 for each in found),
            sum(_wakeups(_text(proc / str(each) / "status")) or 0 for each in found),
        )
        for pid, found in below.items()
    }


def _ticks(stat: list[str], first: int) -> int:
    """CPU time: from field 11 on of the process, from 13 on of its children that have ended."""
    return sum(map(int, stat[first:15]))


class Activity(NamedTuple):
    """What a thread has used so far."""

    ticks: int
    switches: int


def activity(pid: int, proc: Path = PROC) -> dict[str, Activity] | None:
    """What each thread has used; None if one runs, or cannot be read.

    A thread that waits for the GIL wakes up now and then: only one that is seen to run each time runs.
    """
    for _ in range(TRIES):
        threads = _resting(pid, proc)
        if threads is not None:
            return threads
        time.sleep(AGAIN_S)
    return None


def _resting(pid: int, proc: Path) -> dict[str, Activity] | None:
    threads: dict[str, Activity] = {}
    try:
        tasks = sorted(os.listdir(proc / str(pid) / "task"))  # noqa: PTH208
    except OSError:
        return None
    for task in tasks:
        stat = _stat(proc / str(pid) / "task" / task / "stat")
        status = _text(proc / str(pid) / "task" / task / "status")
        if stat is None or status is None or stat[0] not in RESTING:
            return None
        switches = sum(map(int, re.findall(r"ctxt_switches:\s*(\d+)", status)))
        threads[task] = Activity(int(stat[11]) + int(stat[12]), switches)
    return threads


def stands_still(
    before: Mapping[str, Activity] | None, after: Mapping[str, Activity] | None, seconds: float
) -> bool:
    """Whether a signal finds all frames as they are: one thread holds the GIL and sleeps, the others wait for it.

    A thread that waits for the GIL asks for it every 5 ms, and uses next to nothing.
    """
    if not before or not after or before.keys() != after.keys():
        return False
    used = [
        (after[task].ticks - ticks, after[task].switches - switches)
        for task, (ticks, switches) in before.items()
    ]
    most = MOST_TICKS * seconds, MOST_SWITCHES * seconds
    return (0, 0) in used and all(ticks <= most[0] and switches <= most[1] for ticks, switches in used)


def catches(pid: int, number: int, proc: Path = PROC) -> bool:
    """Whether a process has a handler for a signal."""
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", _text(proc / str(pid) / "status") or "", re.MULTILINE)
    return bool(found and int(found[1], 16) >> (number - 1) & 1)


def has_open(pid: int, path: Path, proc: Path = PROC) -> bool:
    """Whether a process has this file open."""
    folder = proc / str(pid) / "fd"
    try:
        return any(os.readlink(folder / name) == str(path) for name in os.listdir(folder))  # noqa: PTH115, PTH208
    except OSError:
        return False


def number(pid: int, names: tuple[str, ...], proc: Path = PROC) -> int | None:
    """The first of these environment variables that was a number when the process started."""
    entries = (_text(proc / str(pid) / "environ") or "").split("\0")
    variables = dict(entry.partition("=")[::2] for entry in entries)
    return next((int(variables[name]) for name in names if variables.get(name, "").isdigit()), None)


def foreign_pythons(
    variable: bytes, folder: bytes, proc: Path = PROC, user: int | None = None
) -> Iterator[int]:
    """Pythons of other users in whose environment the variable names the folder; only root can read that."""
    own = os.getuid() if user is None else user
    for path in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes() if path.stat().st_uid != own else b""
            if b"python" in words.partition(b"\0")[0].rpartition(b"/")[2]:
                entries = (path / "environ").read_bytes().split(b"\0")
                if any(each.startswith(variable) and each.endswith(folder) for each in entries):
                    yield int(path.name)


def _stat(path: Path) -> list[str] | None:
    """The fields of `stat` behind the name, which may hold spaces and brackets."""
    fields = (_text(path) or "").rpartition(")")[2].split()
    return fields if len(fields) > 19 else None


def thread_wakeups(pid: int, tid: int, proc: Path = PROC) -> int | None:
    """How often a thread has slept and gone on; None if it has ended."""
    return _wakeups(_text(proc / str(pid) / "task" / str(tid) / "status"))


def _wakeups(text: str | None) -> int | None:
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text or "", re.MULTILINE)
    return int(found[1]) if found else None


def _io_bytes(text: str | None) -> int | None:
    found = re.findall(r"^[rw]char: (\d+)", text or "", re.MULTILINE)
    return sum(map(int, found)) if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None
