"""Measured steps -> what limits a run: compute, memory bandwidth, input, or communication.

A GPU that waits for others in NCCL spins: utilization is high, power is low, and steps are slow. That shows without
the profiling counters of Hopper.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.report.causes import cause, killed
from gputel.analysis.report.machine_seconds import MachineTables, Seconds, covered, open_machine, slow_seconds
from gputel.analysis.report.step_shares import longest_wait, step_shares
from gputel.analysis.report.verdicts import UNKNOWN, Case, Verdict, undoubted_mfu
from gputel.trainer.gpus import find_gpu

QUESTION = "bottleneck"
IN_USE, LOW_POWER, SLOW = 95.0, 0.40, 1.15  # busy waiting: %, share of the power limit, times the median step
WAITING = 0.05  # share of the training time
WAITS_ALWAYS = 10.0  # % of tensor activity or MFU; a run that is always below waits too
UNUSED = 80.0  # % utilization; below it GPUs lack work
INPUT = 0.15  # share of a step spent waiting for data
STREAMING, TENSOR = 60.0, 40.0  # % of cycles in which DRAM, and tensor cores, are active
FULL_POWER, GOOD_MFU = 0.85, 35.0
STEPS_FLAG = "'gputel record --inside steps' tells how long each step of PyTorch waits for data"
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
    "util": "utilization",
    "power_share": "power relative to its limit",
    "tensor_active": "tensor core activity",
    "mfu": "MFU",
}


def bottleneck_verdict(case: Case) -> Verdict:
    """Returns what limits a run: what the machine around the GPUs names, else by the GPUs themselves."""
    facts = _facts(case)
    if verdict := machine_verdict(case, facts):
        return verdict
    for rule in (_input, _communication, _starved, _memory, _compute):
        reason = rule(case, facts)
        if reason:
            answer, evidence = reason
            more = _how_to_see_waits(case, facts) if rule is _starved else []
            return Verdict(QUESTION, answer, (*evidence, *more, *_rest(facts)), facts)
    lacking = [name for name in ("util", "power_share", "tensor_active", "mfu") if facts[name] is None]
    unclear = unseen(case) or (["no figure stands out"] if len(lacking) < 4 else [])
    unclear += _how_to_see_waits(case, facts) if unclear else []
    unclear += [f"not known: {', '.join(SPOKEN[name] for name in lacking)}"] if lacking else []
    return Verdict(QUESTION, UNKNOWN, (*unclear, *_rest(facts)), facts)


def machine_verdict(case: Case, facts: dict[str, Any] | None = None) -> Verdict | None:
    """Returns the cause of slow steps, or of waits for data, that the machine's tables name; None without one.

    `facts` are those of real GPUs; without them slow steps and printed waits alone count.
    """
    machines = _machines(case)
    if not machines:
        return None
    stretches = slow_seconds(case.steps, case.clock_error_s), _waiting(case, facts)
    for node, machine in machines.items():
        named = killed(machine, case.steps["end"].tail(1)) if case.subject.log.status == "failed" else None
        for seconds in stretches:
            named = named or (cause(machine, seconds) if seconds else None)
        if named:
            of_node = [] if node is None else [f"by the tables of node {node}"]
            return Verdict(QUESTION, named.answer, (*named.evidence, *of_node), dict(facts or {}))
    return None


def unseen(case: Case) -> list[str]:
    """Says that steps were slow, and that nothing recorded of the machine tells why."""
    seconds = slow_seconds(case.steps, case.clock_error_s) if _machines(case) else None
    return [f"{seconds.why}: cause not seen"] if seconds else []


def _how_to_see_waits(case: Case, facts: dict[str, Any]) -> list[str]:
    """Names the option that shows waits for data, if the command was recorded without it."""
    recording = case.subject.recording
    if recording is None or case.steps.is_empty() or facts["data_share"] is not None:
        return []
    inside = recording.descriptions[-1].get("inside")
    level = inside.get("level") if isinstance(inside, dict) else None
    return [STEPS_FLAG] if recording.descriptions[-1].get("argv") and level in ("off", "stacks") else []


def _machines(case: Case) -> dict[str | None, MachineTables]:
    """Returns the tables of each node; none of a run without steps, or without a recorded machine."""
    recording = case.subject.recording
    if recording is None or case.steps.is_empty():
        return {}
    host = recording.host
    nodes = host["node"].unique(maintain_order=True).to_list() if "node" in host.columns else [None]
    return {node: machine for node in nodes if (machine := open_machine(recording, node))}


def _waiting(case: Case, facts: dict[str, Any] | None) -> Seconds | None:
    """Returns all seconds of a training that waits for data throughout."""
    reason = _input(case, {}) or (_starved(case, facts) if facts else None)
    if reason is None:
        return None
    return Seconds(covered(case.steps), pl.Series([], dtype=pl.Datetime("ms", "UTC")), reason[1][0])


def power_limit_w(case: Case) -> float | None:
    """Returns the power limit of all GPUs: recorded, else from the table of GPU models."""
    facts = case.subject.facts
    if facts.power_limit_w:
        return float(facts.power_limit_w.value)
    gpu = find_gpu(str(facts.gpu.value)) if facts.gpu else None
    return gpu.power_w * len(case.gpus) if gpu and len(case.gpus) else None


def _facts(case: Case) -> dict[str, Any]:
    """Collects means over the training, weighted by time."""
    limit = power_limit_w(case)
    power = _mean(case.steps, "power_mean_w")
    return {
        **{name: _mean(case.steps, name) for name in ("util", "sm_active", "tensor_active", "dram_active")},
        "util_error": _error(case.steps, "util_error"),
        "util_changes": _sum(case.steps, "util_changes"),
        "power_mean_w": power,
        "power_limit_w": limit,
        "power_share": power / limit if power is not None and limit else None,
        "mfu": undoubted_mfu(case),
        "data_share": wait[0] if (wait := _data_wait(case)) else None,
    }


def _mean(steps: pl.DataFrame, name: str) -> float | None:
    weighted = _weighted(steps, name)
    return float(weighted.sum()) if weighted is not None else None


def _error(steps: pl.DataFrame, name: str) -> float | None:
    """Returns the error of a mean of steps, whose errors are independent."""
    weighted = _weighted(steps, name)
    return float((weighted**2).sum()) ** 0.5 if weighted is not None else None


def _sum(steps: pl.DataFrame, name: str) -> float | None:
    return float(steps[name].sum()) if name in steps.columns and steps[name].count() else None


def _weighted(steps: pl.DataFrame, name: str) -> pl.Series | None:
    """Returns each step's part of a mean by measured time, as the table of phases takes it; None if unknown."""
    if name not in steps.columns:
        return None
    known = steps.filter(pl.col(name).is_not_null())
    measured = known["measured"].fill_null(0.0) if "measured" in known.columns else 1.0
    weight = known["duration_s"] * known["steps"] * measured
    total = float(weight.sum())
    return known[name] * weight / total if total else None


