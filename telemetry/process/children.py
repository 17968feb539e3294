"""The viewer's side of the keeper: what is being kept, by whom, and whether it is over.

`wrap` begins with a command, `follow` with a log that somebody else writes. A keeper that dies is succeeded.

Keeps one sampler going: forked here, looked after by its heartbeat, started again when it dies or falls silent.

The sampler stands in a session of its own, holds none of the user's descriptors, and ends by itself on the ones
that it is given. What it found out stands on the board, which outlives it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import spawn
from gputel.telemetry.process.attach import GrowingFile
from gputel.telemetry.process.disk_writer import record_end
from gputel.telemetry.process.keeper import PIPE_BYTES, KeeperState, OutputPipe, OutputSource
from gputel.telemetry.process.shared_memory import Ledger
from gputel.telemetry.process.signals import Signals
from gputel.telemetry.process.terminal import PseudoTerminal
from gputel.telemetry.sampling.status import Board

GRACE = 3 * SECOND
"""So long we wait for what outlives the command: a process that holds its output, a disk that takes none."""


class KeeperHandle:
    def __init__(
        self, state: KeeperState, keeper: int, process: int | None, *, command: int | None, group: int | None
    ) -> None:
        """`process`: a pidfd of what is recorded; `command`: its number where it is ours."""
        self.state, self.keeper, self.process = state, keeper, process
        self.command, self._group = command, group
        self._seen_tail, self._moved = 0, 0
        self._lives = 1

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger

    def reaped(self, pid: int, status: int) -> None:
        """A child of ours has ended: the keeper, the command of a dead keeper, or a stranger's orphan."""
        if pid == self.command:
            self.ledger.end(os.waitstatus_to_exitcode(status), SystemClock().stamp())
        elif pid == self.keeper and not self.ledger.drained:
            time.sleep(0.05 if self._lives > 2 else 0)  # one that cannot live must not take the whole machine
            self._lives += 1
            self.keeper = spawn.succeed(self.state, self.process, self._group)

    def send(self, number: int) -> None:
        """To the command and its group; where it shares ours, to the command alone."""
        if self.command is None or self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._group is None:
                signal.pidfd_send_signal(self.process, number)
                return
            apart = os.getpgid(self.command) != self._group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, number)
            if apart:  # `timeout` and shells put their commands into groups of their own
                signal.pidfd_send_signal(self.process, number)

    def is_over(self) -> bool:
        """The command has ended, and its output is written, or will not be while we wait."""
        if not self.ledger.ended:
            return False
        return self.ledger.drained or self.is_left_behind()

    def is_left_behind(self) -> bool:
        ended, now = self.ledger.ended, time.monotonic_ns()
        if ended is None or self.ledger.drained:
            return False
        if self.ledger.source_ended and self.state.output.tail != self._seen_tail:
            self._seen_tail, self._moved = self.state.output.tail, now
        return now - max(ended.monotonic, self._moved) > GRACE

    def write_end(self) -> None:
        """Where the keeper could not."""
        if not self.ledger.recorded:
            with contextlib.suppress(OSError, GputelError):
                record_end(self.state.folder, self.ledger)


def wrap(
    folder: Path,
    argv: Sequence[str],
    env: Mapping[str, str],
    signals: Signals,
    news: int,
    pseudo: PseudoTerminal | None,
) -> KeeperHandle:
    """Start a command whose output is kept."""
    if pseudo:
        ours, theirs = pseudo.master, pseudo.slave
    else:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user may own only so many pages of pipes
            fcntl.fcntl(ours, spawn.SET_PIPE_SIZE, PIPE_BYTES)
    os.set_blocking(ours, False)
    state = _state(folder, OutputPipe(ours), Ledger(), signals, news)
    own_group = pseudo is not None or not spawn.has_terminal()
    started = spawn.start_keeper(spawn.Launch(argv, env, theirs, pseudo is not None, own_group), state)
    os.close(theirs)
    group = started.command if pseudo else started.first
    return KeeperHandle(
        state, started.keeper, started.process, command=started.command, group=group if own_group else None
    )


def follow(folder: Path, log: Path, pid: int | None, signals: Signals, news: int) -> KeeperHandle:
    """Keep a copy of a log that is being written, until the process ends or the ledger says so."""
    ledger = Ledger()
    source = GrowingFile(log, ledger)
    process = None if pid is None else open_pidfd(pid)
    state = _state(folder, source, ledger, signals, news)
    return KeeperHandle(state, spawn.succeed(state, None, None), process, command=None, group=None)


