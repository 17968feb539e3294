"""What a run says: one line a step in the old nanochat grammar, log.txt with the same, metrics.jsonl for programs.

Rank 0 alone writes. A full disk must not end a training: a file that cannot be written is given up with one line.
"""

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any, final

from torch import Tensor

from gputel.trainer.errors import optional

Figures = Mapping[str, float | None]
# A field whose figure is None is left out of the line.
FIELDS = (
    ("loss", "loss: {:.6f}"),
    ("grad_norm", "grad norm: {:.4f}"),
    ("lrm", "lrm: {:.2f}"),
    ("dt_ms", "dt: {:.2f}ms"),
    ("tok_per_sec", "tok/sec: {:,.0f}"),
    ("mfu", "mfu: {:.2f}"),
    ("total_time_min", "total time: {:.2f}m"),
    ("lr", "lr: {:.2e}"),
    ("data_ms", "data: {:.2f}ms"),
    ("mem_gib", "mem: {:.2f}GiB"),
    ("epoch", "epoch: {}"),
    ("eta_min", "eta: {:.1f}m"),
)
LABELS = {"val_loss": "Validation loss", "val_bpb": "Validation bpb"}
CURVES = ("loss", "grad_norm", "lr", "dt_ms", "tok_per_sec", "mfu", "data_ms", "mem_gib")


def step_line(step: int, steps: int, figures: Figures) -> str:
    begin = f"step {step:05d}/{steps:05d} ({100 * step / steps:.2f}%)"
    fields = [form.format(figures[name]) for name, form in FIELDS if figures[name] is not None]
    return " | ".join([begin, *fields])


class LogFile:
    """A file that only grows. The first fault is printed, and then nothing more is written to it."""

    def __init__(self, path: Path) -> None:
        self.path, self.given_up = path, False
        self.file: IO[str] | None = None

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
            more = "nothing more is written to it, the training goes on"
            sys.stderr.write(f"{self.path}: {fault.strerror}; {more}\n")

    def close(self) -> None:
        with suppress(OSError):  # what was buffered cannot be written either; that has been printed
            if self.file:
                self.file.close()


@final
class Voice:
    """Where the words go; on the other ranks, nowhere. Nothing is created before the first word."""

    def __init__(self, folder: Path, *, speaks: bool) -> None:
        self.folder, self.speaks = folder, speaks
        self.board: Any = None
        self.log, self.metrics = LogFile(folder / "log.txt"), LogFile(folder / "metrics.jsonl")

    def __enter__(self) -> "Voice":
        return self

    def __exit__(self, *_: object) -> None:
        for page in (self.log, self.metrics, self.board):
            if page:
                page.close()

    def open_board(self, options: Mapping[str, Any]) -> None:
        if self.speaks:
            module = optional("torch.utils.tensorboard", "tensorboard", "--tensorboard")
            self.board = module.SummaryWriter(str(self.folder / "tensorboard"))
            plain = {name: v if isinstance(v, float | int) else str(v) for name, v in options.items()}
            self.board.add_hparams(plain, {}, run_name=".")

    def line(self, text: str) -> None:
        if self.speaks:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            self.log.append(text)

    def event(self, kind: str, *, at: float | None = None, **figures: Any) -> None:
        """One object of metrics.jsonl, with wall and monotonic time of now or `at`; what is not finite is null."""
        if self.speaks:
            clock = time.monotonic()
            at = clock if at is None else at
            wall = datetime.now(timezone.utc) - timedelta(seconds=clock - at)
            when = {"time": wall.isoformat(timespec="milliseconds"), "monotonic_s": round(at, 6)}
            row = {"event": kind, **when, **figures}
            lost = {name: None for name, v in row.items() if isinstance(v, float) and not math.isfinite(v)}
            self.metrics.append(json.dumps({**row, **lost}))

    def step(self, step: int, steps: int, figures: Figures, *, printed: bool, at: float) -> None:
        """`at`: when the device ended the step, on the monotonic clock."""
        self.event("step", at=at, step=step, total_steps=steps, **figures)
        if printed:
            self.line(step_line(step, steps, figures))
            self._curves("train", step, {name: figures[name] for name in CURVES})

    def evaluation(self, step: int, figures: Figures, weights: Iterable[tuple[str, Tensor]]) -> None:
        for name, value in figures.items():
            if value is not None:
                self.line(f"Step {step:05d} | {LABELS.get(name, name)}: {value:.6f}")
        self._curves("eval", step, figures)
        for name, weight in weights if self.board else ():
            self.board.add_histogram(f"weights/{name}", weight.detach().float(), step)

    def sample(self, step: int, text: str) -> None:
        self.line(f"sample at step {step}: {text!r}")
        if self.board:
            self.board.add_text("sample", text, step)

    def _curves(self, kind: str, step: int, figures: Figures) -> None:
        for name, value in figures.items() if self.board else ():
            if value is not None:
                self.board.add_scalar(f"{kind}/{name}", value, step)
