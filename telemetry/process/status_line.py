"""What the user sees during a recording: a status line on a terminal, and each fault once."""

from __future__ import annotations

import os
import shutil
import time

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.children import KeeperHandle, Supervisor
from gputel.telemetry.process.terminal import Screen

STATUS_EVERY = SECOND


class StatusReporter:
    """Draws the status line, and notes each fault of sampler and disk once."""

    def __init__(
        self, screen: Screen, sampling: Supervisor, keeper: KeeperHandle | None, began: Stamp, *, status: bool
    ) -> None:
        """`status` is whether there is a terminal for a status line."""
        self._screen, self._sampling, self._keeper, self._began = screen, sampling, keeper, began
        self._status, self._drawn = status, time.monotonic_ns()
        self._fault_shown = self._disk_shown = False

    def report(self) -> None:
        """Show what is due; called about four times per second."""
        self._screen.write_notes()
        if self._keeper:
            self._note_fault()
            self._note_disk(self._keeper)
        now = time.monotonic_ns()
        if self._status and now - self._drawn >= STATUS_EVERY:
            self._drawn = now
            self._draw((now - self._began.monotonic) / SECOND)

    def _note_fault(self) -> None:
        fault = self._sampling.fault
        if fault and not self._fault_shown and not self._sampling.ever_sampled:
            self._fault_shown = True
            error = GputelError(fault["place"], fault["fault"], fault["hint"])
            self._screen.note(f"{error} (the output is recorded all the same)")

    def _note_disk(self, keeper: KeeperHandle) -> None:
        number = keeper.ledger.fault
        if number and not self._disk_shown:
            self._disk_shown = True
            path = keeper.state.folder / "output.log"
            self._screen.note(f"{path}: {os.strerror(number)}; up to 64 MiB of output wait in memory")

    def _draw(self, elapsed_s: float) -> None:
        width, color = shutil.get_terminal_size().columns, not os.environ.get("NO_COLOR")
        written = self._keeper.state.output.head if self._keeper else 0
        news = self._sampling.board.read()
        self._screen.draw(status_line(news, elapsed_s, written, width=width, color=color))


def status_line(
    news: dict[str, object] | None, elapsed_s: float, output_bytes: int, *, width: int, color: bool
) -> str:
    """`00:01:30 | GPU 0 412 W 61 °C 98 % 41.0/80.0 GiB | 100.0 Hz | 3.1 MiB`, cut to the terminal's width."""
    news = news or {}
    whole = int(elapsed_s)
    parts = [f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"]
    gpus = news.get("gpus")
    parts += [_gpu(gpu) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    rate, stored = news.get("hz"), news.get("bytes")
    if isinstance(rate, (int, float)):
        parts.append(f"{rate:.1f} Hz")
    total = output_bytes + (stored if isinstance(stored, int) else 0)
    parts.append(f"{total / 1e6:.1f} MB")
    simulated = bool(news.get("simulated"))
    line = " | ".join(parts)
    head = "SIMULATED " if simulated else ""
    line = line[: max(0, width - 1 - len(head))]
    return (f"\x1b[33m{head}\x1b[0m" if color and head else head) + line


def _gpu(gpu: dict[str, object]) -> str:
    """One GPU's values; leaves out what was not measured."""
    words = [f"GPU {gpu.get('gpu')}"]
    for name, unit in (("power_w", "W"), ("temp_c", "°C"), ("util", "%")):
        value = gpu.get(name)
        if isinstance(value, (int, float)):
            words.append(f"{value:.0f} {unit}")
    used, total = gpu.get("mem_used_mib"), gpu.get("mem_total_mib")
    if isinstance(used, (int, float)):
        words.append(
            f"{used / 1024:.1f}" + (f"/{total / 1024:.0f} GiB" if isinstance(total, (int, float)) else " GiB")
        )
    return " ".join(words)
