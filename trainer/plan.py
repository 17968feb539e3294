"""What the options come to on this machine, with these data: options in, every number that was left open out."""

import math
from dataclasses import dataclass

import torch

from gputel.trainer.corpus import Corpus
from gputel.trainer.errors import TrainerError
from gputel.trainer.gpus import find_gpu
from gputel.trainer.options import Options
from gputel.trainer.ranks import World
from gputel.trainer.shape import Shape, shape_of

GPU_STEP_TOKENS = 524_288


@dataclass(frozen=True)
class Schedule:
    """What all learning rates are multiplied by: a linear warm-up to 1, then a cosine, or a plateau and a linear
    warm-down, to just above `floor` at the last step. A pure function: there is nothing to save."""

    kind: str
    steps: int
    warmup_steps: int
    warmdown_ratio: float
    floor: float

    def multiplier(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        remaining = (self.steps - step) / max(1, self.steps - self.warmup_steps)
        if self.kind == "cosine":
            height = 0.5 * (1 - math.cos(math.pi * remaining))
        else:
            height = min(1.0, remaining / self.warmdown_ratio)
        return self.floor + (1 - self.floor) * height


@dataclass
class Progress:
    """The few numbers that, with weights and optimizer, make a run go on as if never interrupted: finished steps,
    rows read by all ranks together, times over all attempts."""

    step: int = 0
    position: int = 0
    tokens: int = 0
    train_s: float = 0.0
    wall_s: float = 0.0
    skips: int = 0
    skips_in_a_row: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    stale_evaluations: int = 0
    evaluated_step: int | None = None
    save_s: float | None = None  # how long the last save took


@dataclass(frozen=True)
class TrainingPlan:
    """`steps` is the length of the schedule; `--stop-at` ends before it."""

    options: Options
    shape: Shape
    steps: int
    schedule: Schedule
    gpus: int
    device_batch: int
    tokens_per_step: int
    bf16: bool
    compiled: bool
    eval_tokens: int
    peak_flops: float | None
    peak_from: str

    @property
    def rows_per_step(self) -> int:
        return self.tokens_per_step // self.shape.seq

    @property
    def accumulation(self) -> int:
        return self.rows_per_step // (self.device_batch * self.gpus)

    @property
    def matrix_lr(self) -> float:
        adamw = 0.02 / math.sqrt(self.shape.dim)
        return self.options.lr or (0.02 if self.options.optimizer == "muon" else adamw)

    @property
    def embedding_lr(self) -> float:
        return self.options.embedding_lr or 0.2 * math.sqrt(768 / self.shape.dim)

    @property
    def head_lr(self) -> float:
        return self.options.head_lr or 0.004 * math.sqrt(768 / self.shape.dim)

    def reached(self, progress: Progress) -> str | None:
        """The reason to stop that every rank knows alike, between two steps."""
        limits = {
            "non-finite loss": (progress.skips_in_a_row, self.options.max_skips),
            "steps": (progress.step, self.steps),
            "stop-at": (progress.step, self.options.stop_at),
            "early stop": (progress.stale_evaluations, self.options.patience),
        }
        return next((why for why, (now, most) in limits.items() if most is not None and now >= most), None)

    def out_of_time(self, seconds: float) -> str | None:
        """The reason that only a clock knows: the ranks vote on it, since their clocks differ."""
        hours, options = seconds / 3600, self.options
        if options.hours is not None and hours >= options.hours:
            return "hours"
        if options.budget is not None and (options.price or 0.0) * self.gpus * hours >= options.budget:
            return "budget"
        return None


def settled(options: Options, where: World, corpus: Corpus) -> TrainingPlan:
    gpu, tokenizer = where.device.type == "cuda", corpus.tokenizer
    seq, vocab = options.seq or (2048 if gpu else 256), options.vocab or corpus.vocab
    if tokenizer and tokenizer.vocab > vocab:
        fault = f"is smaller than the tokenizer's {tokenizer.vocab}"
        raise TrainerError(f"--vocab {vocab}", fault, "leave it out")
    if options.budget is not None and options.price is None:
        raise TrainerError(f"--budget {options.budget:g}", "needs to know what an hour costs", "give --price")
    shape = shape_of(options.depth, vocab=vocab, seq=seq, dim=options.dim, heads=options.heads)
    device_batch = options.device_batch_size or (16 if gpu else 8)
    tokens_per_step = _tokens_per_step(options, device_batch, seq, where)
    steps = _steps(options, shape, tokens_per_step, corpus)
    has_bf16 = gpu and torch.cuda.is_bf16_supported(False)
    peak_flops, peak_from = _peak(where.device)
    return TrainingPlan(
        options=options,
        shape=shape,
        steps=steps,
        schedule=Schedule(
            options.schedule, steps, options.warmup_steps, options.warmdown_ratio, options.lr_floor
        ),
        gpus=where.size,
        device_batch=device_batch,
        tokens_per_step=tokens_per_step,
        bf16=has_bf16 if options.dtype == "auto" else options.dtype == "bf16",
        compiled=gpu if options.compile is None else options.compile,
        eval_tokens=options.eval_tokens or (2**21 if gpu else 2**16),
        peak_flops=peak_flops,
        peak_from=peak_from,
    )


def _tokens_per_step(options: Options, device_batch: int, seq: int, where: World) -> int:
    at_once = device_batch * seq * where.size
    usual = GPU_STEP_TOKENS if where.device.type == "cuda" and GPU_STEP_TOKENS % at_once == 0 else at_once
    total = options.total_batch_size or usual
    if total % at_once:
        fault = f"is no multiple of {device_batch} x {seq} x {where.size} ranks = {at_once}"
        hint = f"try {max(1, round(total / at_once)) * at_once}"
        raise TrainerError(f"--total-batch-size {total}", fault, hint)
    return total


def _steps(options: Options, shape: Shape, tokens_per_step: int, corpus: Corpus) -> int:
    if options.steps:
        return options.steps
    if options.epochs and not options.tokens:
        rows = corpus.training(shape.seq, options.seed).rows
        return max(1, int(options.epochs * rows) // (tokens_per_step // shape.seq))
    return max(1, int(options.tokens or options.ratio * shape.parameters) // tokens_per_step)


def _peak(device: torch.device) -> tuple[float | None, str]:
    if device.type != "cuda":
        return None, "none for a CPU: no mfu"
    name = torch.cuda.get_device_name(device)
    gpu = find_gpu(name)
    if gpu is None or gpu.peak_flops is None:
        return None, f"none known for {name!r}: no mfu"
    return gpu.peak_flops, f"{gpu.peak_flops:.3e} FLOP/s per GPU, dense bf16, {gpu.name} of gpus.toml"
