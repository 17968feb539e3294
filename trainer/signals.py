"""Signals as flags: INT and TERM ask for a checkpoint and the end of the run, USR1 for a checkpoint.

A second INT a while later ends at once; torchrun repeats the first one immediately, so only a late one is a person.
"""

import os
import signal
import time
from types import FrameType
from typing import final

NAMES = ("SIGINT", "SIGTERM", "SIGUSR1")
IMPATIENT_SECONDS = 3.0


@final
class StopSignals:
    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def __enter__(self) -> "StopSignals":
        self.before = {name: signal.signal(signal.Signals[name], self._note) for name in NAMES}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self.before.items():
            signal.signal(signal.Signals[name], handler)

    def votes(self) -> list[bool]:
        return [name in self.seen for name in NAMES]

    def _note(self, number: int, _: FrameType | None) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        first = self.seen.setdefault(name, now)
        if name == "SIGINT" and now - first > IMPATIENT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
