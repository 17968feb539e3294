"""Starts the command as if we were not there, but for its standard output and error.

The one thing that it gets from us is the end of a pipe, or of a pseudo-terminal that is then its controlling one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.ledger import Ledger
from gputel.telemetry.process.signals import Signals

NOT_FOUND, NOT_EXECUTABLE = 127, 126


def check(argv: Sequence[str], path: str | None = None) -> None:
    """Refuse, before a run is made, what cannot be started."""
    if shutil.which(argv[0], path=path):
        return
    if os.sep in argv[0] and Path(argv[0]).exists():
        raise refusal(argv[0], errno.EACCES)
    raise refusal(argv[0], errno.ENOENT)


def refusal(program: str, number: int) -> GputelError:
    """What a shell says, with its exit code."""
    if number == errno.ENOENT:
        return GputelError(program, "command not found", "check its spelling and PATH", exit_code=NOT_FOUND)
    mend = {
        errno.EACCES: "make it executable with `chmod +x`, or name its interpreter",
        errno.ENOEXEC: "begin it with a #! line, or name its interpreter",
    }.get(number, "")
    return GputelError(program, f"cannot be run: {os.strerror(number)}", mend, exit_code=NOT_EXECUTABLE)


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    output: int,
    signals: Signals,
    ledger: Ledger,
    *,
    terminal: bool,
) -> tuple[int, int]:
    """Fork and exec. Gives the process and the errno with which exec failed, or 0."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        ledger.command = os.getpid()  # by itself: its keeper may be killed before it can say so
        _become(argv, env, output, signals, terminal, tell)
    os.close(tell)
    with os.fdopen(told, "rb") as fault:
        answer = fault.read()
    return pid, struct.unpack("i", answer)[0] if answer else 0


def _become(
    argv: Sequence[str], env: Mapping[str, str], output: int, signals: Signals, terminal: bool, tell: int
) -> None:
    try:
        if terminal:
            os.setsid()
            fcntl.ioctl(output, termios.TIOCSCTTY, 0)
            os.dup2(output, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signals.as_before()
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as error:
        os.write(tell, struct.pack("i", error.errno or errno.EIO))
    finally:
        os._exit(NOT_FOUND)


def retire_to(keep: set[int]) -> None:
    """In a child of ours that is no command: nothing of the user's stays open but what is needed."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    begin = 3
    for descriptor in sorted(keep):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, _highest() + 1)


def fill_standard() -> None:
    """Where the user closed one of the three, the next file opened would become the command's output."""
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def flush() -> None:
    """What is buffered would be written twice after a fork."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _highest() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
