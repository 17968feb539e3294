"""A finished run -> PastRun, in the terms of a plan: size, GPUs, recipe, measured pace, memory, power, overheads.

Times are those of `timing`; what the log does not print is as planned, or None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.plan import inputs
from gputel.analysis.plan.estimate import Estimate, measured
from gputel.analysis.plan.inputs import Cluster, Size
from gputel.analysis.plan.memory import STATES, Recipe
from gputel.analysis.text import MIB_PER_GIB
from gputel.telemetry.errors import GputelError
from gputel.trainer.gpus import find_gpu, gpus

if TYPE_CHECKING:
    from gputel.analysis.plan.timing import Overheads, TrainingTime
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Fact

ROUNDED = 1e-3

SAME_PEAK = 0.01
PRINTED_DIGITS = 1e-5  # FLOPs are printed with seven


@dataclass(frozen=True)
class PastRun:
    """A run in the terms of a plan; None is unknown."""

    run: str
    asked: Size  # what a plan would have made of its shape
    size: Size  # with printed parameters and FLOPs
    parameters: int | None
    flops_per_token: int | None
    machine: Cluster | None
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
    did: Overheads
    caution: str | None
    errors: dict[str, float]  # errors of measured figures, by the names that a check uses
    simulated: str | None  # the simulated machine, whose readings are not those of this training

    @property
    def not_measured(self) -> str | None:
        """Says which figures simulated GPUs do not give; None if the GPUs are real."""
        if self.simulated is None:
            return None
        figures = "power and memory are" if self.mfu else "MFU, power and memory are"
        return (
            f"{figures} not measured: the GPUs of {self.run} are simulated ({self.simulated}), "
            "and the training did not run on them"
        )


def happened(
    subject: RunData, planned: Recipe, given: Cluster | None = None, named: Size | None = None
) -> PastRun:
    """Describes a finished run; GPUs and a size named by hand take precedence over those of the log."""
    from gputel.analysis.plan.timing import training_time

    asked = named or asked_of(subject)
    size = as_printed(subject, asked)
    machine = given or machine_of(subject)
    trained = training_time(subject)
    per_step = _tokens_per_step(subject, asked, machine)
    dt_ms = _step_ms(trained, subject.name)
    rate = _rate(subject, trained.rows, dt_ms, per_step)
    simulated = subject.recording.simulated if subject.recording else None
    return PastRun(
        run=subject.name,
        asked=asked,
        size=size,
        parameters=_figure(subject.facts.parameters),
        flops_per_token=_figure(subject.facts.flops_per_token),
        machine=machine,
        recipe=recipe_of(subject, planned),
        device_batch=whole(subject, "device_batch"),
        tokens_per_step=per_step,
        steps=trained.steps,
        total_steps=_total_steps(subject, trained.rows),
        dt_ms=dt_ms,
        tok_per_sec=rate,
        mfu=None if simulated and not given else _mfu(subject, size, machine, rate, trained.rows),
        hours=trained.hours,
        allocated_gib=_allocated_gib(subject),
        used_gib=None if simulated else _used_gib(subject),
        watts=None if simulated else _watts(subject),
        did=trained.did,
        caution=subject.caution,
        errors=_errors(subject, trained, dt_ms, rate),
        simulated=simulated,
    )


def _errors(
    subject: RunData, trained: TrainingTime, dt_ms: Estimate | None, rate: Estimate | None
) -> dict[str, float]:
    """Adds the error of throughput to those of times: of the step time, and of a batch from rounded figures."""
    errors, batch = trained.errors, subject.facts.tokens_per_step
    if "dt_ms" in errors and dt_ms is not None and rate is not None:
        share = math.hypot(errors["dt_ms"] / dt_ms.value, batch.relative_error if batch else 0.0)
        errors["tok_per_sec"] = share * rate.value
    return errors


def asked_of(subject: RunData) -> Size:
    """Returns the size that a plan would use: by printed depth and width, else by parameters."""
    facts, config = subject.facts, subject.log.config
    vocab = int(facts.vocab.value) if facts.vocab else inputs.VOCAB
    seq = int(facts.seq.value) if facts.seq else inputs.SEQ
    if facts.depth is not None:
        dim = int(facts.dim.value) if facts.dim else None
        heads = int(config["heads"]) if "heads" in config else None
        return _of_shape(int(facts.depth.value), dim, heads, vocab, seq)
    if facts.parameters is not None:
        parameters = int(facts.parameters.value)
        return inputs.of_parameters(parameters, text.count(parameters), vocab=vocab, seq=seq)
    raise GputelError(
        subject.name,
        "prints neither depth nor parameters",
        "name a run that does, or with --check add --depth, --params or --layers",
    )


def as_printed(subject: RunData, asked: Size) -> Size:
    facts = subject.facts
    parameters = int(facts.parameters.value) if facts.parameters else asked.parameters
    flops = round(facts.flops_per_token.value) if facts.flops_per_token else asked.flops_per_token
    same = abs(flops / asked.flops_per_token - 1) < PRINTED_DIGITS
    return replace(asked, parameters=parameters, flops_per_token=asked.flops_per_token if same else flops)


def recipe_of(subject: RunData, planned: Recipe) -> Recipe:
    """Returns the run's recipe; what it does not print is as planned."""
    config, argv = subject.log.config, _argv(subject)
    optimizer, shard = config.get("optimizer"), config.get("shard")
    printed: dict[str, Any] = {}
    if optimizer in STATES:
        printed["optimizer"] = optimizer
    if "mode" in config:  # printed by the project's own trainer, which leaves out `shard` if there is none
        printed["compiled"] = config["mode"] == "compiled"
        printed["dtype"] = "fp32" if config.get("precision") == "fp32" else "bf16"
        whole = "--keep-whole-gradients" in (argv or ())
        printed["shard"] = "none" if shard != "fsdp" else "fsdp" if whole else "zero3"
        printed["loss"] = "chunked"
    if argv:
        printed["recompute"] = "--recompute" in argv
    return replace(planned, **printed)


