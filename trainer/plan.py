"""What the options come to on this machine, with these data: options in, every number that was left open out."""

import math
from dataclasses import dataclass

import torch

from gputel.trainer.budget import Budget
from gputel.trainer.data.corpus import Corpus
from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError
from gputel.trainer.gpus import find_gpu
from gputel.trainer.options import Options
from gputel.trainer.schedule import Schedule
from gputel.trainer.shape import Shape, shape_of

GPU_STEP_TOKENS = 524_288


@dataclass(frozen=True)
class Plan:
    options: Options
    shape: Shape
    schedule: Schedule
    budget: Budget
    device_batch: int
    accumulation: int
    rows_per_step: int
    lr: float
    bf16: bool
    compiled: bool
    peak_flops: float | None
    peak_from: str

    @property
    def tokens_per_step(self) -> int:
        return self.rows_per_step * self.shape.seq


def settled(options: Options, where: World, corpus: Corpus) -> Plan:
    on_gpu = where.device.type == "cuda"
    shape = shape_of(
        options.depth,
        vocab=options.vocab or corpus.vocab,
        seq=options.seq or (2048 if on_gpu else 256),
        dim=options.dim,
        heads=options.heads,
    )
    device_batch = options.device_batch_size or (16 if on_gpu else 8)
    tokens_at_once = device_batch * shape.seq * where.size
    total = options.total_batch_size or (
        GPU_STEP_TOKENS if on_gpu and GPU_STEP_TOKENS % tokens_at_once == 0 else tokens_at_once
    )
    if total % tokens_at_once:
        raise TrainerError(
            f"--total-batch-size {total}",
            f"is no multiple of {device_batch} x {shape.seq} x {where.size} ranks = {tokens_at_once}",
            f"try {max(1, round(total / tokens_at_once)) * tokens_at_once}",
        )
    steps = _steps(options, shape, total, corpus)
    lr = options.lr or 0.02 / math.sqrt(shape.dim)
    peak, peak_from = _peak(where.device)
    return Plan(
        options,
        shape,
        _schedule(options, steps, lr),
        _budget(options, steps, where.size),
        device_batch,
        total // tokens_at_once,
        total // shape.seq,
        lr,
        options.dtype == "bf16"
        or (options.dtype == "auto" and on_gpu and torch.cuda.is_bf16_supported(False)),
        on_gpu if options.compile is None else options.compile,
        peak,
        peak_from,
    )


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


def _budget(options: Options, steps: int, gpus: int) -> Budget:
    if options.budget is not None and options.price is None:
        raise TrainerError(f"--budget {options.budget:g}", "needs to know what an hour costs", "give --price")
    return Budget(
        steps,
        options.stop_at,
        options.hours,
        options.budget,
        options.price,
        gpus,
        options.patience,
        options.max_skips,
    )


def _peak(device: torch.device) -> tuple[float | None, str]:
    if device.type != "cuda":
        return None, "none for a CPU: no mfu"
    name = torch.cuda.get_device_name(device)
    gpu = find_gpu(name)
    if gpu is None or gpu.peak_flops is None:
        return None, f"none known for {name!r}: no mfu"
    return gpu.peak_flops, f"{gpu.peak_flops:.3e} FLOP/s per GPU, dense bf16, {gpu.name} of gpus.toml"
