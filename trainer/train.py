"""The training, readable from top to bottom: a Run in, the exit code out.

A step is started before the last one is read, so that a GPU never waits for the host to print; on a CPU the
same code reads a finished step. What ranks must agree on travels in the sum that carries the loss, and is
heeded when it is read.
"""

import gc
import math
import time
import zlib
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.assemble import TrainingRun
from gputel.trainer.border import Border
from gputel.trainer.clock import Marks, Timeline, Travels, clock_for
from gputel.trainer.data import Feed
from gputel.trainer.ranks import SIGNALS, STOPS, RankWatchdog, StopSignals, accumulating
from gputel.trainer.shape import mfu_percent

SAVES = {"SIGUSR1", "minutes"}
VOTES = (*SIGNALS, "minutes", "hours", "budget")
ETA_STEPS = 50


def train(run: TrainingRun) -> int:
    """Train until there is a reason to stop."""
    plan, where = run.plan, run.where
    feed = Feed(run.rows, run.progress.position, plan.device_batch, where.rank, where.size, where.device)
    with feed, StopSignals() as signals:
        training = Training(run, feed, signals, RankWatchdog(where, plan.options.rank_timeout))
        reason = training.until_done()
        training.border.finish(reason, signals.since if reason in STOPS else None)
    return 1 if training.border.save_failed else exit_code(reason)


@dataclass(frozen=True)
class OpenStep:
    """A step under way: what the device will tell of it, and what the host knew when it began."""

    step: int
    sums: Tensor
    marks: Marks
    travels: list[tuple[Any, Any]] | None
    data_s: float
    lrm: float
    epoch: int


