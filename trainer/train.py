"""The training, readable from top to bottom: options in, the exit code out.

A step is started before the last one is read, so that a GPU never waits for the host to print; on a CPU the
same code reads a finished step. What ranks must agree on travels in the sum that carries the loss, and is
heeded when it is read. At the end is the clock, which times steps without waiting for the device.
"""

import gc
import math
import time
import zlib
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.border import Border, TrainingRun, assembled, banner
from gputel.trainer.checkpoint import run_folder
from gputel.trainer.data import Feed
from gputel.trainer.options import Options
from gputel.trainer.ranks import SIGNALS, STOPS, RankWatchdog, StopSignals, World, accumulating
from gputel.trainer.say import Voice
from gputel.trainer.shape import mfu_percent

SAVES = {"SIGUSR1", "minutes"}
VOTES = (*SIGNALS, "minutes", "hours", "budget", "bad data")
BAD_DATA = VOTES.index("bad data")
ETA_STEPS = 50
Marks = list[tuple[str, Any]]  # a kind of work, and the stamp where it begins
Spans = list[tuple[Any, Any]]


def train(options: Options, where: World) -> int:
    """Train until there is a reason to stop."""
    folder = Path(where.from_main(lambda: str(run_folder(options))))
    with Voice(folder, speaks=where.main) as voice:
        run = assembled(options, where, folder, voice)
        for line in banner(run):
            voice.line(line)
        shape, peak = run.plan.shape, run.plan.peak_flops
        sizes = {"parameters": shape.parameters, "flops_per_token": shape.flops_per_token, "peak_flops": peak}
        voice.event("run_start", **run.about(), **sizes)
        feed = Feed(run.rows, run.progress.position, run.plan.device_batch, where)
        with closing(feed), StopSignals(stay=where.size > 1) as signals:
            training = Training(run, feed, signals)
            reason = training.until_done()
            for line in sorted({str(fault) for fault in where.gather(feed.fault) if fault}):
                voice.line(line)
            training.border.finish(reason, signals.since if reason in STOPS else None)
    return 1 if training.border.save_failed else exit_code(reason)


def exit_code(reason: str) -> int:
    """0 for a run that ended as it was asked to; 128 and the signal's number, as a shell expects; else 1."""
    return 128 + STOPS[reason] if reason in STOPS else int(reason in ("non-finite loss", "bad data"))


@dataclass(frozen=True)
class OpenStep:
    """A step under way: where the run stood before it, what the device will report of it, what the host knew."""

    step: int
    position: int
    tokens: int
    sums: Tensor
    marks: Marks
    travels: Spans | None
    data_s: float
    lrm: float
    epoch: int


