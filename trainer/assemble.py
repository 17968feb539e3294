"""From options to a run that is ready for its first step: here all is decided and checked, and nothing trained."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.torch_version import TorchVersion

from gputel.trainer.checkpoint import Store, manifest, restore, resumed_from, same_run
from gputel.trainer.corpus import Corpus, open_corpus
from gputel.trainer.data import Mixture, Source
from gputel.trainer.errors import TrainerError
from gputel.trainer.evaluate import MultipleChoice, Validation, questions
from gputel.trainer.fp8 import require_fp8
from gputel.trainer.model import Model
from gputel.trainer.optim import Optimizer, optimizer
from gputel.trainer.options import Options
from gputel.trainer.plan import Progress, TrainingPlan, settled
from gputel.trainer.ranks import World, replicated, sharded
from gputel.trainer.say import Voice

SPLITS_DDP_GRAPHS = "2.13"  # the first torch that was seen to compile the chunked loss behind DDP


@dataclass
class TrainingRun:
    """`engine` is the model as it trains, behind DDP where there are several ranks; `saved` the checkpoint from
    which the run goes on, if it is its own; `zero` when it would have begun, had it never been interrupted."""

    plan: TrainingPlan
    where: World
    folder: Path
    voice: Voice
    corpus: Corpus
    rows: Source | Mixture
    validation: Validation | None
    asked: list[MultipleChoice]
    model: Model
    engine: nn.Module
    optimizer: Optimizer
    store: Store
    progress: Progress = field(default_factory=Progress)
    saved: Path | None = None
    zero: float = field(default_factory=time.monotonic)

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.where.device.type, torch.bfloat16) if self.plan.bf16 else nullcontext()

    def wall_s(self) -> float:
        return time.monotonic() - self.zero

    def about(self) -> dict[str, Any]:
        """What a checkpoint says of the run beside the tensors, and metrics.jsonl at the start."""
        return {
            "progress": asdict(self.progress),
            "shape": asdict(self.plan.shape),
            "options": asdict(self.plan.options),
            "data": self.corpus.fingerprint,
            "tokenizer": self.corpus.tokenizer.recipe if self.corpus.tokenizer else None,
            "ranks": self.where.size,
            "torch": torch.__version__,
        }


def run_folder(options: Options) -> Path:
    """Rank 0's decision. A folder that was named and holds checkpoints is only entered to go on."""
    name = options.run_name or f"d{options.depth}"
    folder = Path(options.out or Path("runs") / name)
    if options.resume or not (folder / "checkpoints").exists():
        return folder
    if options.out:
        hint = "go on with --resume auto, or take another --out"
        raise TrainerError(str(folder), "holds a run already", hint)
    number = 2
    while folder.with_name(f"{name}-{number}").exists():
        number += 1
    return folder.with_name(f"{name}-{number}")


def assembled(options: Options, where: World, folder: Path, voice: Voice) -> TrainingRun:
    """Check first what costs nothing to check, then the data, then build; a run that stands where it was left."""
    with where.together():
        corpus = open_corpus(options.data, options.val_data, options.tokenizer)
        plan = settled(options, where, corpus)
        if options.sample_prompt is not None and corpus.tokenizer is None:
            raise TrainerError("--sample-prompt", "needs to know how text becomes tokens", "give --tokenizer")
        if options.fp8:
            require_fp8(where.device, plan.shape.dim, plan.device_batch * plan.shape.seq)
        asked = questions(Path(options.hellaswag), corpus.tokenizer) if options.hellaswag else []
        corpus.check(plan.shape.vocab, lambda number: number % where.size == where.rank)
        validation = _validation(plan, corpus, where) if options.eval_every else None
        rows = corpus.training(plan.shape.seq, options.seed)
        if options.tensorboard:
            voice.open_board(asdict(options))
    model, engine = built(plan, where)
    trained = model, engine, optimizer(model, plan, where.rank)
    store = Store(folder / "checkpoints", where, keep=options.keep)
    where.from_main(store.tidy)
    run = TrainingRun(plan, where, folder, voice, corpus, rows, validation, asked, *trained, store)
    if options.resume:
        _resume(run, options.resume)
    return run


