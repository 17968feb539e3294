"""A planned run -> the lines that it prints, in the layouts of users' scripts and of public trainers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from truth_runs import Case

NAME = "NVIDIA H100 80GB HBM3"
FIRST_LINE = 0.5  # seconds after the start
LAUNCH_S = 0.002  # a step is launched long before it ends
FIRST = 10  # steps that nanochat leaves out of its total time


@dataclass(frozen=True)
class Layout:
    """`record` writes step, its printed seconds and the total. `announced`: a save is printed before it begins.

    `inside`: the printed seconds hold evaluation and checkpoint before the step. `rated`: a throughput is printed.
    `second` is what a longer evaluation prints, where a run has two kinds; `gpus` names them in the banner.
    """

    batch: str
    record: Callable[[Case, int, float, float], str]
    evaluation: Callable[[Case, int], str]
    save: str
    second: Callable[[Case, int], str] = lambda _case, _step: "HellaSwag accuracy: 2964/10042=0.2952"
    gpus: tuple[str, ...] = ("GPU: {name}", "world_size: {gpus}")
    digits: int = 6
    announced: bool = False
    inside: bool = False
    rated: bool = True
    total: bool = True
    counted: bool = False  # tokens are printed, and no step: the first line has those of one step
    ranks: bool = False
    prefix: str = ""


def lines(case: Case) -> Iterator[tuple[float, str]]:
    """What the run prints, with the second at which each line comes out."""
    layout, shuffled = case.layout, random.Random(case.seed)
    for at, line in sorted(_lines(case), key=itemgetter(0)):
        if not layout.ranks or "step " not in line:
            yield at, layout.prefix.format(rank=0) + line
            continue
        order = list(range(case.gpus))
        shuffled.shuffle(order)  # ranks do not print in turn
        for place, rank in enumerate(order):
            yield at + 0.0004 * place, layout.prefix.format(rank=rank) + line


def _lines(case: Case) -> Iterator[tuple[float, str]]:
    layout, banner, spans = case.layout, _banner(case), case.spans
    yield FIRST_LINE, "loading data"
    if case.first:
        yield 0.8, f"Resuming from checkpoint out/step_{case.first:06d}.pt"
    if case.banner == "top":
        yield from ((1.0, line) for line in banner)
    waited, total = case.compile_s, 0.0
    first = True
    for place, (kind, begin, end, step) in enumerate(spans):
        if kind == "eval":
            second = bool(place) and spans[place - 1][0] == "eval"
            yield end, (layout.second if second else layout.evaluation)(case, step)
            waited += (end - begin) * case.inside
        elif kind == "checkpoint":
            yield (begin if layout.announced else end), layout.save.format(step=step)
            waited += (end - begin) * layout.inside
        elif kind == "start" and place:
            yield end - case.compile_s, f"Resuming from checkpoint at step {step}"
            waited = case.compile_s
        elif kind == "train":
            total += (end - begin) * (step > FIRST)
            at = _printed_at(case, place)
            if step % case.every == 0 or step == case.steps - 1:
                yield at, layout.record(case, step, end - begin + waited, total)
            if first and case.banner == "late":
                yield from ((at, line) for line in banner)
            waited, first = 0.0, False


def _printed_at(case: Case, place: int) -> float:
    """The second at which the line of a step comes out: a loop may read its loss while the next step runs.

    Before a pause such a loop prints what it owes (`late`), or after it, when it launched the next step (`queued`).
    """
    _, _, end, step = case.spans[place]
    following = next(
        (span for span in case.spans[place + 1 :] if span[0] not in ("eval", "checkpoint")), None
    )
    if following is None or following[0] != "train":
        return end
    _, begin, done, later = following
    alone = following is case.spans[place + 1]
    if case.queued and not alone:
        return begin + LAUNCH_S
    return begin + case.late * (done - begin) if alone and later == step + 1 else end


def last_dt(case: Case) -> float:
    """Seconds that the last line prints for its step: with what came before it, where the layout holds that."""
    *_, last = case.spans
    waited = 0.0
    for kind, begin, end, step in reversed(case.spans[:-1]):
        if step != last[3] or kind not in ("eval", "checkpoint"):
            break
        waited += (end - begin) * (case.inside if kind == "eval" else case.layout.inside)
    return last[2] - last[1] + waited


def _banner(case: Case) -> list[str]:
    layout = case.layout
    total = [f"Starting training from step {case.first} to {case.steps}"] if layout.total else []
    gpus = [line.format(name=NAME, gpus=case.gpus) for line in layout.gpus]
    return [layout.batch.format(case.tokens), *gpus, *total]


def _nanochat(case: Case, step: int, dt: float, total: float) -> str:
    share = 100 * step / case.steps
    return (
        f"step {step:05d}/{case.steps:05d} ({share:.2f}%) | loss: {case.loss(step):.6f} | lrm: 1.00 | "
        f"dt: {1000 * dt:.2f}ms | tok/sec: {case.tokens / dt:,.0f} | mfu: 41.00 | total time: {total / 60:.2f}m"
    )


def _desired(case: Case, step: int, dt: float, _total: float) -> str:
    rate = case.tokens / dt / (1000 if case.thousandth else 1)
    return (
        f"step {step:5d} | loss: {case.loss(step):.6f} | lr 6.0000e-04 | norm: 0.9000 | "
        f"dt: {1000 * dt:.2f}ms | tok/sec: {rate:.2f}"
    )


def _nanogpt(case: Case, step: int, dt: float, _total: float) -> str:
    return f"iter {step}: loss {case.loss(step):.4f}, time {1000 * dt:.2f}ms, mfu 41.00%"


def _pod(case: Case, step: int, dt: float, _total: float) -> str:
    return (
        f"step {step:6d}/{case.steps} | loss {case.loss(step):.4f} | lr 2.00e-04 | "
        f"{case.tokens / dt:,.0f} tok/s | {dt:.2f}s/step"
    )


def _keyed(case: Case, step: int, dt: float, _total: float) -> str:
    return (
        f"iter={step}/{case.steps} loss={case.loss(step):.5f} lr=6.0e-04 tps={case.tokens / dt / 1000:.1f}k "
        f"step_time={dt:.3f} mem=60.1GiB"
    )


def _titan(case: Case, step: int, dt: float, _total: float) -> str:
    return (
        f"step: {step:2}  loss: {case.loss(step):7.4f}  grad_norm:  0.9000  memory: 60.10GiB(75.46%)  "
        f"tps: {round(case.tokens / case.gpus / dt):,}  tflops: 330.21  mfu: 33.39%"
    )


def _update(case: Case, step: int, dt: float, _total: float) -> str:
    return (
        f"update {step}/{case.steps} | loss {case.loss(step):.4f} | {1000 * dt:.0f} ms/update | "
        f"{case.tokens / dt:,.0f} tokens/sec | lr 6.00e-04"
    )


def _tokens(case: Case, step: int, dt: float, _total: float) -> str:
    return (
        f"tokens: {(step + 1) * case.tokens:,} | loss: {case.loss(step):.4f} | tok/s: {case.tokens / dt:,.0f}"
    )


LAYOUTS = {
    "desired": Layout(
        "desired batch size (number of tokens): {}",
        _desired,
        lambda case, step: f"validation loss: {case.loss(step) + 0.05:.4f}",
        "Saved checkpoint to out/step_{step:06d}.pt",
    ),
    "nanochat": Layout(
        "Total batch size {:,} => gradient accumulation steps: 4",
        _nanochat,
        lambda case, step: f"Step {step:05d} | Validation bpb: {case.loss(step) + 0.05:.6f}",
        "Saved checkpoint to out/step_{step:06d}.pt",
    ),
    "nanogpt": Layout(
        "tokens per iteration will be: {:,}",
        _nanogpt,
        lambda case, step: (
            f"step {step}: train loss {case.loss(step):.4f}, val loss {case.loss(step) + 0.05:.4f}"
        ),
        "saving checkpoint to out",
        digits=4,
        announced=True,
        inside=True,
        rated=False,
        total=False,
    ),
    "pod": Layout(
        "global batch size: {} tokens",
        _pod,
        lambda case, step: f"eval | val_loss {case.loss(step) + 0.05:.4f}",
        "saved checkpoint to /ckpt/step_{step}.pt",
        digits=4,
        ranks=True,
        prefix="[rank{rank}]: ",
    ),
    "keyed": Layout(
        "tokens per step = {}",
        _keyed,
        lambda case, step: f"eval iter={step} val_loss={case.loss(step) + 0.05:.4f}",
        "writing checkpoint to s3://bucket/run/iter_{step}",
        digits=5,
        announced=True,
        prefix="INFO trainer: ",
    ),
    "titan": Layout(
        "Training starts with global batch size {} tokens",
        _titan,
        lambda case, step: f"validate step: {step:2}  loss: {case.loss(step) + 0.05:7.4f}",
        "Finished saving the checkpoint (step {step}) in 3.10 seconds.",
        lambda _case, step: f"evaluate step: {step:2}  hellaswag_acc: 0.2952",
        digits=4,
        prefix="[titan] INFO - ",
    ),
    "update": Layout(
        "tokens per update: {:,}",
        _update,
        lambda case, step: f"valid @ {step}: loss {case.loss(step) + 0.05:.4f}",
        "checkpoint written: out/update_{step}.pt",
        lambda _case, step: f"hellaswag @ {step}: acc 0.2952",
        gpus=("GPU count: {gpus} ({name})",),
        digits=4,
    ),
    "tokens": Layout(
        "batch size in tokens: {:,}",
        _tokens,
        lambda case, step: (
            f"eval at {(step + 1) * case.tokens:,} tokens: val_loss {case.loss(step) + 0.05:.4f}"
        ),
        "Saved checkpoint to out/step_{step:06d}.pt",
        digits=4,
        total=False,
        counted=True,
    ),
}
