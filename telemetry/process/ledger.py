"""What the keeper knows, in memory that the viewer shares: the command, its end, signals seen, output lost.

One word a fact, each stored at once, so that a kill leaves every fact either old or new. Who survives reads on.
"""

from __future__ import annotations

import mmap
import signal
from typing import NamedTuple

from gputel.telemetry.clock import Stamp

COMMAND, STATUS, KNOWN, ENDED, SOURCE_ENDED, DRAINED, RECORDED, LOST, FAULT, POSITION = range(10)
ENDED_AT = 16  # three words: wall, monotonic, boot clock
WITNESSED = 64  # the first of three words per signal: when, code, sender


class Witness(NamedTuple):
    monotonic: int
    code: int
    sender: int


class Ledger:
    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def _get(self, word: int) -> int:
        return self._words[word]

    @property
    def command(self) -> int | None:
        """Its process, once it was started."""
        return self._get(COMMAND) or None

    @command.setter
    def command(self, pid: int) -> None:
        self._words[COMMAND] = pid

    @property
    def ended(self) -> Stamp | None:
        """When the command ended, or the process that was followed."""
        return Stamp(*self._words[ENDED_AT : ENDED_AT + 3]) if self._get(ENDED) else None

    @property
    def status(self) -> int | None:
        """Its exit code, or -n for a signal. None while it runs, and of a process that is not ours."""
        return self._get(STATUS) if self.ended and self._get(KNOWN) else None

    @property
    def exit_code(self) -> int | None:
        """As a shell has it: 128+n for a signal."""
        status = self.status
        return status if status is None or status >= 0 else 128 - status

    def end(self, status: int | None, stamp: Stamp) -> None:
        """The first who says so is believed."""
        if self.ended:
            return
        for word, moment in enumerate(stamp, ENDED_AT):
            self._words[word] = moment
        self._words[STATUS], self._words[KNOWN] = status or 0, status is not None
        self._words[ENDED] = 1

    @property
    def source_ended(self) -> bool:
        """Nobody can write to the command's output any more."""
        return bool(self._get(SOURCE_ENDED))

    @source_ended.setter
    def source_ended(self, value: bool) -> None:
        self._words[SOURCE_ENDED] = value

    @property
    def drained(self) -> bool:
        """The output has come to its end, and all of it that can be on disk is."""
        return bool(self._get(DRAINED))

    @drained.setter
    def drained(self, value: bool) -> None:
        self._words[DRAINED] = value

    @property
    def recorded(self) -> bool:
        """run.json has the end."""
        return bool(self._get(RECORDED))

    @recorded.setter
    def recorded(self, value: bool) -> None:
        self._words[RECORDED] = value

    @property
    def lost(self) -> int:
        """Bytes of output that no disk took in time."""
        return self._get(LOST)

    @lost.setter
    def lost(self, count: int) -> None:
        self._words[LOST] = count

    @property
    def fault(self) -> int | None:
        """The errno of the last write, while writes fail."""
        return self._get(FAULT) or None

    @fault.setter
    def fault(self, number: int | None) -> None:
        self._words[FAULT] = number or 0

    @property
    def position(self) -> int:
        """How far a followed log was read."""
        return self._get(POSITION)

    @position.setter
    def position(self, offset: int) -> None:
        self._words[POSITION] = offset

    def witness(self, number: int, seen: Witness) -> None:
        at = WITNESSED + 3 * number
        self._words[at + 1], self._words[at + 2] = seen.code, seen.sender
        self._words[at] = seen.monotonic

    def witnessed(self, number: int) -> Witness:
        at = WITNESSED + 3 * number
        return Witness(*self._words[at : at + 3])


assert WITNESSED + 3 * signal.NSIG <= mmap.PAGESIZE // 8
