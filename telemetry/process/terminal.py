"""The pseudo-terminal of `record --pty`, and the screen: output as output.log grows, and a status line below it.

With --pty the user's terminal is raw, and keys are passed on. A terminal that is slow or stopped delays the screen
alone. Output that the disk does not take is shown from the queue.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import shutil
import termios
import time
import tty

from gputel.telemetry.characters import visible_line
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process.keeper import KeeperState
from gputel.telemetry.process.libc import PatientWriter
from gputel.telemetry.process.shared_memory import EVERYTHING

KEYBOARD, STANDARD_ERROR = 0, 2
AT_ONCE = 4096
END_OF_INPUT = b"\x04"
SHOWN_AT_ONCE = 1 << 16
STALL = SECOND // 2
QUIET = SECOND // 10
"""Without output, after which a status line that it removed comes back."""
LONGEST_WAIT = 2 * SECOND
"""How long a note waits for the end of the line that the command has begun; a progress bar has no end."""
SAVE, RESTORE, ERASE, DOWN = b"\x1b7", b"\x1b8", b"\x1b[2K", b"\x1b[B"


class PseudoTerminal:
    """A terminal for the command, with the size and settings of the user's own."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self._before = termios.tcgetattr(KEYBOARD) if os.isatty(KEYBOARD) else None
        self._unsent = b""
        self.listening = True
        """Whether the user's input has not ended."""
        if self._before:
            termios.tcsetattr(self.slave, termios.TCSANOW, self._before)
            self.resize()

    def begin(self) -> None:
        """Pass every key to the command; its own terminal turns Ctrl-C into a signal."""
        if self._before:
            tty.setraw(KEYBOARD, termios.TCSANOW)

    def resize(self) -> None:
        """Give the command's terminal the size of the user's."""
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(KEYBOARD, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def pass_on(self) -> None:
        """Pass on what the user typed; it waits while the command does not read."""
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
        """Restore the user's terminal."""
        if self._before:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(KEYBOARD, termios.TCSADRAIN, self._before)


class Screen:
    """Shows the command's output, and a status line that never mixes with it."""

    def __init__(self, show: int | None) -> None:
        """`show` is the descriptor for the output, None to hide it."""
        self._state: KeeperState | None = None
        self._show = show
        self._writer = PatientWriter()
        has_terminal = os.isatty(STANDARD_ERROR)
        self._shares_terminal = show is not None and has_terminal and os.isatty(show)
        self._newline = b"\r\n" if has_terminal else b"\n"  # with --pty the terminal is raw
        self._position = 0
        self._at_line_start = True
        self._drawn = self._removed = False
        self._length = 1
        """Length of the last status line, with its escape sequences."""
        self._touched = 0
        """When output was last shown, or the status line removed."""
        self._notes, self._noted = b"", 0
        self._moved = time.monotonic_ns()

    def attach(self, state: KeeperState) -> None:
        """Show the output of this keeper."""
        self._state = state
        if self._show is None and not state.source.waits:
            state.ledger.shown = EVERYTHING

    @property
    def pending(self) -> bool:
        """Whether there is output to show and its reader is still there (`| head` may have gone)."""
        return self._show is not None and (self._on_disk() > 0 or self._waits_in_queue())

    def advance(self) -> None:
        """Show the next piece of output, as far as the reader takes it."""
        if self._show is None or self._state is None or not (piece := self._next(self._state)):
            return
        self.clear()
        try:
            taken = self._writer.write(self._show, piece)
        except OSError:
            self._show = None
            self._state.ledger.shown = EVERYTHING
            return
        if taken:
            self._position += taken
            self._state.ledger.shown = self._position
            self._at_line_start = piece[taken - 1] == ord("\n")
            self._moved = self._touched = time.monotonic_ns()

    def lacks_status(self, now: int) -> bool:
        """Whether output has removed the status line, and has been quiet since."""
        return self._removed and now - self._touched >= QUIET

    def note(self, line: str) -> None:
        """Show one line beside the output, on standard error, once the command has ended its own."""
        self._noted = self._noted if self._notes else time.monotonic_ns()
        self._notes += visible_line(line).encode() + self._newline
        self.write_notes()

    def write_notes(self, *, at_once: bool = False) -> None:
        """Write the notes that wait for the end of a line, or that the terminal has not taken yet."""
        splits = self._shares_terminal and not self._at_line_start
        waits = splits and not at_once and time.monotonic_ns() - self._noted < LONGEST_WAIT
        if not self._notes or waits:
            return
        self.clear()
        if splits:
            self._notes, self._at_line_start = self._newline + self._notes, True
        with contextlib.suppress(OSError):
            self._notes = self._notes[self._writer.write(STANDARD_ERROR, self._notes) :]

    def draw(self, status: str) -> None:
        """Draw the status line, unless it would split a line or a progress bar of the command."""
        if self.pending or self._notes or (self._shares_terminal and not self._at_line_start):
            return
        if not _is_in_front():
            return
        with contextlib.suppress(OSError):
            line = self._erasure() + status.encode() + b"\r"
            self._drawn, self._length = self._writer.write(STANDARD_ERROR, line) > 0, len(status)
            self._removed = self._removed and not self._drawn

    def clear(self) -> None:
        """Remove the status line."""
        if self._drawn:
            self._drawn, self._removed, self._touched = False, True, time.monotonic_ns()
            with contextlib.suppress(OSError):
                self._writer.write(STANDARD_ERROR, self._erasure())

    def _erasure(self) -> bytes:
        """Erases the status line from its beginning on, where the cursor is.

        A terminal that was made narrower has wrapped it. To erase all below the cursor is no way: where that is the
        whole screen, tmux keeps it.
        """
        below = (self._length - 1) // shutil.get_terminal_size().columns
        return b"\r" + SAVE + ERASE + (DOWN + ERASE) * below + RESTORE

    def _next(self, state: KeeperState) -> bytes:
        if self._on_disk() > 0:
            return os.pread(state.log, SHOWN_AT_ONCE, self._position - state.ledger.skipped)
        piece = state.output.copy(self._position, SHOWN_AT_ONCE) if self._waits_in_queue() else b""
        went_to_disk = self._on_disk() > 0  # then its memory may have been reused while it was copied
        return b"" if went_to_disk else piece

    def _on_disk(self) -> int:
        """How much of what was not shown is in output.log; only what was shown is ever skipped there."""
        if self._state is None:
            return 0
        return os.fstat(self._state.log).st_size - (self._position - self._state.ledger.skipped)

    def _waits_in_queue(self) -> bool:
        """Whether the queue holds output that the disk does not take, or has not taken for a while."""
        if self._state is None:
            return False
        ledger, now = self._state.ledger, time.monotonic_ns()
        if self._state.output.head <= self._position:
            self._moved = now
            return False
        return bool(ledger.fault) or ledger.drained or now - self._moved > STALL


def _is_in_front() -> bool:
    """Whether gputel is in the terminal's foreground."""
    try:
        return os.tcgetpgrp(STANDARD_ERROR) == os.getpgrp()
    except OSError:
        return True
