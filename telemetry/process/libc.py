"""Kernel calls that Python 3.10 lacks. Importing is safe on any system; calling needs Linux."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100
PR_SET_CHILD_SUBREAPER = 36
NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
SIGSET_BYTES = 128
SIGINFO = struct.Struct("<IiiI112x")  # struct signalfd_siginfo: number, errno, code, sender's pid
SENT_BY_KERNEL = 0x80  # SI_KERNEL: the terminal sends to a whole process group


class Arrival(NamedTuple):
    """A signal read from a signalfd."""

    number: int
    code: int
    sender: int


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def signalfd(signals: Iterable[int]) -> int:
    """A descriptor that delivers the given signals while they are blocked."""
    bits = sum(1 << (number - 1) for number in signals)
    mask = bits.to_bytes(SIGSET_BYTES, "little")
    return _checked(_libc().signalfd(-1, mask, NONBLOCK_CLOEXEC))


def arrivals(descriptor: int) -> Iterator[Arrival]:
    """The signals that have arrived at a signalfd since the last call."""
    while True:
        try:
            record = os.read(descriptor, SIGINFO.size)
        except BlockingIOError:
            return
        number, _, code, sender = SIGINFO.unpack(record)
        yield Arrival(number, code, sender)


def watch(folder: Path) -> int:
    """A descriptor that becomes readable when a file in the folder is written, created or renamed."""
    descriptor = _checked(_libc().inotify_init1(NONBLOCK_CLOEXEC))
    _checked(_libc().inotify_add_watch(descriptor, os.fsencode(folder), IN_MODIFY | IN_MOVED_TO | IN_CREATE))
    return descriptor


def become_subreaper() -> None:
    """Make orphaned descendants our children instead of PID 1's."""
    _checked(_libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def pending_signals(pid: int) -> set[int]:
    """Blocked signals that a process, stopped or starved, has not read yet."""
    try:
        with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
            bits = next(int(line.split()[1], 16) for line in status if line.startswith("ShdPnd:"))
    except (OSError, StopIteration):
        return set()
    return {number for number in range(1, signal.NSIG) if bits >> (number - 1) & 1}


class PatientWriter:
    """Writes to a terminal or pipe that may be stopped; returns after `PATIENCE_S` with the bytes taken.

    O_NONBLOCK would belong to the open file, which the command and the shell share. Instead a timer interrupts
    the call, which goes through ctypes because `os.write` retries by itself after a signal.
    """

    PATIENCE_S = 0.05

    def __init__(self) -> None:
        self._write = _libc().write
        self._write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        self._write.restype = ctypes.c_ssize_t
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def write(self, descriptor: int, data: bytes) -> int:
        signal.setitimer(signal.ITIMER_REAL, self.PATIENCE_S, self.PATIENCE_S)
        try:
            return _checked(self._write(descriptor, data, len(data)))
        except (InterruptedError, BlockingIOError):
            return 0
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
