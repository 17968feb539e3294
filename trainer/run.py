"""A training's parts, and what it does between two steps.

First comes the checkpoint, then the evaluation, so that one which fails costs nothing. A checkpoint that cannot be
written and an evaluation that fails are reported, and the training goes on.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.checkpoint import Store, export
from gputel.trainer.data import Corpus, Mixture
from gputel.trainer.evaluate import MultipleChoice, Validation, right, sampled
from gputel.trainer.model import Model
from gputel.trainer.optim import Optimizer
from gputel.trainer.options import Progress, TrainingPlan
from gputel.trainer.ranks import STOPS, RankWatchdog, World, at_rest, grace_s
from gputel.trainer.say import RankError, TrainerError, Voice

WITHOUT_EVALUATION = {*STOPS, "stop-at", "non-finite loss", "bad data"}
VALUES_OF_A_HISTOGRAM = 2**16


@dataclass
class TrainingRun:
    """`engine` is the model as it trains, behind DDP where there are several ranks; `saved` the checkpoint from
    which the run goes on, if it is its own; `zero` when it would have begun, had it never been interrupted."""

    plan: TrainingPlan
    where: World
    folder: Path
    voice: Voice
    corpus: Corpus
    rows: Mixture
    validation: Validation | None
    asked: list[MultipleChoice]
    model: Model
    engine: nn.Module
    optimizer: Optimizer
    store: Store
    progress: Progress = field(default_factory=Progress)
    saved: Path | None = None
    saved_step: int | None = None
    saved_s: float = field(default_factory=time.monotonic)
    saved_epoch: int = 0
    save_wanted: bool = False
    save_failed: bool = False
    zero: float = field(default_factory=time.monotonic)
    known_epoch: int = 0
    grace_s: float | None = field(default_factory=grace_s)
    watchdog: RankWatchdog = field(init=False)  # from the first step on: resuming may take long

    def epoch(self) -> int:
        """The epoch of the next row; where it cannot be read, the last that was known."""
        with suppress(TrainerError):
            self.known_epoch = self.rows.epoch(self.progress.position)
        return self.known_epoch

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

    def due(self) -> bool:
        return self._save_due() or self._evaluation_due()

    def minutes_due(self) -> bool:
        minutes = self.plan.options.save_minutes
        return minutes > 0 and time.monotonic() - self.saved_s >= 60 * minutes

    def cross(self) -> None:
        if self._save_due():
            self._save()
        if self._evaluation_due():
            self._evaluate()

    def finish(self, reason: str, since: float | None = None) -> None:
        """The last checkpoint, the last evaluation, and the weights as one plain file; after a signal, which came
        at `since`, only if there is time for it."""
        step = self.progress.step
        if self.saved_step != step:
            self._save()
        if self.validation and self.progress.evaluated_step != step and reason not in WITHOUT_EVALUATION:
            self._evaluate()
        saved, target = self.saved, self.folder / "weights.pt"
        if saved and self.saved_step == step and self.where.from_main(lambda: self._has_time(since)):
            if self._tried(lambda: export(saved, target), target.name):
                self.voice.line(f"Saved model weights to: {target}")
            else:
                self.save_failed = True
        self.voice.event(
            "run_end", reason=reason, step=step, tokens=self.progress.position * self.plan.shape.seq
        )
        stopped = f"training stopped at step {step} of {self.plan.steps}: {reason}"
        self.voice.line(f"training completed: {step} steps" if reason == "steps" else stopped)

    def _save_due(self) -> bool:
        step, every = self.progress.step, self.plan.options.save_every
        due = self.save_wanted or self.epoch() > self.saved_epoch or (every > 0 and step % every == 0)
        return due and step > 0 and self.saved_step != step

    def _evaluation_due(self) -> bool:
        step, every = self.progress.step, self.plan.options.eval_every
        return every > 0 and step % every == 0 and self.progress.evaluated_step != step

    def _save(self) -> None:
        step, epoch = self.progress.step, self.epoch()
        self.watchdog.alive(f"saving at step {step}")
        self.progress.wall_s = self.wall_s()
        self.voice.event("checkpoint_start", step=step)
        began, fault = time.monotonic(), None
        try:
            self.saved = self.store.save(self.model, self.optimizer, self.about())
            self.saved_step = step
        except RankError as error:
            fault = f"checkpoint at step {step} failed: {error}; the one before it is untouched"
        path, seconds = None if fault else str(self.saved), time.monotonic() - began
        if self.progress.save_s is None:
            self.judge_grace(seconds)
        self.progress.save_s = seconds
        self.voice.event("checkpoint_end", step=step, path=path, seconds=seconds, fault=fault)
        self.voice.line(fault or f"Saved model file to: {path}")
        if epoch > self.saved_epoch and not fault:
            self._mark(f"epoch_{epoch}")
        self.saved_epoch = epoch  # one that failed is not tried again at every step
        self.save_failed, self.save_wanted, self.saved_s = bool(fault), False, time.monotonic()
        self.watchdog.alive(f"after the checkpoint of step {step}")

    def _mark(self, name: str) -> None:
        if saved := self.saved:
            self._tried(lambda: self.store.mark(name, saved), f"the link {name}")

    def _tried(self, write: Callable[[], None], what: str) -> bool:
        """Rank 0 writes something beside a checkpoint; a full disk must not end the training here either."""
        try:
            self.where.from_main(write)
        except RankError as fault:
            self.voice.line(f"{what} could not be written: {fault}")
            return False
        return True

    def judge_grace(self, save_s: float | None) -> None:
        if self.grace_s is None or save_s is None:
            return
        enough = "enough" if 2 * save_s < self.grace_s else "too little: see torchrun --shutdown-timeout"
        grace = f"torchrun waits {self.grace_s:g} s after a signal, a save takes {save_s:.1f} s"
        self.voice.line(f"Grace: {grace}, {enough}")

    def _has_time(self, since: float | None) -> bool:
        """Whether there is time for the export, which takes no longer than a save."""
        if since is None or self.grace_s is None:
            return True
        left = self.grace_s - (time.monotonic() - since)
        enough = left > (self.progress.save_s or 0.0)
        if not enough:
            self.voice.line(f"weights.pt is not written: {left:.1f} s of grace are left; see `sample CKPT`")
        return enough

    def _evaluate(self) -> None:
        step = self.progress.step
        self.voice.event("eval_start", step=step)
        began, fault, figures = time.monotonic(), None, dict[str, float | None]()
        self.engine.eval()
        try:
            figures = self._figures()
        except RankError as error:
            fault = f"evaluation at step {step} failed: {error}; the training goes on"
        at_rest(self.engine.train())
        self.voice.event("eval_end", step=step, seconds=time.monotonic() - began, fault=fault, **figures)
        if fault:
            self.voice.line(fault)
        else:
            self.voice.evaluation(step, figures, self._weights())
        self.progress.evaluated_step = step
        self._note_best(figures.get("val_loss"))
        self.watchdog.alive(f"after the evaluation of step {step}")

    @torch.no_grad()
    def _figures(self) -> dict[str, float | None]:
        figures = dict[str, float | None]()
        validation, asked, seq = self.validation, self.asked, self.plan.shape.seq
        if validation:
            figures |= validation.figures(self._summed(lambda: validation.sums(self._losses, self.where)))
        if asked:
            at_once = self.plan.device_batch * seq
            count = self._summed(lambda: right(asked, seq, at_once, self._losses, self.where))
            figures["hellaswag_acc"] = count.item() / len(asked)
        prompt = self.plan.options.sample_prompt
        if prompt is not None and (tokenizer := self.corpus.tokenizer):
            with self.where.together():
                text = sampled(self.model, tokenizer, prompt, self.plan.options.sample_tokens)
                self.voice.sample(self.progress.step, text)
        return figures

    def _summed(self, measure: Callable[[], Tensor]) -> Tensor:
        """Over all ranks, once all have measured: a sum would wait for ever for one that has failed."""
        with self.where.together():
            mine = measure()
        return self.where.sum(mine)

    def _losses(self, tokens: Tensor) -> Tensor:
        self.watchdog.alive(f"evaluating at step {self.progress.step}")
        losses: Tensor = self.engine(tokens[:, :-1], tokens[:, 1:], per_token=True)
        return losses

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        """Some values of each matrix, for histograms; all would take longer than the evaluation."""
        for name, weight in self.model.named_parameters():
            if not isinstance(weight, DTensor):
                yield name, weight.flatten()[:: max(1, weight.numel() // VALUES_OF_A_HISTOGRAM)]

    def _note_best(self, loss: float | None) -> None:
        """The best is marked only where there is a checkpoint of it, so one is saved if need be."""
        options, progress, step = self.plan.options, self.progress, self.progress.step
        if loss is None or not math.isfinite(loss):
            return
        best = progress.best_loss is None or loss < progress.best_loss
        progress.stale_evaluations = 0 if best else progress.stale_evaluations + 1
        if best:
            progress.best_loss = loss
        if best and step > 0 and self.saved_step != step and (options.save_every or options.save_minutes):
            self._save()
        if best and self.saved_step == step:
            self._mark("best")