class Training:
    def __init__(self, run: TrainingRun, feed: Feed, signals: StopSignals) -> None:
        self.run, self.feed, self.signals = run, feed, signals
        self.plan, self.progress, self.options = run.plan, run.progress, run.plan.options
        self.watchdog = RankWatchdog(run.where, self.options.rank_timeout)
        self.border = Border(run, self.watchdog)
        self.clock = StampClock(run.where.device)
        self.clock.time_travels(run.engine, bf16=self.options.network == "wan")
        self.first_step = run.progress.step
        self.recent_s: deque[float] = deque(maxlen=ETA_STEPS)
        self.asked_to_stop: str | None = None
        self.heard: set[str] = set()
        self.reported = 0
        self._report_left_out()

    def until_done(self) -> str:
        """Why the run ends. Before a checkpoint, an evaluation and the end the step under way is read first.

        A GPU is given the next step before that; a CPU would first have to end it, and lines came a step late.
        """
        pending: OpenStep | None = None
        while True:
            if pending and (not self.clock.on_gpu or self.border.due() or self._reason()):
                self._settle(pending)
                pending = None
            if not self._reason() and self.border.due():
                self.border.cross()
                self.clock.resume()
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
        lrm = plan.multiplier(progress.step)
        loss, data_s = self._gradients()
        votes = _on_its_way(torch.tensor(self._votes()), run.where.device)
        shared = run.where.sum(torch.cat([loss[None] / run.where.size, votes]))
        self.clock.mark("optimizer")
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), self.options.grad_clip or math.inf)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        bad = ~(torch.isfinite(norm) & torch.isfinite(shared[0])) | (shared[1 + BAD_DATA] > 0)
        run.optimizer.step(progress.step, lrm, bad)
        run.optimizer.zero_grad()
        sums = _on_its_way(torch.cat([shared, norm[None], bad[None].float()]), torch.device("cpu"))
        self.clock.mark("end")
        place = progress.step, progress.position, progress.tokens
        started = OpenStep(*place, sums, *self.clock.taken(), data_s, lrm, run.epoch())
        progress.step += 1
        progress.position += plan.rows_per_step
        progress.tokens += plan.tokens_per_step
        return started

    def _gradients(self) -> tuple[Tensor, float]:
        """All micro-batches of this rank: their mean loss, and the seconds for which the data let us wait."""
        run, plan = self.run, self.plan
        loss, data_s = torch.zeros((), device=run.where.device), 0.0
        for micro in range(plan.accumulation):
            self.clock.mark("data")
            waited = time.perf_counter()
            ids, targets = self.feed.next()
            data_s += time.perf_counter() - waited
            self._throw_dice(micro)
            last = micro == plan.accumulation - 1
            with accumulating(run.engine, last=last, keep_whole=self.options.keep_whole_gradients):
                self.clock.mark("forward")
                part = run.engine(ids, targets) / plan.accumulation
                self.clock.mark("backward")
                part.backward()
            loss += part.detach()
        self.clock.mark("agreement")
        return loss, data_s

    def _throw_dice(self, micro: int) -> None:
        """Dropout's seed follows from the micro-batch's place in the run: it is the same on any number of ranks and
        after any resume, and no rank can be given another one's."""
        if self.options.dropout:
            place = micro * self.run.where.size + self.run.where.rank
            torch.manual_seed(zlib.crc32(f"{self.options.seed} {self.progress.step} {place}".encode()))

    def _votes(self) -> list[float]:
        """What this rank knows and the others may not: signals, its clock, data that it cannot read."""
        over = self.plan.out_of_time(self.run.wall_s())
        clock = (self.border.minutes_due(), over == "hours", over == "budget")
        return [float(vote) for vote in (*self.signals.votes(), *clock, self.feed.fault is not None)]

    def _settle(self, started: OpenStep) -> None:
        """Read what a step came to, say it, and heed what the ranks have agreed on."""
        seconds = self.clock.advance(started.marks[-1][1])
        loss, *votes, norm, bad = started.sums.tolist()
        self.progress.train_s += seconds
        self._heed({name for name, count in zip(VOTES, votes, strict=True) if count})
        self._report_left_out()
        if votes[BAD_DATA]:  # its update was left out on all ranks: the run goes on from before it
            if started.step < self.progress.step:
                place = started.step, started.position, started.tokens
                self.progress.step, self.progress.position, self.progress.tokens = place
            return
        step, steps = started.step, self.plan.steps
        self._note_skip(step, loss, norm, skipped=bool(bad))
        printed = step == steps - 1 or step % self.options.log_every == 0
        figures = self._figures(started, loss, norm, seconds)
        self.run.voice.step(step, steps, figures, printed=printed, at=self.clock.ended)
        if step == self.first_step:
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

    def _report_left_out(self) -> None:
        left_out = list((self.run.corpus.left_out or {}).values())
        for fault in left_out[self.reported :]:
            self.reported += 1
            self.run.voice.event("bad_data", place=fault.place, fault=fault.fault, left_out=self.reported)
            self.run.voice.line(f"left out ({self.reported}): {fault.place}: {fault.fault}")

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
        plan, parts, travels = self.plan, self.clock.parts_ms(started.marks), started.travels
        rate = plan.tokens_per_step / seconds
        usual_s = sum(self.recent_s) / len(self.recent_s) if self.recent_s else seconds
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
            "mem_gib": torch.cuda.max_memory_allocated() / 2**30 if self.clock.on_gpu else None,
            "epoch": started.epoch,
            "eta_min": usual_s * (plan.steps - 1 - started.step) / 60,
            "tokens": (started.step + 1) * plan.tokens_per_step,
            "forward_ms": parts["forward"],
            "backward_ms": parts["backward"],
            "communication_ms": self.clock.ms_of_any(travels) if travels else None,
            "agreement_ms": parts["agreement"],
            "optimizer_ms": parts["optimizer"],
        }


