"""What a run says: one line a step in the old nanochat grammar, log.txt with the same, metrics.jsonl for programs.

Rank 0 alone writes. A full disk must not end a training: a file that cannot be written is given up with one line.
"""

import json
import math
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, final


@dataclass(frozen=True)
class StepReport:
    """The loss is the mean over all ranks and micro-batches; None is what was not measured."""

    step: int
    total_steps: int
    loss: float
    grad_norm: float
    lrm: float
    dt_ms: float
    tok_per_sec: float
    mfu: float | None
    total_time_min: float
    lr: float
    data_ms: float
    mem_gib: float | None
    epoch: int
    eta_min: float
    tokens: int
    forward_ms: float | None = None
    backward_ms: float | None = None
    communication_ms: float | None = None
    optimizer_ms: float | None = None

    def line(self) -> str:
        parts = [
            f"step {self.step:05d}/{self.total_steps:05d} ({100 * self.step / self.total_steps:.2f}%)",
            f"loss: {self.loss:.6f}",
            f"grad norm: {self.grad_norm:.4f}",
            f"lrm: {self.lrm:.2f}",
            f"dt: {self.dt_ms:.2f}ms",
            f"tok/sec: {self.tok_per_sec:,.0f}",
            None if self.mfu is None else f"mfu: {self.mfu:.2f}",
            f"total time: {self.total_time_min:.2f}m",
            f"lr: {self.lr:.2e}",
            f"data: {self.data_ms:.2f}ms",
            None if self.mem_gib is None else f"mem: {self.mem_gib:.2f}GiB",
            f"epoch: {self.epoch}",
            f"eta: {self.eta_min:.1f}m",
        ]
        return " | ".join(part for part in parts if part is not None)


class Page:
    """A file that only grows. The first fault is told, and then nothing more is written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[str] | None = None
        self.given_up = False

    def append(self, line: str) -> None:
        if self.given_up:
            return
        try:
            if self.file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.file = self.path.open("a", encoding="utf-8", buffering=1)
            self.file.write(line + "\n")
        except OSError as fault:
            self.given_up = True
            sys.stderr.write(
                f"{self.path}: {fault.strerror}; nothing more is written to it, the training goes on\n"
            )

    def close(self) -> None:
        if self.file:
            with suppress(OSError):  # what was buffered cannot be written either; it has been told
                self.file.close()


@final
class Voice:
    """Where the words go; on the other ranks, nowhere. Nothing is created before the first word."""

    def __init__(self, folder: Path | None) -> None:
        self.pages = [Page(folder / "log.txt"), Page(folder / "metrics.jsonl")] if folder else []
        self.board: Board | None = None

    def __enter__(self) -> "Voice":
        return self

    def __exit__(self, *_: object) -> None:
        for page in self.pages:
            page.close()
        if self.board:
            self.board.close()

    def line(self, text: str) -> None:
        if self.pages:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            self.pages[0].append(text)

    def event(self, kind: str, **figures: Any) -> None:
        """One object of metrics.jsonl, with wall and monotonic time; what is not finite is null."""
        if self.pages:
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            row = {"event": kind, "time": now, "monotonic_s": round(time.monotonic(), 6)}
            self.pages[1].append(json.dumps(row | {name: _finite(value) for name, value in figures.items()}))

    def step(self, report: StepReport, *, printed: bool) -> None:
        if printed:
            self.line(report.line())
        self.event("step", **asdict(report))
        if self.board and printed:
            self.board.step(report)

    def evaluation(self, step: int, name: str, label: str, value: float | None) -> None:
        if value is None:
            return
        self.line(f"Step {step:05d} | {label}: {value:.6f}")
        if self.board:
            self.board.scalar(f"eval/{name}", value, step)


class Board:
    """TensorBoard: scalars at every line, histograms, texts and hyperparameters now and then."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def scalar(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)

    def step(self, report: StepReport) -> None:
        for name in ("loss", "grad_norm", "lr", "dt_ms", "tok_per_sec", "mfu", "data_ms", "mem_gib"):
            value = getattr(report, name)
            if value is not None:
                self.scalar(f"train/{name}", value, report.step)

    def histogram(self, name: str, values: Any, step: int) -> None:
        self.writer.add_histogram(name, values, step)

    def text(self, name: str, text: str, step: int) -> None:
        self.writer.add_text(name, text, step)

    def hyperparameters(self, options: dict[str, Any]) -> None:
        self.writer.add_text("hyperparameters", "\n".join(f"- {k}: {v}" for k, v in options.items()), 0)

    def close(self) -> None:
        self.writer.close()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
