"""`gputel record` itself: owns the terminal, starts keeper, command and sampler, and replaces ours where they die.

In: a `Job`. Out: an `Outcome`. It has one thread, since it forks, and loads nothing heavy. Killed, it costs
nothing but the view: the rest goes on, and the keeper writes how it ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Stamp, SystemClock
from gputel.telemetry.process import children, libc, spawn
from gputel.telemetry.process.children import Sample, Supervisor
from gputel.telemetry.process.signals import ENDING, Forwarder, Signals
from gputel.telemetry.process.status_line import StatusReporter
from gputel.telemetry.process.terminal import KEYBOARD, STANDARD_ERROR, PseudoTerminal, Screen
from gputel.telemetry.store import compact

TICK_MS = 250
FIRST_WORD = 2 * SECOND
"""So long a command that ends at once waits for the sampler to say whether there is a GPU."""


@dataclass(frozen=True)
class Job:
    folder: Path
    """Of the segment."""
    sample: Sample
    argv: tuple[str, ...] = ()
    """The command; empty for a recording without one."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    follow: Path | None = None
    pid: int | None = None
    duration_s: float | None = None
    pty: bool = False
    show: int = 1
    """Where the command's output goes."""
    beside: Callable[[int], Sequence[str]] | None = None
    """A process to start beside the recording, given the command's number, or 0 where there is none."""


@dataclass(frozen=True)
class CommandEnd:
    exit_code: int
    signal: int | None
    """Of which the command died, where we are to end likewise."""
    fault: dict[str, str] | None
    """Why nothing was sampled."""
    lost: int
    """Bytes of output."""
    left_behind: bool
    """A keeper still writes the output of a process that outlived the command."""
    cut_short: bool


def record(job: Job) -> CommandEnd:
    """Until the command, the process, the time or the user's patience ends. Reaps every child of this process."""
    spawn.require_linux()
    spawn.fill_standard()
    viewer = Viewer(job)
    try:
        return viewer.view()
    finally:
        viewer.leave()


