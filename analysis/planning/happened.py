"""A run that has happened, in the words of a plan: its size, its GPUs, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gputel.analysis.planning import sizes, words
from gputel.analysis.planning.estimate import Estimate, measured
from gputel.analysis.planning.machine import Machine
from gputel.analysis.planning.memory import SHARDS, STATES, Recipe
from gputel.analysis.planning.overheads import overheads, settled
from gputel.analysis.planning.sizes import Size
from gputel.telemetry.errors import GputelError
from gputel.trainer.errors import TrainerError
from gputel.trainer.gpus import find_gpu, gpus

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.facts import Fact
    from gputel.analysis.subjects import Subject

MIB_PER_GIB = 1024
SAME_PEAK = 0.01
PRINTED_DIGITS = 1e-5  # FLOPs are printed with seven


@dataclass(frozen=True)
class Happened:
    """A run in the words of a plan; None is what it does not tell."""

    run: str
    asked: Size  # what a plan would have made of its shape
    size: Size  # with parameters and FLOPs as they were printed
    parameters: int | None
    flops_per_token: int | None
    machine: Machine | None
    recipe: Recipe
    device_batch: int | None
    tokens_per_step: int | None
    steps: int
    total_steps: int | None
    dt_ms: Estimate | None
    tok_per_sec: Estimate | None
    mfu: Estimate | None
    hours: float | None
    allocated_gib: float | None
    used_gib: float | None
    watts: Estimate | None
    start_s: float | None
    caution: str | None


def happened(subject: Subject, planned: Recipe, given: Machine | None = None) -> Happened:
    """`given` are GPUs named by hand, which win over what the run says of itself."""
    asked = asked_of(subject)
    size = _as_printed(subject, asked)
    machine = given or machine_of(subject)
    steps = subject.log.steps
    steady = settled(steps)
    batch = subject.facts.tokens_per_step
    dt_ms = _spread(steady, "dt_ms", subject.name)
    rate = _rate(steady, dt_ms, batch.value if batch else None, subject.name)
    return Happened(
        run=subject.name,
        asked=asked,
        size=size,
        parameters=_figure(subject.facts.parameters),
        flops_per_token=_figure(subject.facts.flops_per_token),
        machine=machine,
        recipe=recipe_of(subject, planned),
        device_batch=_whole(subject, "device_batch"),
        tokens_per_step=int(batch.value) if batch else None,
        steps=steps.height,
        total_steps=_total_steps(subject),
        dt_ms=dt_ms,
        tok_per_sec=rate,
        mfu=_mfu(subject, size, machine, rate, steady),
        hours=_hours(steps),
        allocated_gib=_allocated_gib(subject),
        used_gib=_used_gib(subject),
        watts=_watts(subject),
        start_s=overheads(subject.log).start_s,
        caution=subject.caution,
    )


def asked_of(subject: Subject) -> Size:
    """By depth and width where they are printed, else by the number of parameters."""
    facts, config = subject.facts, subject.log.config
    vocab = int(facts.vocab.value) if facts.vocab else sizes.VOCAB
    seq = int(facts.seq.value) if facts.seq else sizes.SEQ
    if facts.depth is not None:
        dim = int(facts.dim.value) if facts.dim else None
        heads = int(config["heads"]) if "heads" in config else None
        return _of_shape(int(facts.depth.value), dim, heads, vocab, seq)
    if facts.parameters is not None:
        parameters = int(facts.parameters.value)
        return sizes.of_parameters(parameters, words.large(parameters), vocab=vocab, seq=seq)
    raise GputelError(subject.name, "prints neither its depth nor its parameters", "a plan needs one of them")


def _argv(subject: Subject) -> list[str]:
    """The command that was recorded; none of a bare log."""
    descriptions = subject.recording.descriptions if subject.recording else []
    return [str(word) for facts in descriptions for word in facts.get("argv") or []]


def _as_printed(subject: Subject, asked: Size) -> Size:
    facts = subject.facts
    parameters = int(facts.parameters.value) if facts.parameters else asked.parameters
    flops = round(facts.flops_per_token.value) if facts.flops_per_token else asked.flops_per_token
    same = abs(flops / asked.flops_per_token - 1) < PRINTED_DIGITS
    return replace(asked, parameters=parameters, flops_per_token=asked.flops_per_token if same else flops)


def recipe_of(subject: Subject, planned: Recipe) -> Recipe:
    """How the run trained, as far as it tells; the rest is taken to be as planned."""
    config, argv = subject.log.config, _argv(subject)
    optimizer, shard = config.get("optimizer"), config.get("shard")
    told: dict[str, Any] = {}
    if optimizer in STATES:
        told["optimizer"] = optimizer
    if "mode" in config:  # a banner of the project's own trainer, which prints no shard where there is none
        told["compiled"] = config["mode"] == "compiled"
        told["dtype"] = "fp32" if config.get("precision") == "fp32" else "bf16"
        told["shard"] = shard if shard in SHARDS else "none"
        told["loss"] = "chunked"
    if argv:
        told["recompute"] = "--recompute" in argv
    return replace(planned, **told)


def machine_of(subject: Subject) -> Machine | None:
    """By the GPU's name; else by the peak that the printed MFU means, the first of the table that has it."""
    facts = subject.facts
    if facts.gpus is None:
        return None
    count = int(facts.gpus.value)
    gpu = find_gpu(str(facts.gpu.value)) if facts.gpu else None
    if gpu is None and facts.peak_flops is not None:
        each = float(facts.peak_flops.value) / count
        gpu = next((g for g in gpus() if g.peak_flops and abs(g.peak_flops / each - 1) < SAME_PEAK), None)
    return Machine(gpu, count) if gpu else None


