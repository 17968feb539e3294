"""Passes each signal on to the command exactly once.

Viewer and keeper block signals and read them from a descriptor. The keeper is in the command's process group, so
the command got every signal that the keeper got: from the terminal, from a kill of the group, or from Slurm,
which signals every process. A signal that reached the viewer alone was meant for the command, and is forwarded.
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
"""If the command died of one of these, so does gputel, which stops a loop in the user's shell."""
SET_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Ignored by the Python interpreter; a command must not inherit that."""
KEEPER_WAIT = SECOND // 20


class Signals:
    """Blocks the signals to forward; those already ignored stay ignored (nohup, `&` in a script)."""

    def __init__(self) -> None:
        self._ignored = {number for number in (signal.SIGCHLD, signal.SIGALRM) if _is_ignored(number)}
        self._watched = {number for number in FORWARDED if not _is_ignored(number)} | {signal.SIGCHLD}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # while it is ignored, waitpid finds no child
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self.descriptor = libc.signalfd(self._watched)

    def restore(self) -> None:
        """Restore the original mask and dispositions, in a child that becomes the command."""
        for name in SET_BY_PYTHON:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        for number in self._ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def unblock_interrupt(self) -> None:
        """Let Ctrl-C raise KeyboardInterrupt again; the other signals stay blocked."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT} - self._mask)

    def stop_here(self) -> None:
        """Stop this process, as Ctrl-Z does; returns when it is continued."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        signal.raise_signal(signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


class PendingSignal(NamedTuple):
    """A signal at the viewer, and when to decide whether to forward it."""

    arrival: libc.Arrival
    since: int
    due: int


class Forwarder:
    """Decides, shortly after a signal arrived at the viewer, whether the command has it already."""

    def __init__(self, ledger: Ledger, send: Callable[[int], None]) -> None:
        self._ledger, self._send = ledger, send
        self._waiting: list[PendingSignal] = []

    def arrived(self, arrival: libc.Arrival, since: int) -> None:
        """Note a signal at the viewer, which had not arrived by `since`."""
        # two quick Ctrl-C may be merged into one at the keeper, whose note then counts for both
        slack = SECOND if arrival.code == libc.SENT_BY_KERNEL else KEEPER_WAIT
        self._waiting.append(PendingSignal(arrival, since - slack, time.monotonic_ns() + KEEPER_WAIT))

    @property
    def due(self) -> int | None:
        return min((waiting.due for waiting in self._waiting), default=None)

    def settle(self, keeper: int | None) -> list[int]:
        """Forward what is due; returns the numbers of the signals that were decided."""
        now = time.monotonic_ns()
        due = [waiting for waiting in self._waiting if waiting.due <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting.due > now]
        for waiting in due:
            if not self._reached_keeper(waiting, keeper):
                self._send(waiting.arrival.number)
        return [waiting.arrival.number for waiting in due]

    def _reached_keeper(self, waiting: PendingSignal, keeper: int | None) -> bool:
        if keeper is None:
            return waiting.arrival.code == libc.SENT_BY_KERNEL
        if self._is_seen(waiting) or waiting.arrival.number in libc.pending_signals(keeper):
            return True
        return self._is_seen(waiting)  # the keeper may have read it between the two checks

    def _is_seen(self, waiting: PendingSignal) -> bool:
        seen, arrival = self._ledger.seen_signal(waiting.arrival.number), waiting.arrival
        return seen.monotonic >= waiting.since and (seen.code, seen.sender) == (arrival.code, arrival.sender)


def note_arrivals(descriptor: int, ledger: Ledger) -> None:
    """Note in the ledger, for the viewer, which signals the keeper got."""
    for arrival in libc.arrivals(descriptor):
        ledger.note_signal(arrival.number, SeenSignal(time.monotonic_ns(), arrival.code, arrival.sender))


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def end_by(number: int) -> None:
    """End this process by a signal, as the command ended. PID 1 cannot, and returns."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.raise_signal(number)
