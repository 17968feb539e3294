"""What keeps a run from being faster: compute, memory bandwidth, input, or communication.

Read from the steps as they were joined with the GPUs. A GPU that waits for others in NCCL spins: it counts as in
use, draws little, and the steps are slow. That can be told without the counters of Hopper.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from gputel.analysis.report.verdicts import UNKNOWN, Case, Verdict
from gputel.trainer.gpus import find_gpu

QUESTION = "bottleneck"
IN_USE, LOW_POWER, SLOW = 95.0, 0.40, 1.15  # %, of the limit, times the run's median step: busy waiting
WAITING = 0.05  # of the training time
WAITS_ALWAYS = 10.0  # % of tensor activity or MFU, below which a run that is always so is waiting too
UNUSED = 80.0  # % of time with a kernel, below which GPUs lack work
INPUT = 0.15  # of a step, spent waiting for data
STREAMING, TENSOR = 60.0, 40.0  # % of DRAM's bandwidth, of tensor cores' cycles
FULL_POWER, GOOD_MFU = 0.85, 35.0
DATA = (
    "data_ms",
    "data_time_ms",
    "data_s",
    "data_time_s",
    "dataloading_ms",
    "data_loading_ms",
    "data_time",
    "data",
)

ACTIVE = {"tensor_active": "tensor cores", "dram_active": "DRAM"}
SPOKEN = {
    "util": "utilisation",
    "power_share": "power against its limit",
    "tensor_active": "activity of tensor cores",
    "mfu": "MFU",
}


def bottleneck_verdict(case: Case) -> Verdict:
    facts = _facts(case)
    for rule in (_input, _communication, _starved, _memory, _compute):
        found = rule(case, facts)
        if found:
            answer, evidence = found
            return Verdict(QUESTION, answer, (*evidence, *_rest(facts)), facts)
    lacking = [name for name in ("util", "power_share", "tensor_active", "mfu") if facts[name] is None]
    said = ["no figure stands out"] if len(lacking) < 4 else []
    said += [f"not known: {', '.join(SPOKEN[name] for name in lacking)}"] if lacking else []
    return Verdict(QUESTION, UNKNOWN, (*said, *_rest(facts)), facts)


def power_limit_w(case: Case) -> float | None:
    """Of all GPUs: as recorded, else by the table where every GPU's name is known."""
    facts = case.subject.facts
    if facts.power_limit_w:
        return float(facts.power_limit_w.value)
    gpu = find_gpu(str(facts.gpu.value)) if facts.gpu else None
    return gpu.power_w * len(case.gpus) if gpu and len(case.gpus) else None


def _facts(case: Case) -> dict[str, Any]:
    """Means over the training, weighted by time."""
    limit = power_limit_w(case)
    power = _mean(case.steps, "power_mean_w")
    return {
        **{name: _mean(case.steps, name) for name in ("util", "sm_active", "tensor_active", "dram_active")},
        "power_mean_w": power,
        "power_limit_w": limit,
        "power_share": power / limit if power is not None and limit else None,
        "mfu": _printed(case, "mfu"),
        "data_share": _data(case),
    }


def _mean(steps: pl.DataFrame, name: str) -> float | None:
    if name not in steps.columns or steps[name].null_count() == len(steps):
        return None
    known = steps.filter(pl.col(name).is_not_null())
    weight = known["duration_s"] * known["steps"]
    total = float(weight.sum())
    return float((known[name] * weight).sum()) / total if total else None


def _printed(case: Case, name: str) -> float | None:
    records = case.subject.log.records
    if name not in records.columns:
        return None
    found: Any = records.filter(pl.col(name).is_finite())[name].median()
    return None if found is None else float(found)


