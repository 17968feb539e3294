"""From options to a run that is ready for its first step: everything is decided and checked here, nothing
trained."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.checkpoint import Store, manifest, pieces
from gputel.trainer.clockwork import Travels
from gputel.trainer.data.corpus import Corpus, open_corpus
from gputel.trainer.data.mixture import Mixture
from gputel.trainer.data.source import Source
from gputel.trainer.distributed import World, compiled, replicated, sharded
from gputel.trainer.errors import TrainerError
from gputel.trainer.evaluate import Question, Validation, questions
from gputel.trainer.model import Model
from gputel.trainer.optimizer import Optimizers, optimizers
from gputel.trainer.optional import optional
from gputel.trainer.options import Options
from gputel.trainer.pieces import restore
from gputel.trainer.plan import Plan, settled
from gputel.trainer.progress import Progress
from gputel.trainer.resume import chosen, same_run
from gputel.trainer.say import Board, Voice


@dataclass
class Run:
    plan: Plan
    where: World
    corpus: Corpus
    model: Model
    engine: nn.Module
    optimizers: Optimizers
    travels: Travels | None
    rows: Source | Mixture
    validation: Validation | None
    asked: list[Question]
    store: Store
    voice: Voice
    progress: Progress
    folder: Path

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.where.device.type, torch.bfloat16) if self.plan.bf16 else nullcontext()

    def about(self) -> dict[str, Any]:
        """What a checkpoint says of the run beside the tensors."""
        return {
            "progress": self.progress.saved(),
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
    folder = Path(options.out) if options.out else Path("runs") / name
    if not options.resume and (folder / "checkpoints").exists():
        if options.out:
            raise TrainerError(
                str(folder), "holds a run already", "go on with --resume auto, or take another --out"
            )
        number = 2
        while folder.with_name(f"{name}-{number}").exists():
            number += 1
        folder = folder.with_name(f"{name}-{number}")
    return folder


def assembled(options: Options, where: World, folder: Path, voice: Voice) -> Run:
    """Check first what costs nothing to check, then the data, then build; a Run that stands where it was left."""
    corpus = where.from_main(lambda: _opened(options)) and open_corpus(
        options.data, options.val_data, options.tokenizer
    )
    plan = settled(options, where, corpus)
    _checked(lambda: corpus.check(plan.shape.vocab, lambda number: number % where.size == where.rank), where)
    if corpus.tokenizer and corpus.tokenizer.vocab > plan.shape.vocab:
        raise TrainerError(
            f"--vocab {plan.shape.vocab}",
            f"is smaller than the tokenizer's {corpus.tokenizer.vocab}",
            "leave it out",
        )
    validation = _validation(plan, corpus, where)
    asked = questions(Path(options.hellaswag), corpus.tokenizer) if options.hellaswag else []
    if options.sample_prompt is not None and corpus.tokenizer is None:
        raise TrainerError("--sample-prompt", "needs to know how text becomes tokens", "give --tokenizer")
    model, engine, trained_by, travels = built(plan, where)
    store = Store(folder / "checkpoints", where, keep=options.keep)
    where.from_main(store.tidy)
    if options.tensorboard and where.main:
        voice.board = _board(folder, options)
    rows = corpus.training(plan.shape.seq, options.seed)
    run = Run(
        plan,
        where,
        corpus,
        model,
        engine,
        trained_by,
        travels,
        rows,
        validation,
        asked,
        store,
        voice,
        Progress(),
        folder,
    )
    _go_on(run)
    return run


def built(plan: Plan, where: World) -> tuple[Model, nn.Module, Optimizers, Travels | None]:
    """The model is laid out without memory, spread, and only then given weights: no rank ever holds more than its
    part, and all draw the same."""
    options = plan.options
    torch.set_float32_matmul_precision("high")
    with torch.device("meta"):
        model = Model(plan.shape, options.dropout, recompute=options.recompute)
    blocks = list(model.blocks)
    if plan.compiled:
        compiled(model, blocks, shard=options.shard)
    if options.shard == "fsdp":
        sharded(model, blocks, where, bf16=plan.bf16)
    model.on(where.device)
    model.initialise(options.seed)
    travels = Travels(where.device, where.size)
    engine = model if options.shard == "fsdp" else replicated(model, where, travels)
    trained_by = optimizers(
        model,
        kind=options.optimizer,
        lr=plan.lr,
        muon_lr=options.muon_lr,
        weight_decay=options.weight_decay,
        sharded=options.shard != "none",
    )
    timed = where.device.type == "cuda" and isinstance(engine, DistributedDataParallel)
    return model, engine, trained_by, travels if timed else None


def _opened(options: Options) -> bool:
    """Rank 0 looks first, so that a fault of the data is said once."""
    open_corpus(options.data, options.val_data, options.tokenizer)
    return True


def _checked(check: Callable[[], None], where: World) -> None:
    fault = None
    try:
        check()
    except TrainerError as found:
        fault = found
    faults = [found for found in where.gather(fault) if found]
    if faults:
        raise faults[0]


def _validation(plan: Plan, corpus: Corpus, where: World) -> Validation | None:
    if not plan.options.eval_every:
        return None
    rows = corpus.validation(plan.shape.seq)
    wanted = plan.options.eval_tokens or (2**23 if where.device.type == "cuda" else 2**16)
    known = corpus.tokenizer
    lengths = torch.zeros(plan.shape.vocab, dtype=torch.int64)
    if known:
        lengths[: known.vocab] = torch.from_numpy(known.byte_lengths)
    return Validation(
        rows[: max(1, wanted // plan.shape.seq)],
        plan.shape.seq,
        plan.device_batch,
        lengths.to(where.device) if known else None,
    )


def _board(folder: Path, options: Options) -> Board:
    module = optional("torch.utils.tensorboard", "tensorboard", "--tensorboard")
    board = Board(module.SummaryWriter(str(folder / "tensorboard")))
    board.hyperparameters(asdict(options))
    return board


def _go_on(run: Run) -> None:
    options = run.plan.options
    if not options.resume:
        return
    resume = options.resume
    found = run.where.from_main(lambda: chosen(resume, run.store.folder, run.voice.line))
    if found is None:
        return
    # a mixed precision of keys would be told by JSON: compare what a manifest would hold
    now = json.loads(json.dumps(run.about()))
    for change in same_run(found, now):
        run.voice.line(f"changed since the checkpoint: {change}")
    restore(run.model, run.optimizers, pieces(found, "model"), pieces(found, "optimizer"), run.where)
    run.progress = replace(Progress.restored(manifest(found)["progress"]))
    run.voice.line(f"Resuming from {found.name} with step {run.progress.step}")
    run.voice.event("resume", checkpoint=found.name, step=run.progress.step)
