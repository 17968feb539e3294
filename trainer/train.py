"""The training, readable from top to bottom: options in, the exit code out.

A step is started before the last one is read, so that a GPU never waits for the host to print; on a CPU the
same code reads a finished step. What ranks must agree on travels in the sum that carries the loss, and is
heeded when it is read.
"""

import gc
import json
import math
import time
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.checkpoint import Store, manifest, restore, resumed_from, run_folder, same_run
from gputel.trainer.clock import Marks, Spans, StampClock
from gputel.trainer.data import Feed, open_corpus
from gputel.trainer.evaluate import questions, validation_for
from gputel.trainer.kernels import choose_attention, require_fp8
from gputel.trainer.model import built
from gputel.trainer.optim import optimizer
from gputel.trainer.options import Options, Progress, settled
from gputel.trainer.ranks import (
    SIGNALS,
    STOPS,
    RankWatchdog,
    StopSignals,
    World,
    accumulating,
    network_settings,
    time_travels,
)
from gputel.trainer.run import TrainingRun
from gputel.trainer.say import TrainerError, Voice
from gputel.trainer.shape import mfu_percent

SAVES = {"SIGUSR1", "minutes"}
VOTES = (*SIGNALS, "minutes", "hours", "budget", "bad data")
BAD_DATA = VOTES.index("bad data")
ETA_STEPS = 50


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
            reason = Training(run, feed, signals).until_done()
            for line in sorted({str(fault) for fault in where.gather(feed.fault) if fault}):
                voice.line(line)
            run.finish(reason, signals.since if reason in STOPS else None)
    return 1 if run.save_failed else exit_code(reason)


def exit_code(reason: str) -> int:
    """0 for a run that ended as it was asked to; 128 and the signal's number, as a shell expects; else 1."""
    return 128 + STOPS[reason] if reason in STOPS else int(reason in ("non-finite loss", "bad data"))


@dataclass(frozen=True)
class OpenStep:
    """A step under way: where the run stood before it, what the device will report of it, what the host knew."""

    before: Progress
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
        run.watchdog = RankWatchdog(run.where, self.options.rank_timeout)
        run.judge_grace(run.progress.save_s)
        self.clock = StampClock(run.where.device)
        time_travels(run.engine, self.clock, bf16=self.options.network == "wan")
        self.first_step, self.recent_s = run.progress.step, deque[float](maxlen=ETA_STEPS)
        self.asked_to_stop: str | None = None
        self.heard, self.reported = set[str](), 0
        self._report_left_out()

    def until_done(self) -> str:
        """Why the run ends. Before a checkpoint, an evaluation and the end the step under way is read first.

        A GPU is given the next step before that; a CPU would first have to end it, and lines came a step late.
        """
        pending: OpenStep | None = None
        while True:
            if pending and (not self.clock.on_gpu or self.run.due() or self._reason()):
                self._settle(pending)
                pending = None
            if not self._reason() and self.run.due():
                self.run.cross()
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
        run.watchdog.alive(f"at step {progress.step}")
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
        started = OpenStep(replace(progress), sums, *self.clock.taken(), data_s, lrm, run.epoch())
        progress.step += 1
        progress.position += plan.rows_per_step
        return started

    def _gradients(self) -> tuple[Tensor, float]:
        """All micro-batches of this rank: their mean loss, and the seconds for which the data let us wait."""
        run, plan, options = self.run, self.plan, self.options
        loss, data_s = torch.zeros((), device=run.where.device), 0.0
        for micro in range(plan.accumulation):
            self.clock.mark("data")
            waited = time.perf_counter()
            ids, targets = self.feed.next()
            data_s += time.perf_counter() - waited
            last = micro == plan.accumulation - 1
            with accumulating(run.engine, last=last, keep_whole=options.keep_whole_gradients):
                self.clock.mark("forward")
                part = run.engine(ids, targets) / plan.accumulation
                self.clock.mark("backward")
                part.backward()
            loss += part.detach()
        self.clock.mark("agreement")
        return loss, data_s

    def _votes(self) -> list[float]:
        """What this rank knows and the others may not: signals, its clock, data that it cannot read."""
        over = self.plan.out_of_time(self.run.wall_s())
        clock = (self.run.minutes_due(), over == "hours", over == "budget")
        return [float(vote) for vote in (*self.signals.votes(), *clock, self.feed.fault is not None)]

    def _settle(self, started: OpenStep) -> None:
        """Read what a step came to, say it, and heed what the ranks have agreed on."""
        progress, before = self.progress, started.before
        seconds = self.clock.advance(started.marks[-1][1])
        loss, *votes, norm, bad = started.sums.tolist()
        progress.train_s += seconds
        self._heed({name for name, count in zip(VOTES, votes, strict=True) if count})
        self._report_left_out()
        if votes[BAD_DATA]:  # its update was left out on all ranks: the run goes on from before it
            if before.step < progress.step:
                progress.step, progress.position = before.step, before.position
            return
        progress.skips_in_a_row = progress.skips_in_a_row + 1 if bad else 0
        if bad:
            skip = {"loss": loss, "grad_norm": norm, "in_a_row": progress.skips_in_a_row}
            self.run.voice.event("skip", step=before.step, **skip)
            self.run.voice.line(f"skipped the update of step {before.step}: loss or gradient is not finite")
        printed = before.step == self.plan.steps - 1 or before.step % self.options.log_every == 0
        figures = self._figures(started, loss, norm, seconds)
        self.run.voice.step(before.step, self.plan.steps, figures, printed=printed, at=self.clock.ended)
        if before.step == self.first_step:
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
        self.run.save_wanted |= bool(votes & SAVES)
        stops = [name for name in VOTES if name in votes - SAVES]
        self.asked_to_stop = self.asked_to_stop or next(iter(stops), None)

    def _report_left_out(self) -> None:
        left_out = list((self.run.corpus.left_out or {}).values())
        for count, fault in enumerate(left_out[self.reported :], self.reported + 1):
            self.run.voice.event("bad_data", place=fault.place, fault=fault.fault, left_out=count)
            self.run.voice.line(f"left out ({count}): {fault.place}: {fault.fault}")
        self.reported = len(left_out)

    def _figures(
        self, started: OpenStep, loss: float, norm: float, seconds: float
    ) -> dict[str, float | None]:
        """None is what was not measured; names and order are those of say.py and metrics.jsonl."""
        plan, step, parts = self.plan, started.before.step, self.clock.parts_ms(started.marks)
        rate = plan.tokens_per_step / seconds
        usual_s = sum(self.recent_s) / len(self.recent_s) if self.recent_s else seconds
        return {
            "loss": loss,
            "grad_norm": norm,
            "lrm": started.lrm,
            "dt_ms": seconds * 1e3,
            "tok_per_sec": rate,
            "mfu": mfu_percent(plan.shape, rate, plan.peak_flops, plan.gpus),
            "total_time_min": self.progress.train_s / 60,
            "lr": plan.matrix_lr * started.lrm,
            "data_ms": started.data_s * 1e3,
            "mem_gib": torch.cuda.max_memory_allocated() / 2**30 if self.clock.on_gpu else None,
            "epoch": started.epoch,
            "eta_min": usual_s * (plan.steps - 1 - step) / 60,
            "tokens": (step + 1) * plan.tokens_per_step,
            **{f"{part}_ms": parts[part] for part in ("forward", "backward", "agreement", "optimizer")},
            "communication_ms": self.clock.ms_of_any(started.travels) if started.travels else None,
        }


