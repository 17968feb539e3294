"""`gputel record` itself: owns the terminal; starts keeper, command and sampler, and replaces those that die.

Takes a `Job`, returns a `CommandEnd`. It has one thread, because it forks, and imports nothing heavy. If it is
killed, only the view is lost: the rest goes on, and the keeper records the end.
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

from gputel.telemetry import events, recorder_lock, run_folder
from gputel.telemetry.clock import SECOND, Stamp, SystemClock, set_by_ns
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import children, libc, spawn
from gputel.telemetry.process.children import Sample, Supervisor
from gputel.telemetry.process.companions import Companions, OnDemand, Order
from gputel.telemetry.process.exit_limit import ExitLimit
from gputel.telemetry.process.signals import ENDING, Forwarder, Signals
from gputel.telemetry.process.status_line import StatusReporter
from gputel.telemetry.process.terminal import KEYBOARD, STANDARD_ERROR, PseudoTerminal, Screen

TICK_MS = 250
IDLE_MS = 1000
"""The same while nothing is due but the sampler's heartbeat: each turn costs the machine 300 µs."""
SUPERVISE_EVERY = SECOND // 4
"""While only output wakes the viewer, each line would cost it as much as a turn that looks after everything."""
RETRY_S = 0.05
DESCRIPTORS = 10
"""How many descriptors a recording opens at most, in this process."""
FAULTS_AT_END = 20
"""How many turns in a row may fail once the command has ended, before the closing is given up."""
LONGEST_SAVE = 10 * SECOND
"""How long the end waits for the source to be saved."""
LONGEST_CLOSE = 120 * SECOND
"""How long it waits for the sampler, which gives up on a disk or a driver that hangs before that."""
CLOCK_SET_S = 1.0
"""By how much the machine's clock must have been set for an event."""
FIRST_REPORT = 2 * SECOND
"""How long a command that ends at once waits for the sampler to report whether there is a GPU."""


@dataclass(frozen=True)
class Job:
    """The recording to make."""

    folder: Path
    """The segment's folder."""
    sample: Sample
    argv: tuple[str, ...] = ()
    """The command; empty for a recording without one."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    follow: Path | None = None
    pid: int | None = None
    duration_s: float | None = None
    pty: bool = False
    fsync: bool = False
    """Whether the output is synced to the disk, too."""
    show: int = 1
    """The descriptor for the command's output."""
    beside: Sequence[Order] = ()
    """The processes that guard and watch the command."""
    on_demand: Sequence[OnDemand] = ()
    """Further ones, started when the command has use for them."""
    locks: tuple[int, ...] = ()
    """Descriptors whose locks are held as long as any process of this recording keeps the output."""
    exit_limit: ExitLimit | None = None
    """Begins when the command has ended."""
    save_source: Callable[[], int] | None = None
    """Forks a process that saves what the code was, and returns its process id."""


@dataclass(frozen=True)
class CommandEnd:
    """How a recording ended."""

    exit_code: int
    signal: int | None
    """The signal that ended the command, if gputel should end by it, too."""
    fault: dict[str, str] | None
    """Why nothing was sampled."""
    sampled: bool
    """Whether there is a tick of any GPU."""
    lost: int
    """Bytes of output that were lost: neither disk nor memory took them."""
    missing: int
    """Bytes of output that are missing in output.log, though they were shown."""
    left_behind: bool
    """Whether a keeper still writes the output of a process that outlived the command."""
    unsealed: str | None
    """What of the telemetry was given up on at the end, because a disk or the driver hung."""
    cut_short: bool
    """Whether the user interrupted the closing."""


def record(job: Job) -> CommandEnd:
    """Record until the command, the process or the time ends, or the user stops it. Reaps all of our children.

    Raises GputelError if the recording cannot start. Once the command runs it returns how the command ended,
    whatever else fails.
    """
    spawn.require_linux()
    spawn.require_descriptors(DESCRIPTORS)
    try:
        viewer = Viewer(job)
        viewer.start()
    except (OSError, MemoryError) as error:
        raise spawn.cannot_start(error) from None
    try:
        return viewer.view()
    finally:
        viewer.leave()


