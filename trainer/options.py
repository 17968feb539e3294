"""Every option of a training run, the table from which the command line is made; and the plan: what the options
come to on this machine, with these data.

None in the table means "not said": what then holds depends on the device, the data or the shape.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gputel.trainer.gpus import find_gpu
from gputel.trainer.say import TrainerError
from gputel.trainer.shape import Shape, shape_of

if TYPE_CHECKING:  # torch takes seconds, and --help needs none of it
    from gputel.trainer.data import Corpus
    from gputel.trainer.ranks import World

Command = TypeVar("Command", bound=Callable[..., Any])


class Finite(click.FloatRange):
    """click lets nan and inf into any range: no step of such a run would count."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not finite", param, ctx)
        return number


WHOLE, NATURAL = click.IntRange(1), click.IntRange(0)
POSITIVE, ZERO_UP = Finite(0, min_open=True), Finite(0)
PART, SHARE = Finite(0, 1, max_open=True), Finite(0, 1, min_open=True)
PATH = click.Path()
GPU_STEP_TOKENS = 524_288


def option(default: Any, kind: Any, about: str) -> Any:
    """`kind`: what click checks, or the words of which one is chosen."""
    kind = click.Choice(kind.split()) if isinstance(kind, str) else kind
    return field(default=default, metadata={"kind": kind, "about": about})


@dataclass(frozen=True)
class Options:
    depth: int = option(12, WHOLE, "layers; dim is 64 times that")
    dim: int | None = option(None, WHOLE, "width [64 x depth]")
    heads: int | None = option(None, WHOLE, "attention heads [ceil(dim / 128)]")
    vocab: int | None = option(None, click.IntRange(2), "vocabulary [the tokenizer's]")
    seq: int | None = option(None, WHOLE, "tokens in a sequence [2048; 256 on a CPU]")

    steps: int | None = option(None, WHOLE, "optimizer steps [from --tokens or --ratio]")
    tokens: int | None = option(None, WHOLE, "train on this many tokens")
    ratio: float = option(20.0, POSITIVE, "tokens per parameter, where nothing else is said")
    stop_at: int | None = option(None, WHOLE, "end after this step, the schedule unchanged")
    hours: float | None = option(None, POSITIVE, "end after this many hours")
    budget: float | None = option(None, POSITIVE, "end when this many dollars are spent")
    price: float | None = option(None, POSITIVE, "dollars per GPU hour, for --budget")
    patience: int | None = option(None, WHOLE, "end after this many evaluations without improvement")
    max_skips: int = option(10, WHOLE, "end after this many non-finite steps in a row")

    device_batch_size: int | None = option(None, WHOLE, "sequences at once on a device [16; 8 on a CPU]")
    total_batch_size: int | None = option(None, WHOLE, "tokens in a step [524288; on a CPU a batch per rank]")
    lr: float | None = option(None, POSITIVE, "peak rate of matrices [0.02; AdamW: 0.02 / sqrt(dim)]")
    embedding_lr: float | None = option(None, POSITIVE, "peak rate of the embedding [0.2 x sqrt(768 / dim)]")
    head_lr: float | None = option(None, POSITIVE, "peak rate of the head [0.004 x sqrt(768 / dim)]")
    lr_floor: float = option(0.0, PART, "part of the peak rates that is left at the end")
    warmup_steps: int = option(0, NATURAL, "steps of warm-up")
    schedule: str = option("warmdown", "warmdown cosine", "after the warm-up")
    warmdown_ratio: float = option(0.5, SHARE, "part of the run that warms down")
    optimizer: str = option("muon", "muon adamw", "for matrices; embedding and head have AdamW")
    weight_decay: float = option(0.0, ZERO_UP, "decay of matrices")
    grad_clip: float = option(1.0, ZERO_UP, "largest gradient norm; 0: do not clip")

    data: str | None = option(None, str, "file, folder or mixture a=0.65,b=0.35 [Python's standard library]")
    tokenizer: str | None = option(None, str, "bytes or a tokenizers file [bytes for text]")
    skip_bad_data: bool = option(False, bool, "leave out and count files and rows that cannot be read")
    seed: int = option(0, click.IntRange(0, 2**31 - 1), "of weights and shuffling")

    out: str | None = option(None, PATH, "folder of the run [runs/dDEPTH]")
    log_every: int = option(1, WHOLE, "steps from one line to the next")
    tensorboard: bool = option(False, bool, "write TensorBoard files too")

    save_every: int = option(1000, NATURAL, "steps between checkpoints; 0: never by steps")
    save_minutes: float = option(30.0, ZERO_UP, "minutes between checkpoints; 0: never by time")
    keep: int = option(10, WHOLE, "rolling checkpoints; best and epoch ones are kept besides")
    resume: str | None = option(None, str, "auto (go on if there is something), latest, best, or a path")

    eval_every: int = option(250, NATURAL, "steps between evaluations; 0: never")
    eval_tokens: int | None = option(None, WHOLE, "tokens of a validation [2M; 64k on a CPU]")
    hellaswag: str | None = option(None, PATH, "multiple-choice questions, a jsonl in HellaSwag's form")
    sample_prompt: str | None = option(None, str, "write text from this prompt at every evaluation")
    sample_tokens: int = option(64, WHOLE, "tokens of a text sample")

    device: str = option("auto", "auto cpu cuda", "where to train")
    dtype: str = option("auto", "auto bf16 fp32", "of all but weights [bf16 where a GPU has it]")
    attention: str = option("auto", "auto flash cudnn efficient math fa3", "its kernel")
    fp8: bool = option(False, bool, "matrices of the blocks multiplied in eight bits, where the GPU does it")
    compile: bool | None = option(None, bool, "torch.compile [on a GPU]")
    recompute: bool = option(False, bool, "compute activations again in the backward pass: less memory")
    shard: str = option("none", "none fsdp", "fsdp: weights and optimizer spread over ranks")
    keep_whole_gradients: bool = option(False, bool, "fsdp: gradients travel once a step: more memory")
    network: str = option("default", "default wan", "wan: for slow links: gradients in bf16")
    rank_timeout: float = option(600.0, Finite(1), "seconds without progress until a rank gives up")