class Training:
    def __init__(self, run: TrainingRun, feed: Feed, signals: StopSignals, watchdog: RankWatchdog) -> None:
        self.run, self.feed, self.signals, self.watchdog = run, feed, signals, watchdog
        self.plan, self.progress = run.plan, run.progress
        self.border = Border(run, watchdog)
        self.clock = clock_for(run.where.device)
        self.timeline = Timeline(self.clock)
        self.travels = Travels(run.engine, self.clock, bf16=run.plan.options.network == "wan")
        self.first_step = run.progress.step
        self.recent_s: deque[float] = deque(maxlen=ETA_STEPS)
        self.asked_to_stop: str | None = None
        self.heard: set[str] = set()

    def until_done(self) -> str:
        """Why the run ends. Before a checkpoint, an evaluation and the end the step under way is read first."""
        pending: OpenStep | None = None
        while True:
            if pending and (self.border.due() or self._reason()):
                self._settle(pending)
                pending = None
            if not self._reason() and self.border.due():
                self.border.cross()
                self.timeline.resume()
            if reason := self._reason():  # an evaluation may have been the last that patience allows
                return reason
            started = self._step()
            if pending:
                self._settle(pending)
            pending = started

    def _reason(self) -> str | None:
        return self.asked_to_stop or self.plan.reached(self.progress)

    def _step(self) -> OpenStep:
        run, plan, progress = self.run, self.plan, self.progress
        self.watchdog.alive(f"at step {progress.step}")
        lrm = plan.schedule.multiplier(progress.step)
        marks = Marks(self.clock)
        loss, data_s = self._gradients(marks)
        votes = on_its_way(torch.tensor(self._votes()), run.where.device)
        shared = run.where.sum(torch.cat([loss[None] / run.where.size, votes]))
        marks.now("optimizer")
        norm = clipped(run.model, plan.options.grad_clip)
        bad = ~(torch.isfinite(norm) & torch.isfinite(shared[0]))
        run.optimizer.step(progress.step, lrm, bad)
        run.optimizer.zero_grad()
        sums = marks.sent(torch.cat([shared, norm[None], bad[None].float()]))
        epoch = run.rows.epoch(progress.position)
        started = OpenStep(progress.step, sums, marks, self.travels.taken(), data_s, lrm, epoch)
        progress.step += 1
        progress.position += plan.rows_per_step
        progress.tokens += plan.tokens_per_step
        return started

    def _gradients(self, marks: Marks) -> tuple[Tensor, float]:
        """All micro-batches of this rank: their mean loss, and the seconds for which the data let us wait."""
        run, plan = self.run, self.plan
        loss, data_s = torch.zeros((), device=run.where.device), 0.0
        for micro in range(plan.accumulation):
            marks.now("data")
            waited = time.perf_counter()
            ids, targets = self.feed.next()
            data_s += time.perf_counter() - waited
            self._throw_dice(micro)
            with accumulating(
                run.engine, last=micro == plan.accumulation - 1, keep_whole=plan.options.keep_whole_gradients
            ):
                marks.now("forward")
                with run.autocast():
                    part = run.engine(ids, targets) / plan.accumulation
                marks.now("backward")
                part.backward()
            loss += part.detach()
        marks.now("agreement")
        return loss, data_s

    def _throw_dice(self, micro: int) -> None:
        """Dropout's seed follows from the micro-batch's place in the run: it is the same on any number of ranks and
        after any resume, and no rank can be given another one's."""
        if self.plan.options.dropout:
            place = micro * self.run.where.size + self.run.where.rank
            torch.manual_seed(zlib.crc32(f"{self.plan.options.seed} {self.progress.step} {place}".encode()))

    def _votes(self) -> list[float]:
        """What this rank knows and the others may not: signals, and its clock."""
        over = self.plan.out_of_time(self.run.wall_s())
        clock = (self.border.minutes_due(), over == "hours", over == "budget")
        return [float(vote) for vote in (*self.signals.votes(), *clock)]

    def _settle(self, started: OpenStep) -> None:
        """Read what a step came to, say it, and heed what the ranks have agreed on."""
        loss, *votes, norm, bad = started.marks.read(started.sums)
        seconds = self.timeline.advance(started.marks.end)
        self.progress.train_s += seconds
        self._heed({name for name, count in zip(VOTES, votes, strict=True) if count})
        self._note_skip(started.step, loss, norm, skipped=bool(bad))
        step, steps = started.step, self.plan.steps
        printed = step == steps - 1 or step % self.plan.options.log_every == 0
        figures = self._figures(started, loss, norm, seconds)
        self.run.voice.step(step, steps, figures, printed=printed, at=self.timeline.ended)
        if started.step == self.first_step:
            gc.collect()
            gc.freeze()  # what has been built by now stays until the end; the collector need not look at it again
        else:
            self.recent_s.append(seconds)

    def _heed(self, votes: set[str]) -> None:
        """A signal is voted for in more than one step, and reported once. Only USR1 may be sent again."""
        signals = votes.intersection(SIGNALS)
        for name in sorted(signals - self.heard):
            self.run.voice.event("signal", signal=name, step=self.progress.step)
            self.run.voice.line(f"received {name}")
        self.heard = signals
        if "SIGUSR1" in signals:
            self.signals.seen.pop("SIGUSR1", None)
        self.border.save_wanted |= bool(votes & SAVES)
        stops = [name for name in VOTES if name in votes - SAVES]
        self.asked_to_stop = self.asked_to_stop or next(iter(stops), None)

    def _note_skip(self, step: int, loss: float, norm: float, *, skipped: bool) -> None:
        progress = self.progress
        progress.skips += skipped
        progress.skips_in_a_row = progress.skips_in_a_row + 1 if skipped else 0
        if skipped:
            in_a_row = progress.skips_in_a_row
            self.run.voice.event("skip", step=step, loss=loss, grad_norm=norm, in_a_row=in_a_row)
            self.run.voice.line(f"skipped the update of step {step}: loss or gradient is not finite")

    def _figures(
        self, started: OpenStep, loss: float, norm: float, seconds: float
    ) -> dict[str, float | None]:
        """None is what was not measured; names and order are those of say.py and metrics.jsonl."""
        plan, marks, travels = self.plan, started.marks, started.travels
        rate = plan.tokens_per_step / seconds
        usual_s = sum(self.recent_s) / len(self.recent_s) if self.recent_s else seconds
        on_gpu = self.run.where.device.type == "cuda"
        return {
            "loss": loss,
            "grad_norm": norm,
            "lrm": started.lrm,
            "dt_ms": seconds * 1e3,
            "tok_per_sec": rate,
            "mfu": mfu_percent(plan.shape, rate, plan.peak_flops, self.run.where.size),
            "total_time_min": self.progress.train_s / 60,
            "lr": plan.matrix_lr * started.lrm,
            "data_ms": started.data_s * 1e3,
            "mem_gib": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
            "epoch": started.epoch,
            "eta_min": usual_s * (plan.steps - 1 - started.step) / 60,
            "tokens": (started.step + 1) * plan.tokens_per_step,
            "forward_ms": marks.ms("forward"),
            "backward_ms": marks.ms("backward"),
            "communication_ms": None if travels is None else marks.ms_of_any(travels),
            "agreement_ms": marks.ms("agreement"),
            "optimizer_ms": marks.ms("optimizer"),
        }


def exit_code(reason: str) -> int:
    """0 for a run that ended as it was told to; 128 and the signal's number, as a shell expects; else 1."""
    if reason in STOPS:
        return 128 + STOPS[reason]
    return 1 if reason == "non-finite loss" else 0


def on_its_way(values: Tensor, device: torch.device) -> Tensor:
    """To the device without waiting for it, which takes pinned memory."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


def clipped(model: nn.Module, limit: float) -> Tensor:
    """Clip the gradients of the whole model, and say what their norm was before; 0 does not clip."""
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit or math.inf)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