def open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise GputelError(f"process {pid}", os.strerror(error.errno or 0).lower(), "look at `ps`") from None


def _state(folder: Path, source: OutputSource, ledger: Ledger, signals: Signals, news: int) -> KeeperState:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    try:
        log, index = (os.open(folder / name, flags, 0o644) for name in ("output.log", "output.idx"))
    except OSError as error:
        raise GputelError(
            str(folder), f"cannot write here: {error.strerror}", "choose another --out"
        ) from None
    return KeeperState(folder, source, log, index, news, signals, ledger)


Sample = Callable[[Board, Sequence[int]], int]

SILENCE = 5 * SECOND
FIRST_BEAT = 90 * SECOND
"""A new sampler loads its modules first, perhaps from a slow shared folder."""
LONGEST_LOOK = SECOND // 2
"""While we are stopped ourselves, a silence is not the sampler's."""
SHORT_LIFE = 2 * SECOND
FIRST_SAMPLE = 2 * SECOND
PATIENCE = (0, SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND)


class Supervisor:
    def __init__(self, sample: Sample, life: int) -> None:
        """`life`: a pidfd of what is recorded."""
        self.board = Board()
        self._enough = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._sample, self._life, self._viewer = sample, life, os.pidfd_open(os.getpid())
        self._lives = 0
        self.pid: int | None = None
        self.finished = False
        self.ever_sampled = False
        self._born = self._looked = self._silent = self._heard = 0
        self._deaths_in_a_row = 0
        self._again: int | None = None

    def start(self) -> None:
        self._born = self._looked = time.monotonic_ns()
        self._silent, self._again = 0, None
        self._lives += 1
        self.board.publish({"state": "starting"})
        spawn.flush()
        pid = os.fork()
        if pid == 0:
            # one that was started again takes a sample even if the command ends meanwhile, so that we end it
            _be_sampler(
                self._sample, self.board, [self._life if self._lives == 1 else self._viewer, self._enough]
            )
        self.pid = pid

    @property
    def fault(self) -> dict[str, str] | None:
        """Why nothing can be sampled."""
        news = self.board.read() or {}
        error = news.get("error")
        return error if news.get("state") == "failed" and isinstance(error, dict) else None

    def died(self, status: int, *, over: bool) -> None:
        """Reaped. It comes again unless it had ended, or had never been able to begin."""
        self.pid = None
        gave_up = self.fault is not None and not self.ever_sampled
        if status == 0 or over or gave_up:
            self.finished = True
            return
        now = time.monotonic_ns()
        self._deaths_in_a_row = self._deaths_in_a_row + 1 if now - self._born < SHORT_LIFE else 0
        self._again = now + PATIENCE[min(self._deaths_in_a_row, len(PATIENCE) - 1)]

    def finish(self) -> None:
        """What is recorded has ended. Called until the sampler has ended too."""
        has_sampled = bool((self.board.read() or {}).get("ticks"))
        if self._lives == 1 or has_sampled or time.monotonic_ns() - self._born > FIRST_SAMPLE:
            os.eventfd_write(self._enough, 1)

    def look(self) -> None:
        """Called every quarter of a second or so."""
        now = time.monotonic_ns()
        if self.pid is not None:
            self._listen(now)
        elif self._again is not None and now >= self._again:
            self.start()

    def _listen(self, now: int) -> None:
        news = self.board.read() or {}
        self.ever_sampled = self.ever_sampled or news.get("state") == "sampling"
        heard = self.board.heartbeat
        self._silent = 0 if heard != self._heard else self._silent + min(now - self._looked, LONGEST_LOOK)
        self._heard, self._looked = heard, now
        limit = SILENCE if heard > self._born else FIRST_BEAT
        if self._silent > limit and self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self._silent = 0


def _be_sampler(sample: Sample, board: Board, stops: Sequence[int]) -> None:
    """Signals stay blocked: Slurm warns every process, and we go on to the command's end."""
    code = 1
    try:
        os.setsid()
        spawn.keep_only(set(stops))
        code = sample(board, stops)
    except BaseException as error:
        fault = {
            "place": "sampler",
            "fault": f"{type(error).__name__}: {error}",
            "hint": "please report this",
        }
        board.publish({"state": "failed", "error": fault})
    finally:
        os._exit(code)
