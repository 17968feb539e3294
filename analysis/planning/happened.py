"""A run that has happened, in the words of a plan: what it says of itself, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gputel.analysis.planning import known
from gputel.analysis.planning.estimate import Estimate, measured
from gputel.analysis.planning.machine import Machine
from gputel.analysis.planning.memory import Recipe
from gputel.analysis.planning.overheads import Overheads, overheads, settled
from gputel.analysis.planning.sizes import Size
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.facts import Fact
    from gputel.analysis.subjects import Subject

MIB_PER_GIB = 1024
ROUNDED = 1e-3


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
    did: Overheads
    caution: str | None


def happened(
    subject: Subject, planned: Recipe, given: Machine | None = None, named: Size | None = None
) -> Happened:
    """GPUs and a size that are named by hand win over what the run says of itself."""
    asked = named or known.asked_of(subject)
    size = known.as_printed(subject, asked)
    machine = given or known.machine_of(subject)
    steps = _longest_phase(subject.log.steps)
    steady = settled(steps)
    per_step = _tokens_per_step(subject, asked, machine)
    dt_ms = _spread(steady, "dt_ms", subject.name)
    rate = _rate(steady, dt_ms, per_step, subject.name)
    return Happened(
        run=subject.name,
        asked=asked,
        size=size,
        parameters=_figure(subject.facts.parameters),
        flops_per_token=_figure(subject.facts.flops_per_token),
        machine=machine,
        recipe=known.recipe_of(subject, planned),
        device_batch=known.whole(subject, "device_batch"),
        tokens_per_step=per_step,
        steps=steps.height,
        total_steps=_total_steps(subject, steps),
        dt_ms=dt_ms,
        tok_per_sec=rate,
        mfu=_mfu(subject, size, machine, rate, steady),
        hours=_hours(steps),
        allocated_gib=_allocated_gib(subject),
        used_gib=_used_gib(subject),
        watts=_watts(subject),
        did=overheads(subject.log),
        caution=subject.caution,
    )


def _longest_phase(steps: pl.DataFrame) -> pl.DataFrame:
    """A log may hold base, mid and SFT; the plan is one of the phase that made most steps."""
    if steps.is_empty():
        return steps
    longest = steps["phase"].value_counts(sort=True)["phase"][0]
    return steps.filter(steps["phase"] == longest)


def _tokens_per_step(subject: Subject, asked: Size, machine: Machine | None) -> int | None:
    """As printed; one that was reckoned from rounded figures is taken to be whole sequences on every GPU."""
    fact = subject.facts.tokens_per_step
    if fact is None:
        return None
    unit = asked.shape.seq * (machine.count if machine else 1)
    near = round(fact.value / unit) * unit
    return near if near and abs(near / fact.value - 1) < ROUNDED else int(fact.value)


def _figure(fact: Fact | None) -> int | None:
    return None if fact is None else round(fact.value)


def _total_steps(subject: Subject, steps: pl.DataFrame) -> int | None:
    told: Any = steps["total_steps"].drop_nulls().last() if "total_steps" in steps.columns else None
    return int(told) if told is not None else known.whole(subject, "total_steps")


def _spread(steps: pl.DataFrame, column: str, run: str) -> Estimate | None:
    """The mean, and where eight steps in ten lie."""
    values = steps[column].drop_nulls() if column in steps.columns else None
    values = values.filter(values.is_finite() & (values > 0)) if values is not None else None
    if values is None or values.is_empty():
        return None
    mean: Any = values.mean()
    low, high = (values.quantile(share, "nearest") for share in (0.1, 0.9))
    return measured(float(mean), run, low=min(low or mean, mean), high=max(high or mean, mean))


def _rate(steps: pl.DataFrame, dt_ms: Estimate | None, batch: int | None, run: str) -> Estimate | None:
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
