"""What happens between two steps: first the checkpoint, then the evaluation, so that one which fails costs nothing.

A checkpoint that cannot be written and an evaluation that fails are said, and the training goes on.
"""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor

from gputel.trainer.assemble import Run
from gputel.trainer.checkpoint import export
from gputel.trainer.clockwork import Stopwatch
from gputel.trainer.distributed import Watchdog, World
from gputel.trainer.evaluate import right
from gputel.trainer.sample import sampled

LABELS = {"val_loss": "Validation loss", "val_bpb": "Validation bpb"}


class EvaluationError(Exception):
    """Told in the log, and passed over."""


class Border:
    def __init__(self, run: Run, watch: Stopwatch, watchdog: Watchdog) -> None:
        self.run, self.watch, self.watchdog = run, watch, watchdog
        self.options, self.progress = run.plan.options, run.progress
        self.save_wanted = self.save_failed = False
        self.saved_s = time.monotonic()
        begun_from = run.store.path(run.progress.step)
        self.saved = begun_from if run.where.from_main(begun_from.is_dir) else None
        self.saved_step = run.progress.step if self.saved else None
        self.evaluated_step: int | None = None
        self.saves = self.options.save_every > 0 or self.options.save_minutes > 0
        self.epoch = run.rows.epoch(run.progress.position)

    def due(self) -> bool:
        return self._save_due() or self._evaluation_due() or self._epoch_over()

    def minutes_due(self) -> bool:
        minutes = self.options.save_minutes
        return minutes > 0 and time.monotonic() - self.saved_s >= 60 * minutes

    def cross(self) -> None:
        if not self.due():
            return
        if self._save_due() or self._epoch_over():
            self._save()
        if self._evaluation_due():
            self._evaluate()
        self.watch.go()

    def finish(self, reason: str, *, evaluate: bool) -> None:
        """The last checkpoint, the last evaluation, and the weights as one plain file."""
        if self.saved_step != self.progress.step:
            self._save()
        if evaluate and self.run.validation and self.evaluated_step != self.progress.step:
            self._evaluate()
        if self.run.where.main and self.saved and self.saved_step == self.progress.step:
            self._export(self.saved)
        self.run.voice.event("run_end", reason=reason, step=self.progress.step, tokens=self.progress.tokens)
        self.run.voice.line(ending(reason, self.progress.step, self.run.plan.budget.steps))

    def _save_due(self) -> bool:
        step, every = self.progress.step, self.options.save_every
        return self.saved_step != step and (
            self.save_wanted or (step > 0 and every > 0 and step % every == 0)
        )

    def _evaluation_due(self) -> bool:
        step, every = self.progress.step, self.options.eval_every
        return every > 0 and step % every == 0 and self.evaluated_step != step

    def _epoch_over(self) -> bool:
        return self.run.rows.epoch(self.progress.position) > self.epoch

    def _save(self) -> None:
        run, step = self.run, self.progress.step
        self.watchdog.alive(f"saving at step {step}")
        self.progress.wall_s = self.watch.wall_s()
        run.voice.event("checkpoint_start", step=step)
        began = time.monotonic()
        try:
            saved = run.store.save(run.model, run.optimizers, run.about())
        except OSError as fault:
            run.voice.event(
                "checkpoint_end", step=step, path=None, seconds=time.monotonic() - began, fault=str(fault)
            )
            run.voice.line(f"checkpoint at step {step} failed: {fault}; the one before it is untouched")
            self.save_failed = True
        else:
            run.voice.event(
                "checkpoint_end", step=step, path=str(saved), seconds=time.monotonic() - began, fault=None
            )
            run.voice.line(f"Saved model file to: {saved}")
            self.saved, self.saved_step, self.save_failed = saved, step, False
        self._mark_epoch()
        self.save_wanted, self.saved_s = False, time.monotonic()
        self.watchdog.alive(f"after the checkpoint of step {step}")

    def _mark_epoch(self) -> None:
        """The first checkpoint of an epoch bears its name; one that failed is not tried again at every step."""
        epoch = self.run.rows.epoch(self.progress.position)
        if epoch > self.epoch and self.saved and not self.save_failed:
            self.run.store.mark(f"epoch_{epoch}", self.saved)
        self.epoch = epoch

    def _evaluate(self) -> None:
        run, step = self.run, self.progress.step
        self.watchdog.alive(f"evaluating at step {step}")
        self.evaluated_step = step
        run.voice.event("eval_start", step=step)
        began = time.monotonic()
        run.engine.eval()
        try:
            figures = self._figures()
        except EvaluationError as fault:
            run.voice.event("eval_end", step=step, seconds=time.monotonic() - began, fault=str(fault))
            run.voice.line(f"evaluation at step {step} failed: {fault}; the training goes on")
        else:
            run.voice.event("eval_end", step=step, seconds=time.monotonic() - began, fault=None, **figures)
            self._tell(step, figures)
            self._note_best(step, figures)
        finally:
            run.engine.train()
        self.watchdog.alive(f"after the evaluation of step {step}")

    def _figures(self) -> dict[str, float | None]:
        run, figures = self.run, dict[str, float | None]()
        if run.validation:
            figures |= run.validation.figures(self._on_all_ranks(run.validation.sums))
        if run.asked:
            figures["hellaswag_acc"] = self._on_all_ranks(partial(right, run.asked, run.plan.shape.seq))[
                0
            ] / len(run.asked)
        if self.options.sample_prompt is not None:
            self._on_all_ranks(self._sample)
        return figures

    def _on_all_ranks(self, measure: Callable[..., list[float]]) -> list[float]:
        """The sum over ranks of what each measures; whatever goes wrong on one of them fails on all."""
        run = self.run
        mine, fault = list[float](), None
        try:
            mine = measure(run.engine, run.where, self._autocast)
        except Exception as error:  # an evaluation must not end a training, however it fails
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
        said = run.where.gather((mine, fault))
        faults = [fault for _, fault in said if fault]
        if faults:
            raise EvaluationError(faults[0])
        return [sum(parts) for parts in zip(*(figures for figures, _ in said), strict=True)]

    def _autocast(self) -> AbstractContextManager[Any]:
        """Asked for before every forward pass, which is a sign of life."""
        self.watchdog.alive(f"evaluating at step {self.progress.step}")
        return self.run.autocast()

    def _sample(
        self, engine: nn.Module, where: World, autocast: Callable[[], AbstractContextManager[Any]]
    ) -> list[float]:
        tokenizer, prompt, step = self.run.corpus.tokenizer, self.options.sample_prompt, self.progress.step
        assert tokenizer
        assert prompt is not None
        with autocast():
            text = sampled(
                engine,
                tokenizer,
                prompt,
                tokens=self.options.sample_tokens,
                seq=self.run.plan.shape.seq,
                device=where.device,
            )
        self.run.voice.line(f"sample at step {step}: {text!r}")
        if self.run.voice.board:
            self.run.voice.board.text("sample", text, step)
        return []

    def _tell(self, step: int, figures: dict[str, float | None]) -> None:
        for name, value in figures.items():
            self.run.voice.evaluation(step, name, LABELS.get(name, name), value)
        board = self.run.voice.board
        if board:
            for name, weight in self.run.model.named_parameters():
                if not isinstance(weight, DTensor):
                    board.histogram(f"weights/{name}", weight.detach().float(), step)

    def _note_best(self, step: int, figures: dict[str, float | None]) -> None:
        """The best is marked only where there is a checkpoint of it, so one is saved if need be."""
        loss, progress = figures.get("val_loss"), self.progress
        if loss is None or not math.isfinite(loss):
            return
        if progress.best_loss is not None and loss >= progress.best_loss:
            progress.stale_evaluations += 1
            self._validated(figures)
            return
        progress.best_loss, progress.best_step, progress.stale_evaluations = loss, step, 0
        if step > 0 and self.saved_step != step and self.saves:
            self._save()
        self._validated(figures)
        if self.saved and self.saved_step == step:
            self.run.store.mark("best", self.saved)

    def _validated(self, figures: dict[str, float | None]) -> None:
        if self.saved and self.saved_step == self.progress.step:
            self.run.store.note_validation(self.saved, figures)

    def _export(self, saved: Path) -> None:
        target = self.run.folder / "weights.pt"
        try:
            export(saved, target)
        except OSError as fault:
            self.run.voice.line(f"weights could not be written: {fault}")
            self.save_failed = True
        else:
            self.run.voice.line(f"Saved model weights to: {target}")


def ending(reason: str, step: int, steps: int) -> str:
    if reason == "steps":
        return f"training completed: {step} steps"
    return f"training stopped at step {step} of {steps}: {reason}"
