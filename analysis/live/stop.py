"""Stops a command because somebody asked for it beforehand: TERM once, and KILL after a grace.

TERM goes to the recorder, which hands it on exactly once, as it does with anybody's `kill`; to the command itself
where the recorder is gone. KILL goes to the command and all that came of it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path


class Stopper:
    """Takes the numbers of both while they surely live, and holds on to them: numbers are given again."""

    def __init__(self, command: int, recorder: int, grace_s: float) -> None:
        self._number, self._grace_s = command, grace_s
        self._command, self._recorder = held(command), held(recorder)
        self._asked_s: float | None = None
        self._killed = False

    @property
    def asked(self) -> bool:
        return self._asked_s is not None

    def ask(self, now_s: float) -> bool:
        """TERM, the first time; False where it was sent before or nothing is left to stop."""
        if self.asked or has_ended(self._command):
            return False
        self._asked_s = now_s
        _send(self._command if has_ended(self._recorder) else self._recorder, signal.SIGTERM)
        return True

    def look(self, now_s: float) -> bool:
        """KILL once the grace is over; True when that was done now. Called about once a second."""
        if self._asked_s is None or self._killed or now_s - self._asked_s < self._grace_s:
            return False
        self._killed = not has_ended(self._command)
        if self._killed:
            for child in [*descendants(self._number)]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            _send(self._command, signal.SIGKILL)
        return self._killed


def descendants(number: int) -> Iterator[int]:
    """Children first, each before its own."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    waiting = [number]
    while waiting:
        own = children.get(waiting.pop(0), [])
        yield from own
        waiting += own


def held(process: int) -> int | None:
    """0 is no process."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def has_ended(process: int | None, patience_s: float | None = 0) -> bool:
    """Now, or within so many seconds; None waits for it."""
    return process is None or bool(select.select([process], [], [], patience_s)[0])


def _send(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