def built(plan: TrainingPlan, where: World) -> tuple[Model, nn.Module]:
    """The model is laid out without memory, spread, and only then given weights: no rank ever holds more than its
    part, and all draw the same. It is compiled whole, so that the loss fuses with the head; where it is sharded,
    block by block, since gathering weights breaks a graph anyway."""
    options, fsdp = plan.options, plan.options.shard == "fsdp"
    torch.set_float32_matmul_precision("high")
    if plan.compiled and where.size > 1 and TorchVersion(torch.__version__) < SPLITS_DDP_GRAPHS:
        torch._dynamo.config.optimize_ddp = (
            False  # the chunked loss is a higher-order operator, which it cannot split
        )
    with torch.device("meta"):
        model = Model(plan.shape, options.dropout, recompute=options.recompute, fp8=options.fp8)
    if plan.compiled:
        for part in model.blocks if fsdp else [model]:
            part.compile(dynamic=False)
    if fsdp:
        sharded([*model.blocks, model], where, bf16=plan.bf16)
    model.on(where.device)
    model.initialize(options.seed)
    return model, model if fsdp else replicated(model, where, wan=options.network == "wan")


def _validation(plan: TrainingPlan, corpus: Corpus, where: World) -> Validation:
    seq, tokenizer = plan.shape.seq, corpus.tokenizer
    rows = corpus.validation(seq)[: max(1, plan.eval_tokens // seq)]
    lengths = torch.zeros(plan.shape.vocab, dtype=torch.int64)
    if tokenizer:
        lengths[: tokenizer.vocab] = torch.from_numpy(tokenizer.byte_lengths)
    return Validation(rows, seq, plan.device_batch, lengths.to(where.device))


def _resume(run: TrainingRun, resume: str) -> None:
    checkpoint = run.where.from_main(lambda: resumed_from(resume, run.store.folder, run.voice.line))
    if checkpoint is None:
        return
    now = json.loads(json.dumps(run.about()))  # as a manifest would hold it
    for change in same_run(checkpoint, now):
        run.voice.line(f"changed since the checkpoint: {change}")
    restore(checkpoint, run.model, run.optimizer)
    run.progress = Progress(**manifest(checkpoint)["progress"])
    run.zero -= run.progress.wall_s
    run.saved = checkpoint if checkpoint.parent == run.store.folder.resolve() else None
    run.voice.line(f"Resuming from {checkpoint.name} with step {run.progress.step}")
    run.voice.event("resume", checkpoint=checkpoint.name, step=run.progress.step)


def banner(run: TrainingRun) -> list[str]:
    """The first lines of a log: what will be trained, on what, for how long. One `name: value` a line."""
    plan, shape, where, options = run.plan, run.plan.shape, run.where, run.plan.options
    tokens, batch = plan.steps * plan.tokens_per_step, plan.device_batch
    numbers = ("bf16 autocast" if plan.bf16 else "fp32") + (", matrices in FP8" if options.fp8 else "")
    lines = [
        f"Run: {run.folder.name} in {run.folder}",
        f"Model: depth {shape.depth}, dim {shape.dim}, {shape.heads} heads of {shape.head_dim}, "
        f"vocabulary {shape.vocab:,}, sequence {shape.seq:,}, dropout {options.dropout:g}",
        f"Number of parameters: {shape.parameters:,}",
        f"Estimated FLOPs per token: {shape.flops_per_token:.6e}",
        f"Data: {run.corpus.described}",
        f"Device: {where.device.type}, {where.size} ranks, {numbers}, "
        f"{'compiled' if plan.compiled else 'eager'}, shard {options.shard}",
        f"Peak: {plan.peak_from}",
        f"Tokens / micro-batch / rank: {batch} x {shape.seq} = {batch * shape.seq:,}",
        f"Total batch size {plan.tokens_per_step:,} => gradient accumulation steps: {plan.accumulation}",
        f"Optimizer: {options.optimizer}, peak lr {plan.matrix_lr:.3e} of matrices, "
        f"{plan.embedding_lr:.3e} of the embedding, {plan.head_lr:.3e} of the head, {options.schedule} after "
        f"{options.warmup_steps} steps of warm-up, weight decay {options.weight_decay:g}, "
        f"gradients clipped at {options.grad_clip:g}",
        f"Total number of training tokens: {tokens:,} in {plan.steps:,} steps",
        f"Tokens : Params ratio: {tokens / shape.parameters:.2f}",
        "The loss is the mean over all ranks and micro-batches; total time is that of all steps.",
    ]
    return [*lines, "The first step compiles the model, which takes minutes."] if plan.compiled else lines
