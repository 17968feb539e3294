"""What the options come to on this machine, with these data: options in, every number that was left open out."""

import math
from dataclasses import dataclass

import torch

from gputel.trainer.budget import StopBudget
from gputel.trainer.data.corpus import Corpus
from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError
from gputel.trainer.gpus import find_gpu
from gputel.trainer.options import Options
from gputel.trainer.schedule import Schedule
from gputel.trainer.shape import Shape, shape_of

GPU_STEP_TOKENS = 524_288


@dataclass(frozen=True)
class TrainingPlan:
    options: Options
    shape: Shape
    schedule: Schedule
    budget: StopBudget
    device_batch: int
    tokens_per_step: int
    accumulation: int
    lr: float
    bf16: bool
    compiled: bool
    eval_tokens: int
    peak_flops: float | None
    peak_from: str

    @property
    def rows_per_step(self) -> int:
        return self.tokens_per_step // self.shape.seq


def settled(options: Options, where: World, corpus: Corpus) -> TrainingPlan:
    gpu = where.device.type == "cuda"
    seq, vocab, tokenizer = (
        options.seq or (2048 if gpu else 256),
        options.vocab or corpus.vocab,
        corpus.tokenizer,
    )
    if tokenizer and tokenizer.vocab > vocab:
        raise TrainerError(
            f"--vocab {vocab}", f"is smaller than the tokenizer's {tokenizer.vocab}", "leave it out"
        )
    shape = shape_of(options.depth, vocab=vocab, seq=seq, dim=options.dim, heads=options.heads)
    device_batch = options.device_batch_size or (16 if gpu else 8)
    tokens_per_step = _tokens_per_step(options, device_batch, seq, where)
    steps = _steps(options, shape, tokens_per_step, corpus)
    lr = options.lr or 0.02 / math.sqrt(shape.dim)
    peak_flops, peak_from = _peak(where.device)
    return TrainingPlan(
        options=options,
        shape=shape,
        schedule=_schedule(options, steps, lr),
        budget=_budget(options, steps, where.size),
        device_batch=device_batch,
        tokens_per_step=tokens_per_step,
        accumulation=tokens_per_step // (device_batch * seq * where.size),
        lr=lr,
        bf16=gpu and torch.cuda.is_bf16_supported(False)
        if options.dtype == "auto"
        else options.dtype == "bf16",
        compiled=gpu if options.compile is None else options.compile,
        eval_tokens=options.eval_tokens or (2**23 if gpu else 2**16),
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
    if options.tokens:
        return max(1, options.tokens // tokens_per_step)
    if options.epochs:
        rows = corpus.training(shape.seq, options.seed).rows
        return max(1, int(options.epochs * rows) // (tokens_per_step // shape.seq))
    return max(1, shape.steps_for_ratio(options.ratio, tokens_per_step))


def _schedule(options: Options, steps: int, lr: float) -> Schedule:
    warmup = min(256, steps // 10) if options.warmup_steps is None else options.warmup_steps
    floor = 0.1 if options.min_lr is None else options.min_lr / lr
    return Schedule(options.schedule, steps, warmup, options.warmdown_ratio, floor)


def _budget(options: Options, steps: int, gpus: int) -> StopBudget:
    if options.budget is not None and options.price is None:
        raise TrainerError(f"--budget {options.budget:g}", "needs to know what an hour costs", "give --price")
    return StopBudget(steps, options, gpus)


def _peak(device: torch.device) -> tuple[float | None, str]:
    if device.type != "cuda":
        return None, "none for a CPU: no mfu"
    name = torch.cuda.get_device_name(device)
    gpu = find_gpu(name)
    if gpu is None or gpu.peak_flops is None:
        return None, f"none known for {name!r}: no mfu"
    return gpu.peak_flops, f"{gpu.peak_flops:.3e} FLOP/s per GPU, dense bf16, {gpu.name} of gpus.toml"