class Viewer:
    def __init__(self, job: Job) -> None:
        self._job, self._clock = job, SystemClock()
        self._signals = Signals()
        libc.become_subreaper()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._began = self._clock.stamp()
        with contextlib.suppress(OSError):
            run_folder.update(job.folder, started=self._began.as_json())
        self._pseudo = PseudoTerminal() if job.pty and job.argv else None
        self._kept = self._keep()
        if job.beside:
            spawn.start_beside(job.beside((self._kept and self._kept.command) or 0), job.env)
        self._forwarder = Forwarder(self._kept.ledger, self._kept.send) if self._kept else None
        state = self._kept.state if self._kept else None
        self._screen = Screen(state, job.show if job.argv else None)
        self._sampling = Supervisor(job.sample, self._life())
        self._stopped: Stamp | None = None
        self._cut = False
        self._looked = time.monotonic_ns()
        status = self._pseudo is None and os.isatty(STANDARD_ERROR)
        self._reporter = StatusReporter(self._screen, self._sampling, self._kept, self._began, status=status)

    def view(self) -> CommandEnd:
        self._sampling.start()
        if self._pseudo:
            self._pseudo.begin()
        while not self._cut and not self._is_over():
            self._turn()
        if self._kept:
            self._kept.write_end()
        elif self._stopped:
            with contextlib.suppress(OSError):
                run_folder.update(self._job.folder, ended=self._stopped.as_json(), exit_code=0)
        self._close()
        return self._outcome()

    def leave(self) -> None:
        """The terminal as it was, and Ctrl-C able to interrupt what our caller does next."""
        self._screen.clear()
        self._signals.unblock_interrupt()
        if self._pseudo:
            self._pseudo.restore()

    def _keep(self) -> children.KeeperHandle | None:
        job = self._job
        if job.argv:
            return children.wrap(job.folder, job.argv, job.env, self._signals, self._news, self._pseudo)
        if job.follow:
            return children.follow(job.folder, job.follow, job.pid, self._signals, self._news)
        return None

    def _life(self) -> int:
        """Sampling ends with the command, with the process that is followed, or with us."""
        if self._kept and self._kept.process is not None:
            return self._kept.process
        return children.open_pidfd(self._job.pid or os.getpid())

    def _is_over(self) -> bool:
        if self._job.argv:
            assert self._kept
            return self._kept.is_over() and not self._screen.pending and self._has_first_word()
        if self._sampling.fault and not self._sampling.ever_sampled and not self._job.follow:
            return True
        return self._stopped is not None and (self._kept is None or self._kept.is_over())

    def _has_first_word(self) -> bool:
        told = self._sampling.finished or self._sampling.ever_sampled
        return told or time.monotonic_ns() - self._began.monotonic > FIRST_WORD

    def _turn(self) -> None:
        since, self._looked = self._looked, time.monotonic_ns()
        for descriptor in self._wait():
            if descriptor == self._signals.descriptor:
                self._take_signals(since)
            elif descriptor == self._news:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._news)
            elif descriptor == self._job.show:
                self._screen.advance()
            elif descriptor == KEYBOARD and self._pseudo:
                self._pseudo.pass_on()
        self._settle()
        self._sampling.look()
        if self._has_ended():
            self._sampling.finish()
        self._look_at_end()
        self._reporter.report()

    def _wait(self) -> list[int]:
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        poll.register(self._news, select.POLLIN)
        if self._screen.pending:
            poll.register(self._job.show, select.POLLOUT)
        if self._pseudo and self._pseudo.listening:
            poll.register(KEYBOARD, select.POLLIN)
        due = self._forwarder.due if self._forwarder else None
        left_ms = TICK_MS if due is None else min(TICK_MS, max(0, due - time.monotonic_ns()) / 1e6)
        return [descriptor for descriptor, _ in poll.poll(left_ms)]

    def _take_signals(self, since: int) -> None:
        for arrival in libc.arrivals(self._signals.descriptor):
            if arrival.number == signal.SIGCHLD:
                self._reap()
            elif self._forwarder is None or self._job.follow:
                self._answer_alone(arrival.number)
            else:
                self._cut = self._cut or self._comes_after_end(arrival.number, since)
                self._forwarder.arrived(arrival, since)

    def _comes_after_end(self, number: int, since: int) -> bool:
        """Not the same Ctrl-C that ended the command."""
        ended = self._kept.ledger.ended if self._kept else None
        return number in (*ENDING, signal.SIGQUIT) and ended is not None and ended.monotonic < since

    def _answer_alone(self, number: int) -> None:
        """Without a command the first Ctrl-C ends the recording, and the second its closing."""
        if number == signal.SIGTSTP:
            self._stop_here()
        elif number in (*ENDING, signal.SIGQUIT):
            self._cut = self._stopped is not None
            self._stop_recording()

    def _settle(self) -> None:
        if not (self._kept and self._forwarder):
            return
        for number in self._forwarder.settle(self._kept.keeper):
            if number == signal.SIGTSTP:
                self._stop_here()
            elif number == signal.SIGWINCH and self._pseudo:
                self._pseudo.resize()

    def _stop_here(self) -> None:
        self._screen.clear()
        self._signals.stop_here()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._sampling.pid:
                self._sampling.died(status, over=self._has_ended())
            elif self._kept:
                self._kept.reaped(pid, status)

    def _has_ended(self) -> bool:
        return self._stopped is not None or bool(self._kept and self._kept.ledger.ended)

    def _look_at_end(self) -> None:
        """Of a recording without a command: time is up, or the process has ended."""
        if self._job.argv or self._stopped:
            return
        over = self._job.duration_s is not None and self._elapsed_s() >= self._job.duration_s
        nothing_left = self._sampling.finished and not self._job.follow
        if over or nothing_left or self._followed_ended():
            self._stop_recording()

    def _followed_ended(self) -> bool:
        process = self._kept.process if self._kept else None
        return process is not None and bool(select.select([process], [], [], 0)[0])

    def _stop_recording(self) -> None:
        self._stopped = self._stopped or self._clock.stamp()
        if self._kept:
            self._kept.ledger.end(None, self._stopped)

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self._began.monotonic) / SECOND

    def _close(self) -> None:
        """The sampler seals, and what it wrote is compacted; another Ctrl-C, and readers do that."""
        while not self._cut and self._sampling.pid is not None:
            self._turn()
        if self._sampling.ever_sampled and not self._cut:
            self._compact()

    def _compact(self) -> None:
        child = compact.finish(self._job.folder / "gpu")
        while not self._cut and child.poll() is None:
            self._turn()
        if self._cut:
            child.kill()
        child.communicate()

    def _outcome(self) -> CommandEnd:
        kept = self._kept
        status = kept.ledger.status if kept else 0
        return CommandEnd(
            exit_code=kept.ledger.exit_code or 0 if kept else 0,
            signal=-status if status is not None and -status in ENDING else None,
            fault=None if self._sampling.ever_sampled else self._sampling.fault,
            lost=kept.ledger.lost if kept else 0,
            left_behind=bool(kept and not kept.ledger.drained),
            cut_short=self._cut,
        )
