"""The line that shows how far long work has come: on standard error, on a terminal that can erase it.

It appears after two seconds, says the rate and the time left, and is drawn again by a thread of its own, so that it
also moves while nothing is counted.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from gputel.analysis import progress, text
from gputel.cli import show
from gputel.telemetry.characters import visible_line

PATIENCE_S = 2.0
EVERY_S = 0.2
BAR = 20  # letters
CLEAR = "\r\033[K"


@dataclass
class OpenStage:
    label: str
    total: float
    unit: str
    begun: float
    done: float = 0.0


class ProgressLine:
    """Implements `progress.Watcher`."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now = stream, now
        self._stages: list[OpenStage] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._drawn = False
        self._begun = now()

    def begin(self, label: str, total: float, unit: str) -> None:
        with self._lock:
            self._stages.append(OpenStage(label, total, unit, self._now()))

    def advance(self, amount: float) -> None:
        with self._lock:
            innermost = self._stages[-1].unit
            for stage in self._stages:
                stage.done += amount if stage.unit == innermost else 0

    def end(self) -> None:
        with self._lock:
            self._stages.pop()

    def run(self) -> None:
        """Draws until `stop`."""
        if not self._over.wait(PATIENCE_S):
            self.draw()
        while not self._over.wait(EVERY_S):
            self.draw()

    def draw(self) -> None:
        with self._lock:
            if self._over.is_set():
                return
            width = shutil.get_terminal_size().columns - 1
            line = line_of(self._stages, self._now() - self._begun, self._now(), bar=self._bar)
            self._stream.write(CLEAR + visible_line(line)[:width])
            self._stream.flush()
            self._drawn = True

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Takes the line away, and draws nothing while something else is printed."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                self._stream.write(CLEAR)
                self._stream.flush()
            yield

    def stop(self) -> None:
        self._over.set()
        with self.aside():
            pass

    @property
    def _bar(self) -> str:
        """The letters of the bar for done and not done: blocks, where the terminal can show them."""
        return "█░" if (self._stream.encoding or "").lower().startswith("utf") else "#-"


def line_of(stages: list[OpenStage], elapsed_s: float, now: float, *, bar: str = "#-") -> str:
    """`reading d24.log  █████░░░  45 %  35.1 MB/s  3 s left`; the outermost stage counts."""
    if not stages:
        return f"working, {text.duration(elapsed_s)}"
    stage = stages[0]
    rate = stage.done / (now - stage.begun) if now > stage.begun else 0.0
    speed = _rate(rate, stage.unit)
    if not stage.total:
        return f"{stage.label}  {speed}"
    share = min(stage.done / stage.total, 1.0)
    filled = round(share * BAR)
    drawn = bar[0] * filled + bar[1] * (BAR - filled)
    far = (
        f"{100 * share:.0f} %" if stage.unit == progress.BYTES else f"{stage.done:,.0f} of {stage.total:,.0f}"
    )
    left = f"{text.duration((stage.total - stage.done) / rate)} left" if rate and share < 1 else ""
    return "  ".join(part for part in (stage.label, drawn, far, speed, left) if part)


def _rate(rate: float, unit: str) -> str:
    if not rate:
        return ""
    return f"{rate / 1e6:,.1f} MB/s" if unit == progress.BYTES else f"{rate:,.3g}/s"


@contextmanager
def shown() -> Iterator[None]:
    """Shows the progress of what is done within; as a decorator, of a whole command."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    line = ProgressLine(sys.stderr)
    drawer = threading.Thread(target=line.run, name="progress", daemon=True)
    drawer.start()
    token = show.aside.set(line.aside)
    try:
        with progress.watched(line):
            yield
    finally:
        show.aside.reset(token)
        line.stop()
        drawer.join()
