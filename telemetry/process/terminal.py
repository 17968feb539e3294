"""The pseudo-terminal of `record --pty`; the user's own is raw meanwhile, and its keys are passed on.

What the user sees: the output as output.log grows, and one status line that never mixes with it.

A terminal that is slow or stopped holds up nothing but this. What the disk does not take is shown from the queue.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import termios
import time
import tty

from gputel.telemetry.clock import SECOND
from gputel.telemetry.process.keeper import KeeperState
from gputel.telemetry.process.libc import PatientWriter

KEYBOARD = 0
AT_ONCE = 4096
END_OF_INPUT = b"\x04"


class PseudoTerminal:
    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self._before = termios.tcgetattr(KEYBOARD) if os.isatty(KEYBOARD) else None
        self._unsent = b""
        self.listening = True
        """To the user's input, which has not ended."""
        if self._before:
            termios.tcsetattr(self.slave, termios.TCSANOW, self._before)
            self.resize()

    def begin(self) -> None:
        """Keys go to the command, Ctrl-C among them, which its own terminal makes a signal of."""
        if self._before:
            tty.setraw(KEYBOARD, termios.TCSANOW)

    def resize(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(KEYBOARD, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def pass_on(self) -> None:
        """What the user typed; it waits while the command does not read."""
        if not self._unsent and self.listening:
            try:
                typed = os.read(KEYBOARD, AT_ONCE)
            except OSError:
                typed = b""
            self.listening = bool(typed)
            self._unsent = typed or END_OF_INPUT
        try:
            self._unsent = self._unsent[os.write(self.master, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.listening = False

    def restore(self) -> None:
        if self._before:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(KEYBOARD, termios.TCSADRAIN, self._before)


SHOWN_AT_ONCE = 1 << 16
STALL = SECOND // 2
CLEAR = b"\r\x1b[K"
STANDARD_ERROR = 2


class Screen:
    def __init__(self, state: KeeperState | None, show: int | None) -> None:
        """`show`: where the output goes, None for nowhere."""
        self._state, self._show = state, show
        self._writer = PatientWriter()
        self._shares_terminal = show is not None and os.isatty(STANDARD_ERROR) and os.isatty(show)
        self._offset = 0
        self._at_line_start = True
        self._drawn = False
        self._notes = b""
        self._moved = time.monotonic_ns()

    @property
    def pending(self) -> bool:
        """Whether there is something to show, to somebody who still reads (`| head` may have gone)."""
        return self._show is not None and (self._on_disk() > 0 or self._is_stalled())

    def advance(self) -> None:
        """Show the next piece, as much of it as is taken."""
        if self._show is None or not (piece := self._next()):
            return
        self.clear()
        try:
            taken = self._writer.write(self._show, piece)
        except OSError:
            self._show = None
            return
        if taken:
            self._offset += taken
            self._at_line_start = piece[taken - 1] == ord("\n")
            self._moved = time.monotonic_ns()

    def note(self, line: str) -> None:
        """One line for the user beside the output."""
        self._notes += line.encode(errors="replace") + b"\n"
        self.clear()
        self.say_notes()

    def say_notes(self) -> None:
        if self._notes:
            with contextlib.suppress(OSError):
                self._notes = self._notes[self._writer.write(STANDARD_ERROR, self._notes) :]

    def draw(self, status: str) -> None:
        """The status line, where it cannot split a line of the command's, nor a bar that it is drawing."""
        if self.pending or self._notes or (self._shares_terminal and not self._at_line_start):
            return
        if not _is_in_front():
            return
        with contextlib.suppress(OSError):
            self._drawn = self._writer.write(STANDARD_ERROR, CLEAR + status.encode()) > 0

    def clear(self) -> None:
        if self._drawn:
            self._drawn = False
            with contextlib.suppress(OSError):
                self._writer.write(STANDARD_ERROR, CLEAR)

    def _next(self) -> bytes:
        assert self._state
        if self._on_disk() > 0:
            return os.pread(self._state.log, SHOWN_AT_ONCE, self._offset)
        piece = self._state.output.copy(self._offset, SHOWN_AT_ONCE) if self._is_stalled() else b""
        return (
            piece if self._on_disk() <= 0 else b""
        )  # it went to disk meanwhile, and its place may be used again

    def _on_disk(self) -> int:
        return os.fstat(self._state.log).st_size - self._offset if self._state else 0

    def _is_stalled(self) -> bool:
        """The queue holds what the disk has not taken for a while."""
        behind = self._state.output.head - self._offset if self._state else 0
        if behind <= 0:
            self._moved = time.monotonic_ns()
        return behind > 0 and time.monotonic_ns() - self._moved > STALL


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(STANDARD_ERROR) == os.getpgrp()
    except OSError:
        return True
