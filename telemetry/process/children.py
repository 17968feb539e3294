"""The viewer's children: a handle on the keeper and the supervisor of the sampler. Both are replaced if they die.

`wrap` starts a keeper with a command, `follow` one that copies a log. The sampler runs in a session of its own,
holds none of the user's descriptors, ends with the process that is recorded, and is restarted when its heartbeat
stops.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.errors import GputelError, unexpected
from gputel.telemetry.process import spawn
from gputel.telemetry.process.attach import AttachedLog
from gputel.telemetry.process.disk_writer import record_end, write_after_end
from gputel.telemetry.process.keeper import PIPE_BYTES, KeeperState, OutputPipe, OutputSource
from gputel.telemetry.process.shared_memory import Ledger
from gputel.telemetry.process.signals import Signals
from gputel.telemetry.process.terminal import PseudoTerminal
from gputel.telemetry.sampling.status import Board

Sample = Callable[[Board, Sequence[int]], int]
"""Samples until one of the descriptors is readable; returns an exit code."""

SILENCE = 5 * SECOND
FIRST_BEAT = 90 * SECOND
"""A new sampler first imports its modules, perhaps from a slow shared folder."""
LONGEST_LOOK = 3 * SECOND // 2
"""The most silence counted between two looks: while the viewer itself is stopped, it sees no heartbeat."""
SHORT_LIFE = 2 * SECOND
FIRST_SAMPLE = 5 * SECOND
"""How long the end waits for a restarted sampler's first sample; the last values of the killed one are lost."""
PATIENCE = (0, 0, SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND)
"""How long to wait before a restart, by the number of short-lived samplers in a row."""
GRACE = 3 * SECOND
"""How long to wait for what outlives the command: a process that holds its output, or a full disk."""


class KeeperHandle:
    """The viewer's view of keeper and command: replaces a dead keeper, forwards signals, knows the end."""

    def __init__(
        self,
        state: KeeperState,
        keeper_pid: int,
        process: int | None,
        *,
        command: int | None,
        group: int | None,
    ) -> None:
        """`process` is a pidfd of what is recorded; `command` its process id if it is our descendant."""
        self.state, self.process = state, process
        self.keeper_pid: int | None = keeper_pid
        self.command, self._group = command, group
        self._seen_tail, self._moved = 0, 0
        self._lives = 1

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger

    def reaped(self, pid: int, status: int) -> None:
        """Handle the end of a child: the keeper, the command of a dead keeper, or any other orphan."""
        if pid == self.command:
            self.ledger.end(os.waitstatus_to_exitcode(status), SystemClock().stamp())
        elif pid == self.keeper_pid and not self.ledger.drained:
            if self._lives > 2:  # a keeper that dies at once must not take the whole machine
                time.sleep(0.05)
            self._lives += 1
            self._replace_keeper()

    def look(self) -> None:
        """Replace a dead keeper, if there was no room for a new one before."""
        if self.keeper_pid is None:
            self._replace_keeper()

    def _replace_keeper(self) -> None:
        self.keeper_pid = None
        with contextlib.suppress(OSError):
            self.keeper_pid = spawn.succeed(self.state, self.process, self._group)

    def send(self, number: int) -> None:
        """Send a signal to the command and its group, or to the command alone if it shares our group."""
        if self.command is None or self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._group is None:
                signal.pidfd_send_signal(self.process, number)
                return
            has_own_group = os.getpgid(self.command) != self._group  # `timeout` and shells make such groups
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, number)
            if has_own_group:
                signal.pidfd_send_signal(self.process, number)

    def is_over(self) -> bool:
        """Whether the command has ended and its output is written, or is no longer waited for."""
        if not self.ledger.ended:
            return False
        return self.ledger.drained or self.is_left_behind()

    def is_left_behind(self) -> bool:
        """Whether the command ended a while ago, but its output has not."""
        ended, now = self.ledger.ended, time.monotonic_ns()
        if ended is None or self.ledger.drained:
            return False
        if self.ledger.source_ended and self.state.output.tail != self._seen_tail:
            self._seen_tail, self._moved = self.state.output.tail, now
        return now - max(ended.monotonic, self._moved) > GRACE

    def write_end(self) -> None:
        """Record the end in run.json, if the keeper could not."""
        if not self.ledger.recorded:
            with contextlib.suppress(OSError, GputelError):
                record_end(self.state.folder, self.state.queues)

    def write_rest(self) -> None:
        """Write what the keeper had to leave in memory, if there is room by now; else note how much is missing."""
        if self.ledger.drained and not self.state.queues.empty:
            with contextlib.suppress(OSError):
                run_folder.reserve(self.state.folder).take()
            with contextlib.suppress(OSError):
                write_after_end(self.state.folder, self.state.queues, self.state.queues.write)
            with contextlib.suppress(OSError, GputelError):
                record_end(self.state.folder, self.state.queues)


