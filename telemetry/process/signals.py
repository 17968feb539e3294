"""A signal reaches the command exactly once.

Viewer and keeper block signals and read them from a descriptor. The keeper stands in the command's process
group, so what the keeper got, the command got too: from the terminal, from a kill of the group, from Slurm, which
signals every process. What the viewer got alone was meant for the command, and is forwarded.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import libc
from gputel.telemetry.process.shared_memory import Ledger, SeenSignal

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those by which we end ourselves when the command died of them, so that a shell's loop stops."""
SET_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Ignored by the interpreter from its start on, which a command must not inherit."""
KEEPER_WAIT = SECOND // 20


class Signals:
    """Blocks what is to be forwarded; what was ignored when we came stays ignored (nohup, `&` in a script)."""

    def __init__(self) -> None:
        self._ignored = {number for number in (signal.SIGCHLD, signal.SIGALRM) if _is_ignored(number)}
        self._watched = {number for number in FORWARDED if not _is_ignored(number)} | {signal.SIGCHLD}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody can be waited for
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self.descriptor = libc.signalfd(self._watched)

    def restore(self) -> None:
        """In a child that becomes a command: mask and dispositions as we found them."""
        for name in SET_BY_PYTHON:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        for number in self._ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def unblock_interrupt(self) -> None:
        """Ctrl-C raises KeyboardInterrupt again; what else came to end us still does not."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT} - self._mask)

    def stop_here(self) -> None:
        """What Ctrl-Z does to any other program; returns when we are continued."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        signal.raise_signal(signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


class PendingSignal(NamedTuple):
    arrival: libc.Arrival
    since: int
    due: int


class Forwarder:
    """Decides, a moment after a signal arrived at the viewer, whether the command has it already."""

    def __init__(self, ledger: Ledger, send: Callable[[int], None]) -> None:
        self._ledger, self._send = ledger, send
        self._waiting: list[PendingSignal] = []

    def arrived(self, arrival: libc.Arrival, since: int) -> None:
        """`since`: when the viewer looked last, before which this signal had not come."""
        # two Ctrl-C in a row may be one to the keeper: its witness of the first counts for the second too
        slack = SECOND if arrival.code == libc.SENT_BY_KERNEL else KEEPER_WAIT
        self._waiting.append(PendingSignal(arrival, since - slack, time.monotonic_ns() + KEEPER_WAIT))

    @property
    def due(self) -> int | None:
        return min((waiting.due for waiting in self._waiting), default=None)

    def settle(self, keeper: int | None) -> list[int]:
        """Forward what is due; gives the numbers of those signals that were decided."""
        now = time.monotonic_ns()
        ripe = [waiting for waiting in self._waiting if waiting.due <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting.due > now]
        for waiting in ripe:
            if not self._reached_keeper(waiting, keeper):
                self._send(waiting.arrival.number)
        return [waiting.arrival.number for waiting in ripe]

    def _reached_keeper(self, waiting: PendingSignal, keeper: int | None) -> bool:
        if keeper is None:
            return waiting.arrival.code == libc.SENT_BY_KERNEL
        if self._is_seen(waiting) or waiting.arrival.number in libc.pending_signals(keeper):
            return True
        return self._is_seen(waiting)  # it may have been read between those two looks

    def _is_seen(self, waiting: PendingSignal) -> bool:
        seen, arrival = self._ledger.seen_signal(waiting.arrival.number), waiting.arrival
        return seen.monotonic >= waiting.since and (seen.code, seen.sender) == (arrival.code, arrival.sender)


def note_arrivals(descriptor: int, ledger: Ledger) -> None:
    """The keeper's part."""
    for arrival in libc.arrivals(descriptor):
        ledger.note_signal(arrival.number, SeenSignal(time.monotonic_ns(), arrival.code, arrival.sender))


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def end_by(number: int) -> None:
    """Die of a signal as the command did. PID 1 cannot, and returns."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.raise_signal(number)