def _on_its_way(values: Tensor, device: torch.device) -> Tensor:
    """Sends a tensor to or from a GPU without waiting for it, which takes pinned memory."""
    if values.is_cuda:
        return torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


def assembled(options: Options, where: World, folder: Path, voice: Voice) -> TrainingRun:
    """A run that is ready for its first step, or stands where it was left. First is checked what costs nothing to
    check, then the data; then all is built."""
    with where.together():
        corpus = open_corpus(options.data, options.tokenizer, skip_bad=options.skip_bad_data)
        plan = settled(options, where, corpus)
        if options.sample_prompt is not None and corpus.tokenizer is None:
            raise TrainerError("--sample-prompt", "needs to know how text becomes tokens", "give --tokenizer")
        choose_attention(options.attention, where.device)
        if options.fp8:
            require_fp8(where.device, plan.shape.dim, plan.device_batch * plan.shape.seq)
        asked = questions(Path(options.hellaswag), corpus.tokenizer) if options.hellaswag else []
        corpus.check(plan.shape.vocab, lambda number: number % where.size == where.rank)
    if corpus.left_out is not None:
        for others in where.gather(corpus.left_out):
            corpus.left_out.update(others)
    with where.together():
        corpus = corpus.readable()
        validation = validation_for(plan, corpus, where.device) if options.eval_every else None
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
    run.saved_epoch = run.epoch()
    return run


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
    if checkpoint.parent == run.store.folder.resolve():
        run.saved, run.saved_step = checkpoint, run.progress.step
    run.voice.line(f"Resuming from {checkpoint.name} with step {run.progress.step}")
    run.voice.event("resume", checkpoint=checkpoint.name, step=run.progress.step)


def banner(run: TrainingRun) -> list[str]:
    """The first lines of a log: what will be trained, on what, for how long. One `name: value` a line."""
    plan, shape, where, options = run.plan, run.plan.shape, run.where, run.plan.options
    tokens, batch, compiled = plan.steps * plan.tokens_per_step, plan.device_batch, plan.compiled
    peak = f"{plan.peak_flops:.3e} FLOP/s per GPU, dense bf16" if plan.peak_flops else "not known, so no mfu"
    numbers = ("bf16" if plan.bf16 else "fp32") + (", matrices in FP8" if options.fp8 else "")
    return [
        f"Run: {run.folder.name} in {run.folder}",
        f"Model: depth {shape.depth}, dim {shape.dim}, {shape.heads} heads of {shape.head_dim}, "
        f"vocabulary {shape.vocab:,}, sequence {shape.seq:,}",
        f"Number of parameters: {shape.parameters:,}",
        f"Estimated FLOPs per token: {shape.flops_per_token:.6e}",
        f"Data: {run.corpus.described}",
        f"Device: {where.device.type}, {where.size} ranks, {numbers}, "
        f"{'compiled' if compiled else 'eager'}, shard {options.shard}",
        f"Peak of {plan.gpu_name or 'a CPU'}: {peak}",
        f"Tokens / micro-batch / rank: {batch} x {shape.seq} = {batch * shape.seq:,}",
        f"Total batch size {plan.tokens_per_step:,} => gradient accumulation steps: {plan.accumulation}",
        f"Optimizer: {options.optimizer}, peak lr {plan.matrix_lr:.3e} of matrices, "
        f"{plan.embedding_lr:.3e} of the embedding, {plan.head_lr:.3e} of the head, {options.schedule} after "
        f"{options.warmup_steps} steps of warm-up, weight decay {options.weight_decay:g}, "
        f"gradients clipped at {options.grad_clip:g}",
        f"Total number of training tokens: {tokens:,} in {plan.steps:,} steps",
        f"Tokens : Params ratio: {tokens / shape.parameters:.2f}",
        "The loss is the mean over all ranks and micro-batches; total time is that of all steps.",
        *(["The first step compiles the model, which takes minutes."] if compiled else []),
        *network_settings(options.network),
    ]