def machine_of(subject: RunData) -> Cluster | None:
    """Returns the GPUs by name, else the first model in the table with the peak that the printed MFU implies."""
    facts = subject.facts
    if facts.gpus is None:
        return None
    count = int(facts.gpus.value)
    gpu = find_gpu(str(facts.gpu.value)) if facts.gpu else None
    if gpu is None and facts.peak_flops is not None:
        each = float(facts.peak_flops.value) / count
        gpu = next((g for g in gpus() if g.peak_flops and abs(g.peak_flops / each - 1) < SAME_PEAK), None)
    return Cluster(gpu, count) if gpu else None


def whole(subject: RunData, name: str) -> int | None:
    value = subject.log.config.get(name)
    return int(value) if isinstance(value, (int, float)) else None


def _tokens_per_step(subject: RunData, asked: Size, machine: Cluster | None) -> int | None:
    """Returns tokens per step; if computed from rounded figures, rounded to whole sequences on every GPU."""
    fact = subject.facts.tokens_per_step
    if fact is None:
        return None
    unit = asked.shape.seq * (machine.count if machine else 1)
    near = round(fact.value / unit) * unit
    return (
        near if near and abs(near / fact.value - 1) < max(ROUNDED, fact.relative_error) else int(fact.value)
    )


def _figure(fact: Fact | None) -> int | None:
    return None if fact is None else round(fact.value)


def _total_steps(subject: RunData, steps: pl.DataFrame) -> int | None:
    printed: Any = steps["total_steps"].drop_nulls().last() if "total_steps" in steps.columns else None
    return int(printed) if printed is not None else whole(subject, "total_steps")


def _step_ms(trained: TrainingTime, run: str) -> Estimate | None:
    """Returns the step time; its range holds the central 80 % of printed steps, and the error of the step time."""
    if trained.step is None:
        return None
    value, error = 1000 * trained.step.seconds, 1000 * trained.step.error_s
    printed = _spread(trained.rows, "dt_ms", run)
    low, high = (printed.low, printed.high) if printed else (value, value)
    return measured(value, run, low=max(0.0, min(low, value - error)), high=max(high, value + error))


def _spread(steps: pl.DataFrame, column: str, run: str) -> Estimate | None:
    """Returns the mean, with the central 80 % of steps as its range."""
    values = steps[column].drop_nulls() if column in steps.columns else None
    values = values.filter(values.is_finite() & (values > 0)) if values is not None else None
    if values is None or values.is_empty():
        return None
    mean: Any = values.mean()
    low, high = (values.quantile(share, "nearest") for share in (0.1, 0.9))
    return measured(float(mean), run, low=min(low or mean, mean), high=max(high or mean, mean))


def _rate(
    subject: RunData, steps: pl.DataFrame, dt_ms: Estimate | None, batch: int | None
) -> Estimate | None:
    """Returns tokens per second of all GPUs, from step times if possible: some print the rate of one GPU."""
    if dt_ms is not None and batch is not None:
        return 1000 * float(batch) / dt_ms
    rate = _spread(steps, "tok_per_sec", subject.name)
    return None if rate is None else rate * subject.step_tokens.rate_scale


def _mfu(
    subject: RunData, size: Size, machine: Cluster | None, rate: Estimate | None, steps: pl.DataFrame
) -> Estimate | None:
    """Computes MFU from the rate if the GPUs are known; raises GputelError above 100 %."""
    if rate is None or machine is None:
        return _spread(steps, "mfu", subject.name)
    share = rate * (100 * size.flops_per_token / machine.peak_flops)
    if share.value > 100:
        raise GputelError(
            subject.name,
            f"its {rate.value:,.0f} tok/s would be {share.value:.0f}% MFU on {machine.words}",
            "name its GPUs with --on",
        )
    return share.as_(f"MFU of {subject.name}")


def _allocated_gib(subject: RunData) -> float | None:
    """Returns the peak memory that the framework reported."""
    reported = subject.log.summary.get("peak_memory_mib")
    if isinstance(reported, (int, float)):
        return reported / MIB_PER_GIB
    for name in ("mem_gib", "memory_gib"):
        if name in subject.log.records.columns:
            most: Any = subject.log.records[name].max()
            return None if most is None else float(most)
    return None


def _used_gib(subject: RunData) -> float | None:
    """Returns the peak memory that the driver reported, on any GPU."""
    frame = subject.gpu
    if frame is None or "mem_used_mib" not in frame.columns:
        return None
    most: Any = frame["mem_used_mib"].max()
    return None if most is None else float(most) / MIB_PER_GIB


def _watts(subject: RunData) -> Estimate | None:
    """Returns power per GPU during the steps; during the whole recording without timestamps."""
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


def _of_shape(depth: int, dim: int | None, heads: int | None, vocab: int, seq: int) -> Size:
    if dim is None:
        return inputs.of_depth(depth, vocab=vocab, seq=seq)
    try:
        size = inputs.of_layers(depth, dim, heads, vocab=vocab, seq=seq)
    except GputelError:
        size = inputs.of_layers(depth, dim, None, vocab=vocab, seq=seq)
    usual = inputs.of_depth(depth, vocab=vocab, seq=seq)
    return usual if usual.shape.dim == dim else size


def _argv(subject: RunData) -> list[str]:
    """Returns the words of the recorded command; none for a bare log."""
    descriptions = subject.recording.descriptions if subject.recording else []
    return [str(word) for facts in descriptions for word in facts.get("argv") or []]
