"""The options of `gputel plan` -> a plan, or a check of a plan against a run.

An option that is not given is as in the run given by `--like`, else the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gputel.analysis import plan as planning
from gputel.analysis import text
from gputel.analysis.plan import Plan, inputs
from gputel.analysis.plan import check as checking
from gputel.analysis.plan.calibrate import Calibration, calibration
from gputel.analysis.plan.check import PlanCheck
from gputel.analysis.plan.inputs import Cluster, Size, machine
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.past_runs import machine_of
from gputel.analysis.plan.question import TOKENS_PER_STEP, Question
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

SECONDS_PER_HOUR = 3600
CHOICES = {
    "optimizer": ("adamw", "muon", "sgd"),
    "dtype": ("bf16", "fp32", "pure-bf16"),
    "shard": ("none", "zero1", "fsdp", "zero3"),
    "loss": ("full", "chunked"),
}


@dataclass(frozen=True)
class PlanRequest:
    """Each field is the option of its name; `link` is in bytes per second."""

    depth: Sequence[int] | None = None
    params: Sequence[int] | None = None
    layers: int | None = None
    dim: int | None = None
    heads: int | None = None
    tied: bool = False
    vocab: int | None = None
    seq: int | None = None
    on: str | None = None
    nodes: int = 1
    link: float | None = None
    device_batch_size: int | None = None
    total_batch_size: int | None = None
    ratio: float = 20.0
    tokens: int | None = None
    hours: float | None = None
    budget: float | None = None
    price: float | None = None
    data_tokens: int | None = None
    optimizer: str | None = None
    dtype: str | None = None
    shard: str | None = None
    loss: Literal["full", "chunked"] | None = None
    recompute: bool = False
    eager: bool = False
    plain_attention: bool = False
    save_every: int = 1000
    keep: int | None = None
    target_tok_s: float | None = None
    target_steps_h: float | None = None
    like: RunData | None = None


def plan(asked: PlanRequest) -> Plan:
    """Plans the named sizes, else the largest depth within the limits."""
    if not any(getattr(asked, name) for name in ("depth", "params", "layers", "hours", "budget")):
        raise GputelError(
            "gputel plan",
            "no size or limit was given",
            "say --depth 16,20,24, --params 1.5B or --layers; or --budget or --hours for the largest that fits",
            exit_code=2,
        )
    _refuse_nonsense(asked)
    like = _like(asked)
    question, shape = _question(asked, like), _shape(asked, like)
    target = _target(asked, question)
    named = _sizes(asked, shape)
    if named:
        return planning.of_sizes(question, named, target)
    return planning.of_limits(question, _of_depth(shape), target)


def check(run: RunData, asked: PlanRequest) -> PlanCheck:
    """Compares what would have been planned with what happened in `run`."""
    _refuse_nonsense(asked)
    like = _like(asked)
    named = _sizes(asked, _shape(asked, like))
    if len(named) > 1:
        raise GputelError(
            "--check", "needs one size, but several were given", "give that of the run", exit_code=2
        )
    size = named[0] if named else None
    return checking.check_plan(run, _recipe(asked, like), _machine(asked), like, asked.price, size)


def _refuse_nonsense(asked: PlanRequest) -> None:
    named = [f"--{name}" for name in ("depth", "params", "layers") if getattr(asked, name)]
    if len(named) > 1:
        raise GputelError(" ".join(named), "are alternatives", "give one of them", exit_code=2)
    lone = [f"--{name}" for name in ("dim", "heads", "tied") if getattr(asked, name) and not asked.layers]
    if lone:
        raise GputelError(lone[0], "goes with --layers", "say --layers 12 too", exit_code=2)
    for name, choices in CHOICES.items():
        word = getattr(asked, name)
        if word is not None and word not in choices:
            raise GputelError(f"--{name} {word}", "is not known", f"one of {', '.join(choices)}", exit_code=2)


def _question(asked: PlanRequest, like: Calibration | None) -> Question:
    """Builds the question; an option that is not given is as in the run `like`."""
    run = like.run if like else None
    machine = _machine(asked) or (run.machine if run else None)
    if machine is None:
        fault = "the GPUs are not named" + (f", and {run.run} does not name its own" if run else "")
        raise GputelError("gputel plan", fault, "say --on 2xH100", exit_code=2)
    return Question(
        machine,
        _recipe(asked, like),
        device_batch=asked.device_batch_size or (run.device_batch if run else None),
        tokens_per_step=asked.total_batch_size or (run.tokens_per_step if run else None) or TOKENS_PER_STEP,
        ratio=asked.ratio,
        tokens=asked.tokens,
        hours=asked.hours,
        budget=asked.budget,
        price=asked.price,
        data_tokens=asked.data_tokens,
        save_every=max(asked.save_every, 0),  # trainers write -1 for only at the end
        keep=asked.keep,
        like=like,
    )


def _shape(asked: PlanRequest, like: Calibration | None) -> dict[str, int]:
    shape = like.run.size.shape if like else None
    return {
        "vocab": asked.vocab or (shape.vocab if shape else inputs.VOCAB),
        "seq": asked.seq or (shape.seq if shape else inputs.SEQ),
    }


def _recipe(asked: PlanRequest, like: Calibration | None = None) -> Recipe:
    base = like.run.recipe if like else Recipe(1)
    return Recipe(
        asked.device_batch_size or base.device_batch,
        optimizer=asked.optimizer or base.optimizer,
        dtype=asked.dtype or base.dtype,
        shard=asked.shard or base.shard,
        loss=asked.loss or base.loss,
        recompute=asked.recompute or base.recompute,
        compiled=base.compiled and not asked.eager,
        flash=base.flash and not asked.plain_attention,
    )


def _machine(asked: PlanRequest) -> Cluster | None:
    words, nodes, link = asked.on, asked.nodes, asked.link
    return machine(words, nodes=nodes, link_bytes_s=link) if words else None


def _sizes(asked: PlanRequest, shape: dict[str, int]) -> list[Size]:
    """Returns the named sizes, given in one of three ways."""
    if asked.layers:
        if asked.dim is None:
            raise GputelError("--layers", "needs the width too", "say --dim 768", exit_code=2)
        return [inputs.of_layers(asked.layers, asked.dim, asked.heads, tied=asked.tied, **shape)]
    if asked.params:
        return [inputs.of_parameters(count, text.count(count), **shape) for count in asked.params]
    return [_of_depth(shape)(depth) for depth in asked.depth or ()]


def _of_depth(shape: dict[str, int]) -> Callable[[int], Size]:
    return lambda depth: inputs.of_depth(depth, **shape)


def _target(asked: PlanRequest, question: Question) -> float | None:
    if asked.target_steps_h:
        return float(asked.target_steps_h) * question.tokens_per_step / SECONDS_PER_HOUR
    return None if asked.target_tok_s is None else float(asked.target_tok_s)


def _like(asked: PlanRequest) -> Calibration | None:
    """Calibrates by `--like`; a run that does not name its GPUs is assumed to have had those of `--on`."""
    if asked.like is None:
        return None
    given = None if machine_of(asked.like) else _machine(asked)
    return calibration(asked.like, _recipe(asked), given)
