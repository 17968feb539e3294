"""What a run prints: one line a step in the old nanochat format, the same in log.txt, metrics.jsonl for programs;
and errors: place, fault and hint on one line.

Rank 0 alone writes. A full disk must not end a training: a file that cannot be written is given up with one line.
"""

import errno
import importlib
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

if TYPE_CHECKING:  # torch takes seconds, and errors need none of it
    from torch import Tensor

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


@final
class Voice:
    """Where the words go; on the other ranks, nowhere. Nothing is created before the first word."""

    def __init__(self, folder: Path, *, speaks: bool) -> None:
        self.folder, self.speaks = folder, speaks
        self.board: Any = None
        self.files: dict[str, IO[str] | None] = {}

    def __enter__(self) -> "Voice":
        return self

    def __exit__(self, *_: object) -> None:
        for file in filter(None, (*self.files.values(), self.board)):
            with suppress(OSError):  # what was buffered cannot be written either; that has been printed
                file.close()

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
            self._append("log.txt", text)

    def event(self, kind: str, *, at: float | None = None, **figures: Any) -> None:
        """One object of metrics.jsonl, with wall and monotonic time of now or `at`; what is not finite is null."""
        if self.speaks:
            clock = time.monotonic()
            at = clock if at is None else at
            wall = datetime.now(timezone.utc) - timedelta(seconds=clock - at)
            when = {"time": wall.isoformat(timespec="milliseconds"), "monotonic_s": round(at, 6)}
            row = {"event": kind, **when, **figures}
            lost = {name: None for name, v in row.items() if isinstance(v, float) and not math.isfinite(v)}
            self._append("metrics.jsonl", json.dumps({**row, **lost}))

    def step(self, step: int, steps: int, figures: Figures, *, printed: bool, at: float) -> None:
        """`at`: when the device ended the step, on the monotonic clock."""
        self.event("step", at=at, step=step, total_steps=steps, **figures)
        if printed:
            self.line(step_line(step, steps, figures))
            self._curves("train", step, {name: figures[name] for name in CURVES})

    def evaluation(self, step: int, figures: Figures, weights: Iterable[tuple[str, "Tensor"]]) -> None:
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

    def _append(self, name: str, line: str) -> None:
        """The first fault of a file is printed, and then nothing more is written to it."""
        try:
            if name not in self.files:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.files[name] = (self.folder / name).open("a", encoding="utf-8", buffering=1)
            if file := self.files[name]:
                file.write(line + "\n")
        except OSError as fault:
            self.files[name] = None
            more = "nothing more is written to it, the training goes on"
            sys.stderr.write(f"{self.folder / name}: {fault.strerror}; {more}\n")

    def _curves(self, kind: str, step: int, figures: Figures) -> None:
        for name, value in figures.items() if self.board else ():
            if value is not None:
                self.board.add_scalar(f"{kind}/{name}", value, step)


OUT_OF_MEMORY = "OutOfMemoryError"  # torch's, by its name: importing torch takes seconds
LESS_MEMORY = "take a smaller --device-batch-size, or --recompute"
DISK_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}


class TrainerError(Exception):
    """A mistake in options or files: `place: fault; hint`. The process that prints it ends with exit code 1."""

    def __init__(self, place: str, fault: str, hint: str = "") -> None:
        self.place, self.fault, self.hint = place, fault, hint
        super().__init__(place, fault, hint)

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}" + (f"; {self.hint}" if self.hint else "")


LeftOut = dict[str, TrainerError]  # by place


@contextmanager
def tolerated(left_out: LeftOut | None) -> Iterator[None]:
    """An error of the data is noted and its place left out; without anywhere to note it, it is raised."""
    try:
        yield
    except TrainerError as fault:
        if left_out is None:
            raise
        left_out[fault.place] = fault


class RankError(Exception):
    """An error of one rank as one line, raised on all ranks; on its own rank with its cause. A `mistake` in
    options or files may have been met by several of them alike."""

    def __init__(self, rank: int, line: str, *, mistake: bool = False) -> None:
        self.rank, self.line, self.mistake = rank, line, mistake
        super().__init__(rank, line)

    @classmethod
    def by(cls, rank: int, fault: Exception) -> "RankError":
        return cls(rank, one_line(fault), mistake=isinstance(fault, TrainerError))

    def __str__(self) -> str:
        return self.line


def one_line(fault: BaseException) -> str:
    """An error in one line: that of the operating system with its file, any other with its type."""
    if isinstance(fault, TrainerError | RankError):
        return str(fault)
    if isinstance(fault, OSError) and fault.strerror:
        reason = DISK_FULL.get(fault.errno or 0)
        place = f"{fault.filename}: " if fault.filename else ""
        return f"{place}{fault.strerror}" + (f" ({reason})" if reason else "")
    line = f"{type(fault).__name__}: {fault}".splitlines()[0]
    return f"out of memory: {line}; {LESS_MEMORY}" if type(fault).__name__ == OUT_OF_MEMORY else line


def explains_itself(fault: BaseException) -> bool:
    """Is one line enough? An error in the code of the trainer needs its traceback."""
    if isinstance(fault, RankError):
        return isinstance(fault.__cause__, OSError | TrainerError | None)
    full = isinstance(fault, OSError) and fault.errno in DISK_FULL
    return full or isinstance(fault, TrainerError) or type(fault).__name__ == OUT_OF_MEMORY


def optional(module: str, package: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise TrainerError(wanted_by, f"needs the package {package}", f"pip install {package}") from missing
