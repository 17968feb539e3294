"""Keeps one sampler going: forked here, looked after by its heartbeat, started again when it dies or falls silent.

The sampler stands in a session of its own, holds none of the user's descriptors, and ends by itself on the ones
that it is given. What it found out stands on the board, which outlives it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from gputel.telemetry.board import Board
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import command

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
        command.flush()
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
        command.retire_to(set(stops))
        code = sample(board, stops)
    except BaseException as error:
        fault = {
            "place": "sampler",
            "fault": f"{type(error).__name__}: {error}",
            "mend": "please report this",
        }
        board.publish({"state": "failed", "error": fault})
    finally:
        os._exit(code)
