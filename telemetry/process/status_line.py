"""The display during a recording: a status line on a terminal, and each fault once, also those of sending."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.children import KeeperHandle, Supervisor
from gputel.telemetry.process.terminal import Screen
from gputel.telemetry.sampling.status import SHOWN

STATUS_EVERY = SECOND
TAIL_BYTES = 8192
LOSS = re.compile(
    rb"""(?<![\w/.-]) (?:train(?:ing)?[ _/.]?)? loss ["']? (?:\s*[:=]\s*|\s+)"""
    rb"""(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]?inf|nan) (?![\w.%]|\s*%)""",
    re.IGNORECASE | re.VERBOSE,
)
WORD = re.compile(rb"[A-Za-z]+[ _/.-]*$")
LEVELS = (b"INFO", b"DEBUG", b"WARNING")
FEW = 2
"""GPUs that have their own values on the line; more are shown together."""


class StatusReporter:
    """Draws the status line, and notes each fault of sampler, disk and storage once."""

    def __init__(
        self, screen: Screen, sampling: Supervisor, began: Stamp, folder: Path, *, status: bool
    ) -> None:
        """`status` is whether there is a terminal for a status line; `folder` is that of the segment."""
        self._screen, self._sampling, self._began = screen, sampling, began
        self.keeper: KeeperHandle | None = None
        self.has_line, self._drawn = status, time.monotonic_ns()
        self._fault_shown = self._disk_shown = False
        self._events, self._sending = events.NewEvents(folder), set[str]()

    def report(self, now: int) -> None:
        """Show what is due at `now` (monotonic ns); called once a second, and four times with a status line."""
        self._screen.write_notes()
        self._note_sending()
        if self.keeper:
            self._note_fault()
            self._note_disk(self.keeper)
        if self.has_line and (now - self._drawn >= STATUS_EVERY or self._screen.lacks_status(now)):
            self._drawn = now
            self._draw((now - self._began.monotonic) / SECOND)

    def _note_fault(self) -> None:
        if self._fault_shown or self._sampling.ever_sampled:
            return
        if fault := self._sampling.fault:
            self._fault_shown = True
            does = "output, its times and the exit code are recorded, GPUs are not"
            self._screen.note(str(GputelError(f"{fault['place']}: {fault['fault']}", does, fault["hint"])))

    def _note_disk(self, keeper: KeeperHandle) -> None:
        number = keeper.ledger.fault
        if number and not self._disk_shown:
            self._disk_shown = True
            path = keeper.state.folder / "output.log"
            self._screen.note(f"{path}: {os.strerror(number)}; up to 64 MiB of output wait in memory")

    def _note_sending(self) -> None:
        """Notes what holds up the courier; a network that comes and goes is not said each time.

        The guard says what holds up the pusher.
        """
        for event in self._events.take():
            words = f"gputel: {event.get('text')}"
            if event.get("kind") == events.SYNC and words not in self._sending:
                self._sending.add(words)
                self._screen.note(words)

    def _draw(self, elapsed_s: float) -> None:
        width, color = shutil.get_terminal_size().columns, not os.environ.get("NO_COLOR")
        written = self.keeper.state.output.head if self.keeper else 0
        news = self._sampling.board.read()
        loss = last_loss(self.keeper.state.queues.written_tail(TAIL_BYTES)) if self.keeper else None
        self._screen.draw(status_line(news, elapsed_s, written, width=width, color=color, loss=loss))


def status_line(
    news: dict[str, object] | None,
    elapsed_s: float,
    output_bytes: int,
    *,
    width: int,
    color: bool,
    loss: str | None = None,
) -> str:
    """`00:01:30 | GPU 0 412 W 61 °C 98 % 41.0/80 GiB | loss 2.31 | 100.0 Hz | 3.1 MB`.

    What does not fit is left out whole.
    """
    news = news or {}
    head = "SIMULATED " if news.get("simulated") else ""
    line = next(
        (line for line in _lines(news, elapsed_s, output_bytes, loss) if len(head + line) < width), ""
    )
    head = head if len(head + line) < width else ""
    return (f"\x1b[33m{head}\x1b[0m" if color and head else head) + line