def with_options(command: Command) -> Command:
    """Give a click command one option per field; it is called with keywords that make an Options."""
    for entry in reversed(fields(Options)):
        name, kind, default = entry.name.replace("_", "-"), entry.metadata["kind"], entry.default
        words = f"--{name}/--no-{name}" if kind is bool else f"--{name}"
        more: dict[str, Any] = {"type": None if kind is bool else kind, "show_default": default is not None}
        more |= {"default": default, "help": entry.metadata["about"]}
        command = click.option(words, entry.name, **more)(command)
    return command


@dataclass
class Progress:
    """The few numbers that, with weights and optimizer, make a run go on as if never interrupted: finished steps,
    rows read by all ranks together, times over all attempts."""

    step: int = 0
    position: int = 0
    train_s: float = 0.0
    wall_s: float = 0.0
    skips_in_a_row: int = 0
    best_loss: float | None = None
    stale_evaluations: int = 0
    evaluated_step: int | None = None
    save_s: float | None = None  # how long the last save took


@dataclass(frozen=True)
class TrainingPlan:
    """`steps` is the length of the schedule; `--stop-at` ends before it."""

    options: Options
    shape: Shape
    steps: int
    gpus: int
    device_batch: int
    tokens_per_step: int
    bf16: bool
    compiled: bool
    eval_tokens: int
    gpu_name: str | None
    peak_flops: float | None
    matrix_lr: float
    embedding_lr: float
    head_lr: float

    @property
    def rows_per_step(self) -> int:
        return self.tokens_per_step // self.shape.seq

    @property
    def accumulation(self) -> int:
        return self.rows_per_step // (self.device_batch * self.gpus)

    def multiplier(self, step: int) -> float:
        """What all learning rates are multiplied by: a linear warm-up to 1, then a cosine, or a plateau and a
        linear warm-down, to just above the floor at the last step. A pure function: there is nothing to save."""
        options = self.options
        if step < options.warmup_steps:
            return (step + 1) / options.warmup_steps
        remaining = (self.steps - step) / max(1, self.steps - options.warmup_steps)
        height = min(1.0, remaining / options.warmdown_ratio)
        if options.schedule == "cosine":
            height = 0.5 * (1 - math.cos(math.pi * remaining))
        return options.lr_floor + (1 - options.lr_floor) * height

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
        spent = (options.price or 0.0) * self.gpus * hours
        return "budget" if options.budget is not None and spent >= options.budget else None


def settled(options: Options, where: "World", corpus: "Corpus") -> TrainingPlan:
    """Every number that was left open."""
    from torch import cuda

    gpu, tokenizer = where.device.type == "cuda", corpus.tokenizer
    seq, vocab = options.seq or (2048 if gpu else 256), options.vocab or corpus.vocab
    if tokenizer and tokenizer.vocab > vocab:
        fault = f"is smaller than the tokenizer's {tokenizer.vocab}"
        raise TrainerError(f"--vocab {vocab}", fault, "leave it out")
    if options.budget is not None and options.price is None:
        raise TrainerError(f"--budget {options.budget:g}", "needs to know what an hour costs", "give --price")
    shape = shape_of(options.depth, vocab=vocab, seq=seq, dim=options.dim, heads=options.heads)
    device_batch = options.device_batch_size or (16 if gpu else 8)
    at_once = device_batch * seq * where.size
    usual = GPU_STEP_TOKENS if gpu and GPU_STEP_TOKENS % at_once == 0 else at_once
    tokens_per_step = options.total_batch_size or usual
    if tokens_per_step % at_once:
        fault = f"is no multiple of {device_batch} x {seq} x {where.size} ranks = {at_once}"
        hint = f"try {max(1, round(tokens_per_step / at_once)) * at_once}"
        raise TrainerError(f"--total-batch-size {tokens_per_step}", fault, hint)
    tokens = options.tokens or options.ratio * shape.parameters
    name = cuda.get_device_name(where.device) if gpu else None
    known = find_gpu(name) if name else None
    return TrainingPlan(
        options,
        shape,
        steps=options.steps or max(1, int(tokens) // tokens_per_step),
        gpus=where.size,
        device_batch=device_batch,
        tokens_per_step=tokens_per_step,
        bf16=options.dtype == "bf16" or (options.dtype == "auto" and gpu and cuda.is_bf16_supported(False)),
        compiled=gpu if options.compile is None else options.compile,
        eval_tokens=options.eval_tokens or (2**21 if gpu else 2**16),
        gpu_name=name,
        peak_flops=known.peak_flops if known else None,
        matrix_lr=options.lr or (0.02 if options.optimizer == "muon" else 0.02 / math.sqrt(shape.dim)),
        embedding_lr=options.embedding_lr or 0.2 * math.sqrt(768 / shape.dim),
        head_lr=options.head_lr or 0.004 * math.sqrt(768 / shape.dim),
    )
