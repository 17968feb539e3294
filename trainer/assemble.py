"""From options to a run that is ready for its first step: everything is decided and checked here, nothing
trained."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gputel.trainer.budget import Progress
from gputel.trainer.checkpoint import Store, manifest
from gputel.trainer.data.corpus import Corpus, open_corpus
from gputel.trainer.data.mixture import Mixture
from gputel.trainer.data.questions import MultipleChoice, questions
from gputel.trainer.data.source import Source
from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError
from gputel.trainer.evaluate import Validation
from gputel.trainer.model import Model
from gputel.trainer.optimizer import Optimizers, optimizers
from gputel.trainer.options import Options
from gputel.trainer.parallel import replicated, sharded
from gputel.trainer.plan import TrainingPlan, settled
from gputel.trainer.resume import chosen, restore, same_run
from gputel.trainer.say import Voice


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
    optimizers: Optimizers
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
    """Check first what costs nothing to check, then the data, then build; a Run that stands where it was left."""
    with where.together():
        corpus = open_corpus(options.data, options.val_data, options.tokenizer)
        plan = settled(options, where, corpus)
        if options.sample_prompt is not None and corpus.tokenizer is None:
            raise TrainerError("--sample-prompt", "needs to know how text becomes tokens", "give --tokenizer")
        asked = questions(Path(options.hellaswag), corpus.tokenizer) if options.hellaswag else []
        corpus.check(plan.shape.vocab, lambda number: number % where.size == where.rank)
        validation = _validation(plan, corpus, where) if options.eval_every else None
        rows = corpus.training(plan.shape.seq, options.seed)
        if options.tensorboard:
            voice.open_board(asdict(options))
    trained = built(plan, where)
    store = Store(folder / "checkpoints", where, keep=options.keep)
    where.from_main(store.tidy)
    run = TrainingRun(plan, where, folder, voice, corpus, rows, validation, asked, *trained, store)
    if options.resume:
        _go_on(run, options.resume)
    return run


def built(plan: TrainingPlan, where: World) -> tuple[Model, nn.Module, Optimizers]:
    """The model is laid out without memory, spread, and only then given weights: no rank ever holds more than its
    part, and all draw the same. It is compiled whole, so that the loss fuses with the head; where it is sharded,
    block by block, since gathering weights breaks a graph anyway."""
    options, fsdp = plan.options, plan.options.shard == "fsdp"
    torch.set_float32_matmul_precision("high")
    with torch.device("meta"):
        model = Model(plan.shape, options.dropout, recompute=options.recompute)
    if plan.compiled:
        for part in model.blocks if fsdp else [model]:
            part.compile(dynamic=False)
    if fsdp:
        sharded([*model.blocks, model], where, bf16=plan.bf16)
    model.on(where.device)
    model.initialize(options.seed)
    engine = model if fsdp else replicated(model, where)
    return model, engine, optimizers(model, options, plan.lr)


def _validation(plan: TrainingPlan, corpus: Corpus, where: World) -> Validation:
    seq, tokenizer = plan.shape.seq, corpus.tokenizer
    rows = corpus.validation(seq)[: max(1, plan.eval_tokens // seq)]
    lengths = torch.zeros(plan.shape.vocab, dtype=torch.int64)
    if tokenizer:
        lengths[: tokenizer.vocab] = torch.from_numpy(tokenizer.byte_lengths)
    return Validation(rows, seq, plan.device_batch, lengths.to(where.device))


def _go_on(run: TrainingRun, resume: str) -> None:
    checkpoint = run.where.from_main(lambda: chosen(resume, run.store.folder, run.voice.line))
    if checkpoint is None:
        return
    now = json.loads(json.dumps(run.about()))  # as a manifest would hold it
    for change in same_run(checkpoint, now):
        run.voice.line(f"changed since the checkpoint: {change}")
    restore(checkpoint, run.model, run.optimizers)
    run.progress = Progress(**manifest(checkpoint)["progress"])
    run.zero -= run.progress.wall_s
    run.saved = checkpoint if checkpoint.parent == run.store.folder.resolve() else None
    run.voice.line(f"Resuming from {checkpoint.name} with step {run.progress.step}")
    run.voice.event("resume", checkpoint=checkpoint.name, step=run.progress.step)