@dataclass(frozen=True)
class Workplace:
    """What every keeper needs, wherever its output comes from; the fields are those of `KeeperState`."""

    folder: Path
    signals: Signals
    news: int
    locks: tuple[int, ...]
    fsync: bool = False

    def state(self, source: OutputSource, ledger: Ledger) -> KeeperState:
        """The state of a keeper that writes into the folder. Raises GputelError if it cannot."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        try:
            log, index = (os.open(self.folder / name, flags, 0o644) for name in ("output.log", "output.idx"))
        except OSError as error:
            raise run_folder.unwritable(self.folder, error) from None
        return KeeperState(
            self.folder, source, log, index, self.news, self.signals, self.locks, self.fsync, ledger
        )


def wrap(
    place: Workplace, argv: Sequence[str], env: Mapping[str, str], pseudo: PseudoTerminal | None
) -> KeeperHandle:
    """Start a command with a keeper for its output."""
    if pseudo:
        ours, theirs = pseudo.master, pseudo.slave
    else:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user may own only so many pages of pipes
            fcntl.fcntl(ours, spawn.SET_PIPE_SIZE, PIPE_BYTES)
    os.set_blocking(ours, False)
    state = place.state(OutputPipe(ours), Ledger())
    own_group = pseudo is not None or not spawn.has_terminal()
    started = spawn.start_keeper(spawn.Launch(argv, env, theirs, pseudo is not None, own_group), state)
    os.close(theirs)
    group = started.command if pseudo else started.first
    return KeeperHandle(
        state, started.keeper, started.process, command=started.command, group=group if own_group else None
    )


def follow(place: Workplace, log: Path, pid: int | None) -> KeeperHandle:
    """Start a keeper that copies a growing log, until the process or the recording ends."""
    ledger = Ledger()
    source = AttachedLog(log, ledger)
    process = None if pid is None else open_pidfd(pid)
    state = place.state(source, ledger)
    return KeeperHandle(state, spawn.succeed(state, None, None), process, command=None, group=None)


def open_pidfd(pid: int) -> int:
    """A pidfd of a process. Raises GputelError if there is no such process."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise GputelError(
            f"process {pid}", os.strerror(error.errno or 0).lower(), "check with `ps`"
        ) from None