def _data(case: Case) -> float | None:
    """The share of a step that the log itself says was spent waiting for data."""
    records = case.subject.log.records
    name = next((n for n in DATA if n in records.columns), None)
    if name is None or "dt_ms" not in records.columns:
        return None
    sums = (
        records.filter(pl.col(name).is_finite() & pl.col("dt_ms").is_finite())
        .select(name, "dt_ms")
        .sum()
        .row(0)
    )
    scale = 1 if name.endswith("_ms") else 1000
    return scale * sums[0] / sums[1] if sums[1] else None


def _input(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    share = facts["data_share"]
    if share is None or share < INPUT:
        return None
    return "input", [f"{100 * share:.0f} % of a step is spent waiting for data, by the log's own figures"]


def _communication(case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    limit, steps = facts["power_limit_w"], case.steps
    if not limit or facts["util"] is None:
        return None
    spins = (pl.col("util") >= IN_USE) & (pl.col("power_mean_w") < LOW_POWER * limit)
    time = pl.col("duration_s") * pl.col("steps")
    slow = pl.col("duration_s") > SLOW * pl.col("duration_s").median()
    total, slowly = steps.select(time.sum().alias("all"), time.filter(spins & slow).sum().alias("slow")).row(
        0
    )
    if total and slowly / total >= WAITING:
        worst = steps.filter(spins & slow).sort("duration_s", descending=True).row(0, named=True)
        return "busy waiting, probably communication", [
            f"for {100 * slowly / total:.0f} % of the training GPUs were in use at {IN_USE:.0f} % and more, drew "
            f"under {100 * LOW_POWER:.0f} % of their limit, and steps took over {SLOW:g} times the run's median",
            f"such as step {worst['step']}: {worst['util']:.0f} %, {worst['power_mean_w']:,.0f} of {limit:,.0f} W, "
            f"{worst['duration_s']:.3f} s",
        ]
    work = facts["tensor_active"] if facts["tensor_active"] is not None else facts["mfu"]
    always = facts["util"] >= IN_USE and facts["power_share"] < LOW_POWER
    if always and len(case.gpus) > 1 and work is not None and work < WAITS_ALWAYS:
        return "busy waiting, probably communication", [
            "GPUs are in use all the time, and do next to no work"
        ]
    return None


def _starved(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    if facts["util"] is None or facts["util"] >= UNUSED:
        return None
    return "input", [
        f"for {100 - facts['util']:.0f} % of the training no kernel ran: GPUs wait for the CPU or for data"
    ]


def _memory(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    dram, tensor = facts["dram_active"], facts["tensor_active"]
    if dram is None or tensor is None or dram < STREAMING or dram < 1.5 * tensor:
        return None
    return "memory bandwidth", [f"DRAM is active in {dram:.0f} % of cycles, tensor cores in {tensor:.0f} %"]


def _compute(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    said = []
    if facts["tensor_active"] is not None and facts["tensor_active"] >= TENSOR:
        said.append(f"tensor cores are active in {facts['tensor_active']:.0f} % of cycles")
    if facts["mfu"] is not None and GOOD_MFU <= facts["mfu"] <= 100:
        said.append(f"MFU is {facts['mfu']:.1f} %")
    if (
        not said
        and facts["power_share"] is not None
        and facts["power_share"] >= FULL_POWER
        and (facts["util"] or 0) >= IN_USE
    ):
        said.append("GPUs are always in use, near their power limit")
    return ("compute", said) if said else None


def _rest(facts: dict[str, Any]) -> list[str]:
    """The figures that every answer is weighed by."""
    said = []
    if facts["util"] is not None:
        said.append(f"GPUs in use {facts['util']:.0f} % of the time")
    if facts["power_mean_w"] is not None:
        share = facts["power_share"]
        of = "" if share is None else f", {100 * share:.0f} % of their limit"
        said.append(f"drawing {facts['power_mean_w']:,.0f} W{of}")
    said += [f"{name} {facts[key]:.0f} % active" for key, name in ACTIVE.items() if facts[key] is not None]
    return [", ".join(said)] if said else []
