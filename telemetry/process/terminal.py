"""The pseudo-terminal of `record --pty`; the user's own is raw meanwhile, and its keys are passed on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import termios
import tty

KEYBOARD = 0
AT_ONCE = 4096
END_OF_INPUT = b"\x04"


class Pseudo:
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