class Supervisor:
    """Keeps one sampler running: forks it, and restarts it when it dies or its heartbeat stops."""

    def __init__(self, sample: Sample) -> None:
        self.board = Board()
        self._enough = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._sample = sample
        self.life: int | None = None
        """A pidfd of what is recorded, with which sampling ends; None for this process."""
        self._lives = 0
        self.pid: int | None = None
        self.finished = False
        self.ever_sampled = False
        """Whether any sampler has taken a sample, even one that had ended before it was looked at."""
        self._born = self._looked = self._silent = self._last_beat = 0
        self._deaths_in_a_row = 0
        self._restart_at: int | None = None

    def start(self) -> None:
        """Fork a sampler; try again later if the system has no room for a process."""
        self._born = self._looked = time.monotonic_ns()
        self._silent, self._restart_at = 0, None
        self._lives += 1
        self.board.publish({"state": "starting"})
        spawn.flush()
        try:
            if self._lives == 2 or self.life is None:
                # a restarted sampler takes a sample even if the command has ended, so ours stops it
                self.life = os.pidfd_open(os.getpid())
            stops = [self.life, self._enough]
            pid = os.fork()
        except OSError as error:
            fault = {"place": "sampler", "fault": f"cannot start: {error.strerror}", "hint": ""}
            self.board.publish({"state": "failed", "error": fault})
            self._restart_at = self._born + PATIENCE[-1]
            return
        if pid == 0:
            _be_sampler(self._sample, self.board, stops)
        self.pid = pid

    @property
    def settled(self) -> bool:
        """Whether only a heartbeat is expected of it: it samples, or never will again."""
        return self.finished or (self.pid is not None and self.ever_sampled)

    @property
    def fault(self) -> dict[str, str] | None:
        """The error because of which nothing can be sampled."""
        status = self.board.read() or {}
        error = status.get("error")
        return error if status.get("state") == "failed" and isinstance(error, dict) else None

    @property
    def left_behind(self) -> str | None:
        """What of the telemetry was given up on at the end."""
        if self.pid is not None:
            return "the sampler has not ended"
        said = (self.board.read() or {}).get("left_behind")
        return said if isinstance(said, str) else None

    def explain(self, folder: Path) -> None:
        """Note why nothing was sampled, where the sampler could not: it had no room for its own modules.

        On a full disk the note takes some of the room that is reserved for the end.
        """
        if self.ever_sampled or any(event["kind"] == "no_telemetry" for event in events.read(folder)):
            return
        fault = self.fault
        text = f"{fault['place']}: {fault['fault']}" if fault else "the sampler ended before its first sample"
        try:
            events.note(folder, "no_telemetry", text)
        except OSError:
            run_folder.reserve(folder).lend()
            events.note(folder, "no_telemetry", text)

    def died(self, status: int, *, over: bool) -> None:
        """Handle the sampler's end: restart it later, unless it had finished or could never sample."""
        self.pid = None
        self._look_at_board()
        gave_up = self.fault is not None and not self.ever_sampled
        if status == 0 or over or (gave_up and os.WIFEXITED(status)):
            self.finished = True
            return
        now = time.monotonic_ns()
        self._deaths_in_a_row = self._deaths_in_a_row + 1 if now - self._born < SHORT_LIFE else 0
        self._restart_at = now + PATIENCE[min(self._deaths_in_a_row, len(PATIENCE) - 1)]

    def finish(self) -> None:
        """Ask the sampler to seal and end, as the command has ended; called until it has."""
        if self._lives == 1 or self._look_at_board() or time.monotonic_ns() - self._born > FIRST_SAMPLE:
            os.eventfd_write(self._enough, 1)

    def look(self) -> None:
        """Check the heartbeat, and restart the sampler when it is time; called once a second or more often."""
        now = time.monotonic_ns()
        if self.pid is not None:
            self._check_heartbeat(now)
        elif self._restart_at is not None and now >= self._restart_at:
            self.start()

    def _look_at_board(self) -> bool:
        """Whether this sampler has taken a sample."""
        has_sampled = bool((self.board.read() or {}).get("ticks"))
        self.ever_sampled = self.ever_sampled or has_sampled
        return has_sampled

    def _check_heartbeat(self, now: int) -> None:
        self._look_at_board()
        beat = self.board.heartbeat
        self._silent = 0 if beat != self._last_beat else self._silent + min(now - self._looked, LONGEST_LOOK)
        self._last_beat, self._looked = beat, now
        limit = SILENCE if beat > self._born else FIRST_BEAT
        if self._silent > limit and self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self._silent = 0


def _be_sampler(sample: Sample, board: Board, stops: Sequence[int]) -> None:
    """Run the sampler in this child. Signals stay blocked: Slurm warns every process, but sampling goes on."""
    code = 1
    try:
        os.setsid()
        spawn.keep_only(set(stops))
        code = sample(board, stops)
    except BaseException as error:
        fault = unexpected("sampler", error)
        facts = {"place": fault.place, "fault": fault.fault, "hint": fault.hint}
        board.publish({"state": "failed", "error": facts})
    finally:
        os._exit(code)