def _lines(news: dict[str, object], elapsed_s: float, output_bytes: int, loss: str | None) -> Iterator[str]:
    """The line with everything, then with less and less."""
    whole, shown, rate, stored = int(elapsed_s), news.get("gpus"), news.get("hz"), news.get("bytes")
    time_words = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    gpus = [gpu for gpu in shown if isinstance(gpu, dict)] if isinstance(shown, list) else []
    each, together = [" ".join(_gpu(gpu)) for gpu in gpus], _together(gpus) if gpus else []
    total = output_bytes + (stored if isinstance(stored, int) else 0)
    rest = [f"loss {loss}"] if loss else []
    rest += [f"{rate:.1f} Hz"] if isinstance(rate, (int, float)) else []
    rest.append(f"{total / 1e6:.1f} MB")
    for parts in ([each] if len(gpus) <= FEW else []) + ([[" ".join(together)]] if together else []):
        for kept in range(len(rest), -1, -1):
            yield " | ".join([time_words, *parts, *rest[:kept]])
    for words in range(len(together) - 1, 0, -1):
        yield " | ".join([time_words, " ".join(together[:words])])
    yield time_words


def _gpu(gpu: dict[str, object]) -> list[str]:
    """One GPU's values; leaves out what was not measured."""
    words = [f"GPU {gpu.get('gpu')}"]
    for name, unit in (("power_w", "W"), ("temp_c", "°C"), ("util", "%")):
        value = _number(gpu, name)
        words += [] if value is None else [f"{value:.0f} {unit}"]
    return words + _memory(gpu)


def _together(gpus: Sequence[dict[str, object]]) -> list[str]:
    """All GPUs that answer: total power, highest temperature, lowest utilization, highest share of memory."""
    answering = [gpu for gpu in gpus if any(_number(gpu, name) is not None for name in SHOWN)]
    if len(gpus) == 1 or not answering:
        return _gpu(gpus[0]) if len(gpus) == 1 else [f"{len(gpus)} GPUs"]
    watts, heat, busy = (
        [value for gpu in answering if (value := _number(gpu, name)) is not None]
        for name in ("power_w", "temp_c", "util")
    )
    words = [f"{len(gpus)} GPUs" if len(answering) == len(gpus) else f"{len(answering)} of {len(gpus)} GPUs"]
    words += [f"{sum(watts):,.0f} W"] if len(watts) == len(answering) else []
    words += [f"max {max(heat):.0f} °C"] if heat else []
    words += [f"min util {min(busy):.0f} %"] if busy else []
    return words + [f"max {memory}" for memory in _memory(max(answering, key=_fullness))]


def _memory(gpu: dict[str, object]) -> list[str]:
    used, total = _number(gpu, "mem_used_mib"), _number(gpu, "mem_total_mib")
    if used is None:
        return []
    return [f"{used / 1024:.1f}" + (f"/{total / 1024:.0f} GiB" if total else " GiB")]


def _fullness(gpu: dict[str, object]) -> float:
    used, total = _number(gpu, "mem_used_mib"), _number(gpu, "mem_total_mib")
    return -1.0 if used is None else used / total if total else 0.0


def _number(gpu: dict[str, object], name: str) -> float | None:
    value = gpu.get(name)
    return value if isinstance(value, (int, float)) else None


def last_loss(tail: bytes) -> str | None:
    """The training loss of the last whole lines of an output: a search, not a parser; None if there is none.

    Only a plain name counts: `loss`, `train_loss`, `training loss`. With another word in front of it (`val loss`,
    `packet loss`) it may be anything, and no loss is better than a wrong one.
    """
    lines = tail[: max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1]
    for match in reversed(list(LOSS.finditer(lines))):
        line = lines[: match.start()].rpartition(b"\n")[2].rpartition(b"\r")[2]
        before = WORD.search(line)
        if not before or before[0].strip() in LEVELS:
            return match[1].decode()
    return None