def _on_its_way(values: Tensor, device: torch.device) -> Tensor:
    """Sends a tensor to or from a GPU without waiting for it, which takes pinned memory."""
    if values.is_cuda:
        return torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


class StampClock:
    """Stamps mark places in the device's work: on a GPU an event in its stream, and the host may be a step ahead
    of it; a CPU has done its work when a call returns, and the time is enough.

    A step lasts from the end of the one before to its own, both as the device passed them. `ended` is when the last
    one did on the host's clock, to which the stamps are tied while the device is idle.
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.marks: Marks = []
        self.travels: Spans | None = None
        self.resume()

    def stamp(self) -> Any:
        if not self.on_gpu:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self, stamp: Any) -> None:
        """Until the device has passed it."""
        if self.on_gpu:
            stamp.synchronize()

    def ms(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second)) if self.on_gpu else (second - first) * 1e3

    def now(self) -> float:
        return time.monotonic()

    def resume(self) -> None:
        """At the start and after a pause: a checkpoint or an evaluation is no part of a step."""
        self.last = self.stamp()
        self.wait(self.last)
        self.ended = self.now()

    def advance(self, end: Any) -> float:
        """Wait for the end of a step; its seconds."""
        self.wait(end)
        seconds = self.ms(self.last, end) / 1e3
        self.last, self.ended = end, self.ended + seconds
        return seconds

    def mark(self, kind: str) -> None:
        """Another kind of work begins here."""
        self.marks.append((kind, self.stamp()))

    def taken(self) -> tuple[Marks, Spans | None]:
        """The marks of a step, and when its gradients travelled, if that is timed."""
        taken = self.marks, self.travels
        self.marks, self.travels = [], None if self.travels is None else []
        return taken

    def parts_ms(self, marks: Marks) -> dict[str, float]:
        parts = dict.fromkeys((kind for kind, _ in marks), 0.0)
        for (kind, begin), (_, end) in pairwise(marks):
            parts[kind] += self.ms(begin, end)
        return parts

    def ms_of_any(self, spans: Spans) -> float:
        """How long at least one of these spans lasted: they overlap, and waiting in a queue is no work."""
        total = reached = 0.0
        for begin, end in sorted((self.ms(spans[0][0], b), self.ms(spans[0][0], e)) for b, e in spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total

    def time_travels(self, engine: nn.Module, *, bf16: bool) -> None:
        """Note when gradients travel, a bucket at a time, in bf16 if asked: the backward pass goes on meanwhile.
        Not with gloo: its thread frees a hook's futures under the lock of a main thread that waits for it."""
        if not (self.on_gpu and isinstance(engine, DistributedDataParallel)):
            return
        send, self.travels = bf16_compress_hook if bf16 else allreduce_hook, []

        def hook(_: object, bucket: GradBucket) -> Future[Tensor]:
            began = self.stamp()

            def arrived(sent: Future[Tensor]) -> Tensor:
                assert self.travels is not None
                self.travels.append((began, self.stamp()))
                return sent.value()

            assert dist.group.WORLD
            return send(dist.group.WORLD, bucket).then(arrived)

        engine.register_comm_hook(None, hook)
