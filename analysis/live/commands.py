"""Follows a command that prints a log, such as `kubectl logs -f pod0`, and restarts it when it ends.

The command line is split into arguments as a shell would, and no shell runs. The pause before a restart doubles as
long as nothing new comes. The last line that the command wrote to standard error is its `trouble`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from gputel.analysis.live.replays import Replays
from gputel.telemetry.errors import GputelError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


def split_command(text: str) -> tuple[str, list[str]]:
    """Splits `rank0=kubectl logs -f pod0` into the rank and the command's arguments."""
    label, equals, command = text.partition("=")
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise GputelError(f"--from {text}", str(error).lower(), "close the quote", exit_code=2) from None
    if not equals or not label.strip() or not arguments:
        raise GputelError(
            f"--from {text}", "is not RANK=COMMAND", "write --from rank0='kubectl logs -f pod0'", exit_code=2
        )
    return label.strip(), arguments


class FollowedCommand:
    """A command as a source: it is never over, and `starts` counts how often it was started."""

    def __init__(
        self,
        arguments: Sequence[str],
        replays: Replays | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.arguments = list(arguments)
        self.replays = replays or Replays()
        self.trouble: str | None = None
        self.starts = 0
        self._now = now
        self.written: float | None = None
        self.is_over = False
        self.repeats, self.repeated = 0, False  # `Replays` leaves old lines out
        self.position, self.place = 0, None
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s = FIRST_PAUSE_S
        self._start_at = now()
        self._stderr = b""  # its last bytes

    @property
    def descriptors(self) -> list[int]:
        return [self._process.stdout.fileno()] if self._process and self._process.stdout else []

    def read(self, most: int) -> bytes:
        if self._process is None and not self._start():
            return b""
        assert self._process
        assert self._process.stdout
        self._drain_stderr()
        try:
            data = os.read(self._process.stdout.fileno(), most)
        except BlockingIOError:
            return b""
        if not data:
            self._end()
            return b""
        fresh = self.replays.feed(data)
        if fresh:
            self._pause_s, self.trouble = FIRST_PAUSE_S, None
            self.written = time.time()
            self.position += len(fresh)
        return fresh

    def close(self) -> None:
        """Stops the command and its children, which share a process group."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._reap()

    def _start(self) -> bool:
        if self._now() < self._start_at:
            return False
        self.replays.begin()
        try:
            self._process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._postpone(f"cannot start: {error.strerror}")
            return False
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
        self.starts += 1
        return True

    def _drain_stderr(self) -> None:
        """Reads standard error and keeps its end; a full pipe would block the command."""
        assert self._process
        assert self._process.stderr
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._process.stderr.fileno(), 65536):
                self._stderr = (self._stderr + data)[-4096:]

    def _end(self) -> None:
        self._drain_stderr()
        code = self._reap()
        last_line = self._stderr.decode(errors="replace").strip().rpartition("\n")[2]
        self._stderr = b""
        self._postpone(": ".join(filter(None, [f"exited with code {code}", last_line[:200]])))

    def _reap(self) -> int:
        process, self._process = self._process, None
        assert process
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        return process.wait()

    def _postpone(self, trouble: str) -> None:
        self.trouble = f"{trouble}; restarting in {self._pause_s:.0f} s"
        self._start_at = self._now() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