def _data_wait(case: Case) -> tuple[float, str] | None:
    """Returns the share of a step that was spent waiting for data, and a sentence on it: seen, else as printed."""
    return longest_wait(step_shares(case.subject)) or _printed_wait(case)


def _printed_wait(case: Case) -> tuple[float, str] | None:
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
    if not sums[1]:
        return None
    share = scale * sums[0] / sums[1]
    return share, f"{100 * share:.0f} % of a step is spent waiting for data, by the times that the log prints"


def _input(case: Case, _facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    wait = _data_wait(case)
    return ("input", [wait[1]]) if wait and wait[0] >= INPUT else None


def _communication(case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    limit, steps = facts["power_limit_w"], case.steps
    if facts["power_share"] is None or facts["util"] is None:
        return None
    spins = (pl.col("util") >= IN_USE) & (pl.col("power_mean_w") < LOW_POWER * limit)
    time = pl.col("duration_s") * pl.col("steps")
    longer = pl.col("duration_s") - pl.col("duration_s").median()
    seen = longer * pl.col("steps") > 2 * case.clock_error_s  # a coarse clock makes even steps look uneven
    slow = (pl.col("duration_s") > SLOW * pl.col("duration_s").median()) & seen
    total, slowly = steps.select(time.sum().alias("all"), time.filter(spins & slow).sum().alias("slow")).row(
        0
    )
    if total and slowly / total >= WAITING:
        worst = steps.filter(spins & slow).sort("duration_s", descending=True).row(0, named=True)
        return "busy waiting, probably communication", [
            f"for {100 * slowly / total:.0f} % of the training, utilization was {IN_USE:.0f} % or more, "
            f"GPUs drew under {100 * LOW_POWER:.0f} % of their limit, and steps took over {SLOW:g} x the median",
            f"for example step {worst['step']}: {worst['util']:.0f} %, "
            f"{worst['power_mean_w']:,.0f} of {limit:,.0f} W, {worst['duration_s']:.3f} s",
        ]
    work = facts["tensor_active"] if facts["tensor_active"] is not None else facts["mfu"]
    always = facts["util"] >= IN_USE and facts["power_share"] < LOW_POWER
    if always and len(case.gpus) > 1 and work is not None and work < WAITS_ALWAYS:
        return "busy waiting, probably communication", [
            "GPU utilization is always high, but there is hardly any work"
        ]
    return None


def _starved(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    util, error = facts["util"], facts["util_error"] or 0.0
    if util is None or util >= UNUSED:
        return None
    if util + error >= UNUSED:
        why = f"changed {facts['util_changes']:.0f} times: too few readings to tell whether GPUs lack work"
        return UNKNOWN, [f"utilization, {text.percent(util, error)}, {why}"]
    without = text.percent(100 - util, error)
    return "input", [f"no kernel ran for {without} of the training: GPUs wait for the CPU or for data"]


def _memory(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    dram, tensor = facts["dram_active"], facts["tensor_active"]
    if dram is None or tensor is None or dram < STREAMING or dram < 1.5 * tensor:
        return None
    return "memory bandwidth", [f"DRAM is active in {dram:.0f} % of cycles, tensor cores in {tensor:.0f} %"]


def _compute(_case: Case, facts: dict[str, Any]) -> tuple[str, list[str]] | None:
    reasons = []
    if facts["tensor_active"] is not None and facts["tensor_active"] >= TENSOR:
        reasons.append(f"tensor cores are active in {facts['tensor_active']:.0f} % of cycles")
    if facts["mfu"] is not None and GOOD_MFU <= facts["mfu"] <= 100:
        reasons.append(f"MFU is {facts['mfu']:.1f} %")
    if (
        not reasons
        and facts["power_share"] is not None
        and facts["power_share"] >= FULL_POWER
        and (facts["util"] or 0) >= IN_USE
    ):
        reasons.append("GPU utilization is always high, near the power limit")
    return ("compute", reasons) if reasons else None


def _rest(facts: dict[str, Any]) -> list[str]:
    """Lists the figures behind every answer."""
    figures = []
    if facts["util"] is not None:
        figures.append(f"GPU utilization {text.percent(facts['util'], facts['util_error'])}")
    if facts["power_mean_w"] is not None:
        share = facts["power_share"]
        relative = "" if share is None else f" ({100 * share:.0f} % of the limit)"
        figures.append(f"{facts['power_mean_w']:,.0f} W{relative}")
    figures += [f"{name} {facts[key]:.0f} % active" for key, name in ACTIVE.items() if facts[key] is not None]
    return [", ".join(figures)] if figures else []
