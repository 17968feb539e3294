"""The viewer's side of the keeper: what is being kept, by whom, and whether it is over.

`wrap` begins with a command, `follow` with a log that somebody else writes. A keeper that dies is succeeded.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import launch
from gputel.telemetry.process.attach import Growing
from gputel.telemetry.process.keeper import PIPE_BYTES, Pipe, Post, Source
from gputel.telemetry.process.ledger import Ledger
from gputel.telemetry.process.pour import record_end
from gputel.telemetry.process.signals import Signals
from gputel.telemetry.process.terminal import Pseudo

GRACE = 3 * SECOND
"""So long we wait for what outlives the command: a process that holds its output, a disk that takes none."""


class Keeping:
    def __init__(
        self, post: Post, keeper: int, process: int | None, *, command: int | None, group: int | None
    ) -> None:
        """`process`: a pidfd of what is recorded; `command`: its number where it is ours."""
        self.post, self.keeper, self.process = post, keeper, process
        self.command, self._group = command, group
        self._seen_tail, self._moved = 0, 0
        self._lives = 1

    @property
    def ledger(self) -> Ledger:
        return self.post.ledger

    def reaped(self, pid: int, status: int) -> None:
        """A child of ours has ended: the keeper, the command of a dead keeper, or a stranger's orphan."""
        if pid == self.command:
            self.ledger.end(os.waitstatus_to_exitcode(status), SystemClock().stamp())
        elif pid == self.keeper and not self.ledger.drained:
            time.sleep(0.05 if self._lives > 2 else 0)  # one that cannot live must not take the whole machine
            self._lives += 1
            self.keeper = launch.succeed(self.post, self.process, self._group)

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
        if self.ledger.source_ended and self.post.output.tail != self._seen_tail:
            self._seen_tail, self._moved = self.post.output.tail, now
        return now - max(ended.monotonic, self._moved) > GRACE

    def write_end(self) -> None:
        """Where the keeper could not."""
        if not self.ledger.recorded:
            with contextlib.suppress(OSError, GputelError):
                record_end(self.post.folder, self.ledger)


def wrap(
    folder: Path,
    argv: Sequence[str],
    env: Mapping[str, str],
    signals: Signals,
    news: int,
    pseudo: Pseudo | None,
) -> Keeping:
    """Start a command whose output is kept."""
    if pseudo:
        ours, theirs = pseudo.master, pseudo.slave
    else:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user may own only so many pages of pipes
            fcntl.fcntl(ours, launch.SET_PIPE_SIZE, PIPE_BYTES)
    os.set_blocking(ours, False)
    post = _post(folder, Pipe(ours), Ledger(), signals, news)
    own_group = pseudo is not None or not launch.has_terminal()
    started = launch.start(launch.Launch(argv, env, theirs, pseudo is not None, own_group), post)
    os.close(theirs)
    group = started.command if pseudo else started.first
    return Keeping(
        post, started.keeper, started.process, command=started.command, group=group if own_group else None
    )


def follow(folder: Path, log: Path, pid: int | None, signals: Signals, news: int) -> Keeping:
    """Keep a copy of a log that is being written, until the process ends or the ledger says so."""
    ledger = Ledger()
    source = Growing(log, ledger)
    process = None if pid is None else open_process(pid)
    post = _post(folder, source, ledger, signals, news)
    return Keeping(post, launch.succeed(post, None, None), process, command=None, group=None)


def open_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise GputelError(f"process {pid}", os.strerror(error.errno or 0).lower(), "look at `ps`") from None


def _post(folder: Path, source: Source, ledger: Ledger, signals: Signals, news: int) -> Post:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    try:
        log, index = (os.open(folder / name, flags, 0o644) for name in ("output.log", "output.idx"))
    except OSError as error:
        raise GputelError(
            str(folder), f"cannot write here: {error.strerror}", "choose another --out"
        ) from None
    return Post(folder, source, log, index, news, signals, ledger)