class Viewer:
    """The main loop: signals, output, keyboard, and the state of both children."""

    def __init__(self, job: Job) -> None:
        self._job, self._clock = job, SystemClock()
        self._signals = Signals()
        libc.become_subreaper()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._began = self._clock.stamp()
        self._locks = (recorder_lock.hold(job.folder), *job.locks)
        with contextlib.suppress(OSError):
            run_folder.reserve(job.folder).take()
        with contextlib.suppress(OSError):
            run_folder.update(job.folder, started=self._began.as_json())
        self._pseudo = PseudoTerminal() if job.pty and job.argv else None
        self._sampling = Supervisor(job.sample)
        self._screen = Screen(job.show if job.argv else None)
        self._companions = Companions(job.beside, job.env, self._screen.note, job.on_demand)
        status = self._sampling.board.shows_gpus = self._pseudo is None and os.isatty(STANDARD_ERROR)
        self._reporter = StatusReporter(self._screen, self._sampling, self._began, job.folder, status=status)
        self._keeper: children.KeeperHandle | None = None
        self._forwarder: Forwarder | None = None
        self._saving: int | None = None
        self._stopped: Stamp | None = None
        self._cut = False
        self._faults = self._clock_set_by = 0
        self._looked = self._supervise_at = time.monotonic_ns()

    def start(self) -> None:
        """Start keeper and command. From then on a failure of the recorder costs only the part that failed."""
        job = self._job
        if job.pid and not job.follow:
            self._sampling.life = children.open_pidfd(job.pid)
        self._keeper = keeper = self._keep()
        if keeper:
            if keeper.process is not None:
                self._sampling.life = keeper.process
            self._forwarder = Forwarder(keeper.ledger, keeper.send)
            self._screen.attach(keeper.state)
            self._reporter.keeper = keeper
        self._sampling.board.command = (keeper.command if keeper else None) or job.pid
        self._companions.start((keeper and keeper.command) or 0)
        if job.save_source:
            with contextlib.suppress(OSError, MemoryError):
                self._saving = job.save_source()

    def view(self) -> CommandEnd:
        """Run until everything has ended."""
        self._sampling.start()
        if self._pseudo:
            self._pseudo.begin()
        while not self._cut and not self._is_over():
            self._try_turn()
        if self._job.exit_limit:
            self._job.exit_limit.begin(self._keeper.ledger.exit_code or 0 if self._keeper else 0)
        if self._keeper:
            self._keeper.write_end()
        elif self._stopped:
            with contextlib.suppress(OSError):
                run_folder.update_end(
                    self._job.folder,
                    {"ended": self._stopped.as_json(), "exit_code": 0},
                    fsync=self._job.fsync,
                )
        self._close()
        with contextlib.suppress(OSError, GputelError):
            self._sampling.explain(self._job.folder)
        if self._keeper:
            self._keeper.write_rest()
        run_folder.reserve(self._job.folder).release()
        return self._outcome()

    def leave(self) -> None:
        """Restore the terminal, and let Ctrl-C interrupt what the caller does next."""
        self._screen.write_notes(at_once=True)
        self._screen.clear()
        self._signals.unblock_interrupt()
        if self._pseudo:
            self._pseudo.restore()

    def _keep(self) -> children.KeeperHandle | None:
        job = self._job
        place = children.Workplace(job.folder, self._signals, self._news, self._locks, job.fsync)
        if job.argv:
            return children.wrap(place, job.argv, job.env, self._pseudo)
        if job.follow:
            return children.follow(place, job.follow, job.pid)
        return None

    def _is_over(self) -> bool:
        if self._job.argv:
            assert self._keeper
            if self._keeper.is_over() and self._faults > FAULTS_AT_END:
                return True
            return self._keeper.is_over() and not self._screen.pending and self._sampler_has_reported()
        if self._sampling.fault and not self._sampling.ever_sampled and not self._job.follow:
            return True
        return self._stopped is not None and (self._keeper is None or self._keeper.is_over())

    def _sampler_has_reported(self) -> bool:
        sampling = self._sampling
        reported = sampling.finished or sampling.ever_sampled or sampling.fault
        return bool(reported) or time.monotonic_ns() - self._began.monotonic > FIRST_REPORT

    def _try_turn(self) -> None:
        """Take a turn. What fails for lack of memory, processes or descriptors is tried again in the next one."""
        try:
            self._turn()
            self._faults = 0
        except (OSError, MemoryError) as error:
            if not self._faults:
                with contextlib.suppress(OSError, MemoryError):
                    self._screen.note(f"gputel record: {error or 'out of memory'}; the command goes on")
            self._faults += 1
            time.sleep(RETRY_S)

    def _turn(self) -> None:
        since, self._looked = self._looked, time.monotonic_ns()
        ready = self._wait()
        for descriptor in ready:
            if descriptor == self._signals.descriptor:
                self._take_signals(since)
            elif descriptor == self._news:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._news)
            elif descriptor == self._job.show:
                self._screen.advance()
            elif descriptor == KEYBOARD and self._pseudo:
                self._pseudo.pass_on()
        if self._has_ended() or not self._has_only_output(ready) or self._looked >= self._supervise_at:
            self._supervise()

    def _has_only_output(self, ready: Sequence[int]) -> bool:
        """Whether the viewer was woken to show output or to pass on a key, and for nothing else."""
        signalled = self._signals.descriptor in ready or (self._forwarder and self._forwarder.due)
        return bool(ready) and not signalled

    def _supervise(self) -> None:
        """Look after the other processes, and show what is due."""
        self._supervise_at = time.monotonic_ns() + SUPERVISE_EVERY
        self._reap()
        self._settle()
        self._sampling.look()
        self._companions.look()
        if self._keeper:
            self._keeper.look()
        if self._has_ended():
            self._sampling.finish()
        self._look_at_end()
        self._look_at_clock()
        self._reporter.report(time.monotonic_ns())

    def _wait(self) -> list[int]:
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        poll.register(self._news, select.POLLIN)
        if self._screen.pending:
            poll.register(self._job.show, select.POLLOUT)
        if self._pseudo and self._pseudo.listening:
            poll.register(KEYBOARD, select.POLLIN)
        due = self._forwarder.due if self._forwarder else None
        tick_ms = IDLE_MS if self._idle() else TICK_MS
        left_ms = tick_ms if due is None else min(tick_ms, max(0, due - time.monotonic_ns()) / 1e6)
        return [descriptor for descriptor, _ in poll.poll(left_ms)]

    def _idle(self) -> bool:
        """Whether all that may happen soon wakes a descriptor."""
        keeper = self._keeper
        if not self._job.argv or keeper is None or keeper.keeper_pid is None or self._reporter.has_line:
            return False
        return self._sampling.settled and not self._has_ended()

    def _take_signals(self, since: int) -> None:
        for arrival in libc.arrivals(self._signals.descriptor):
            if arrival.number == signal.SIGCHLD:
                continue  # each turn reaps: a thread of a library may take the signal from us
            if self._forwarder is None or self._job.follow:
                self._answer_alone(arrival.number)
            else:
                self._cut = self._cut or self._comes_after_end(arrival.number, since)
                self._forwarder.arrived(arrival, since)

    def _comes_after_end(self, number: int, since: int) -> bool:
        """Whether a signal came after the command's end, so that it is not the one that ended it."""
        ended = self._keeper.ledger.ended if self._keeper else None
        return number in (*ENDING, signal.SIGQUIT) and ended is not None and ended.monotonic < since

    def _answer_alone(self, number: int) -> None:
        """Handle a signal without a command: the first Ctrl-C ends the recording, the second its closing."""
        if number == signal.SIGTSTP:
            self._stop_here()
        elif number in (*ENDING, signal.SIGQUIT):
            self._cut = self._stopped is not None
            self._stop_recording()

    def _settle(self) -> None:
        if not (self._keeper and self._forwarder):
            return
        for number in self._forwarder.settle(self._keeper.keeper_pid):
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
            if pid == self._saving:
                self._saving = None
            elif pid == self._sampling.pid:
                self._sampling.died(status, over=self._has_ended())
            elif not self._companions.reaped(pid, status) and self._keeper:
                self._keeper.reaped(pid, status)

    def _has_ended(self) -> bool:
        return self._stopped is not None or bool(self._keeper and self._keeper.ledger.ended)

    def _look_at_end(self) -> None:
        """Stop a recording without a command when its time is up or its process has ended."""
        if self._job.argv or self._stopped:
            return
        elapsed_s = (time.monotonic_ns() - self._began.monotonic) / SECOND
        over = self._job.duration_s is not None and elapsed_s >= self._job.duration_s
        nothing_left = self._sampling.finished and not self._job.follow
        if over or nothing_left or self._followed_ended():
            self._stop_recording()

    def _look_at_clock(self) -> None:
        """Note when the machine's clock was set."""
        set_by = set_by_ns()
        by_s = (set_by - self._clock_set_by) / SECOND
        if abs(by_s) > CLOCK_SET_S:
            self._clock_set_by = set_by
            where = "forward" if by_s > 0 else "back"
            text = f"the machine's clock was set {where} by {abs(by_s):,.1f} s"
            events.note(self._job.folder, "clock", f"{text}; that of the recording goes on as it was")

    def _followed_ended(self) -> bool:
        process = self._keeper.process if self._keeper else None
        return process is not None and bool(select.select([process], [], [], 0)[0])

    def _stop_recording(self) -> None:
        self._stopped = self._stopped or self._clock.stamp()
        if self._keeper:
            self._keeper.ledger.end(None, self._stopped)

    def _close(self) -> None:
        """Wait for the sampler's seal and for the source; another Ctrl-C waits no longer."""
        self._sampling.finish()
        began = time.monotonic_ns()
        while not self._cut and self._faults <= FAULTS_AT_END:
            waited = time.monotonic_ns() - began
            has_ended = self._sampling.pid is None and (self._saving is None or waited > LONGEST_SAVE)
            if has_ended or waited > LONGEST_CLOSE:
                return
            self._try_turn()

    def _outcome(self) -> CommandEnd:
        keeper = self._keeper
        status = keeper.ledger.status if keeper else 0
        return CommandEnd(
            exit_code=keeper.ledger.exit_code or 0 if keeper else 0,
            signal=-status if status is not None and -status in ENDING else None,
            fault=None if self._sampling.ever_sampled else self._sampling.fault,
            sampled=self._sampling.ever_sampled,
            lost=keeper.ledger.lost if keeper else 0,
            missing=keeper.state.queues.missing - keeper.ledger.lost if keeper else 0,
            left_behind=bool(keeper and not keeper.ledger.drained),
            unsealed=None if self._cut else self._sampling.left_behind,
            cut_short=self._cut,
        )