def _of_shape(depth: int, dim: int | None, heads: int | None, vocab: int, seq: int) -> Size:
    if dim is None:
        return sizes.of_depth(depth, vocab=vocab, seq=seq)
    try:
        size = sizes.of_layers(depth, dim, heads, vocab=vocab, seq=seq)
    except (GputelError, TrainerError):
        size = sizes.of_layers(depth, dim, None, vocab=vocab, seq=seq)
    usual = sizes.of_depth(depth, vocab=vocab, seq=seq)
    return usual if usual.shape.dim == dim else size


def _figure(fact: Fact | None) -> int | None:
    return None if fact is None else round(fact.value)


def _whole(subject: Subject, name: str) -> int | None:
    value = subject.log.config.get(name)
    return int(value) if isinstance(value, (int, float)) else None


def _total_steps(subject: Subject) -> int | None:
    steps = subject.log.steps
    told: Any = steps["total_steps"].drop_nulls().last() if "total_steps" in steps.columns else None
    return int(told) if told is not None else _whole(subject, "total_steps")


def _spread(steps: pl.DataFrame, column: str, run: str) -> Estimate | None:
    """The mean, and where eight steps in ten lie."""
    values = steps[column].drop_nulls() if column in steps.columns else None
    values = values.filter(values.is_finite() & (values > 0)) if values is not None else None
    if values is None or values.is_empty():
        return None
    mean: Any = values.mean()
    low, high = (values.quantile(share, "nearest") for share in (0.1, 0.9))
    return measured(float(mean), run, low=min(low or mean, mean), high=max(high or mean, mean))


def _rate(steps: pl.DataFrame, dt_ms: Estimate | None, batch: float | None, run: str) -> Estimate | None:
    """Tokens a second of all GPUs, by the time of a step where it is known: some programs print a GPU's rate."""
    if dt_ms is not None and batch is not None:
        return 1000 * float(batch) / dt_ms
    return _spread(steps, "tok_per_sec", run)


def _mfu(
    subject: Subject, size: Size, machine: Machine | None, rate: Estimate | None, steps: pl.DataFrame
) -> Estimate | None:
    """Reckoned from the rate where the GPUs are known; more than 100 % means that one of the figures is wrong."""
    if rate is None or machine is None:
        return _spread(steps, "mfu", subject.name)
    share = rate * (100 * size.flops_per_token / machine.peak_flops)
    if share.value > 100:
        raise GputelError(
            subject.name,
            f"its {rate.value:,.0f} tok/s would be {share.value:.0f}% MFU on {machine.words}",
            "name the GPUs that it ran on with --on",
        )
    return share.as_(f"MFU of {subject.name}")


def _hours(steps: pl.DataFrame) -> float | None:
    from gputel.analysis.parse.summary import duration_s

    seconds = duration_s(steps)
    return None if seconds is None else seconds / 3600


def _allocated_gib(subject: Subject) -> float | None:
    """What the framework says that it held at most."""
    told = subject.log.summary.get("peak_memory_mib")
    if isinstance(told, (int, float)):
        return told / MIB_PER_GIB
    for name in ("mem_gib", "memory_gib"):
        if name in subject.log.records.columns:
            most: Any = subject.log.records[name].max()
            return None if most is None else float(most)
    return None


def _used_gib(subject: Subject) -> float | None:
    """What the driver saw at most on any GPU."""
    frame = subject.gpu
    if frame is None or "mem_used_mib" not in frame.columns:
        return None
    most: Any = frame["mem_used_mib"].max()
    return None if most is None else float(most) / MIB_PER_GIB


def _watts(subject: Subject) -> Estimate | None:
    """Of a GPU, while steps were made; all of the recording where lines have no stamps."""
    import polars as pl

    frame = subject.gpu
    if frame is None or "power_w" not in frame.columns:
        return None
    times = subject.log.records["time"].drop_nulls()
    if len(times) > 1:
        during = frame.filter(pl.col("time").is_between(times.min(), times.max()))
        frame = frame if during.is_empty() else during
    each = frame.group_by("gpu").agg(pl.col("power_w").cast(pl.Float64).mean())["power_w"].drop_nulls()
    if each.is_empty():
        return None
    mean: Any = each.mean()
    low: Any = each.min()
    high: Any = each.max()
    return measured(float(mean), f"power of {subject.name}", low=float(low), high=float(high))
