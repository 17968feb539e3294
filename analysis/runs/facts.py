"""Log and run descriptions -> Facts: size, batch and GPUs of a run, each with its origin; None if unknown.

Facts come from the log (configuration and rows) and from the recorder's description of the machine. Others are
computed where the known figures determine them, such as the number of GPUs from the printed MFU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from gputel.analysis.runs.batch import BatchFigures, PrintedFigures, batch_figures, step_tokens
from gputel.trainer.gpus import GpuModel, find_gpu, gpus

PRINTED = "printed"
RECORDED = "recorded"
READINGS = "from the table of readings"
FLOPS_PER_PARAMETER = 6  # per token, forward and backward
POWERS = tuple(2**n for n in range(13))  # usual numbers of GPUs
AGREE = 0.002  # relative error of a figure printed with at least three digits


@dataclass(frozen=True)
class Fact:
    """A figure and its origin: `printed`, `recorded`, or a phrase that says how it was computed.

    `error` is how far it may be off, None if it is exact.
    """

    value: Any
    origin: str
    error: float | None = None

    @property
    def relative_error(self) -> float:
        return self.error / float(self.value) if self.error and self.value else 0.0


@dataclass(frozen=True)
class Facts:
    """`tokens_per_step` of the optimizer, `flops_per_token` forward and backward, `peak_flops` of all GPUs."""

    depth: Fact | None = None
    dim: Fact | None = None
    vocab: Fact | None = None
    seq: Fact | None = None
    parameters: Fact | None = None
    flops_per_token: Fact | None = None
    tokens_per_step: Fact | None = None
    gpu: Fact | None = None
    gpus: Fact | None = None
    peak_flops: Fact | None = None
    power_limit_w: Fact | None = None

    def known(self) -> dict[str, Fact]:
        """Returns the facts that are known, by name."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: fact for name, fact in facts.items() if fact is not None}


def estimated_flops(parameters: float) -> float:
    """Estimates FLOPs per token from parameters alone, so attention is left out."""
    return FLOPS_PER_PARAMETER * parameters


def run_facts(
    log: PrintedFigures,
    descriptions: Sequence[dict[str, Any]] = (),
    readings: pl.DataFrame | None = None,
    gpu_names: Sequence[str] = (),
    batch_of: BatchFigures | None = None,
) -> Facts:
    """Collects the facts of a run; `descriptions` are those of a recorded run's segments.

    `readings` is a table of GPU readings beside the log, `gpu_names` what that table calls its GPUs; `batch_of` is
    what was read of the log's batch before.
    """
    config = log.config
    recorded = whole_gpus(descriptions)
    name = _recorded(next((gpu.get("name") for gpu in recorded), None)) or _of_table(
        next(iter(gpu_names), None)
    )
    name = name or _printed(config, "gpu")
    model = find_gpu(str(name.value)) if name else None
    count = (
        _recorded(len(recorded) or None) or _world(config) or _ranks_at_once(config) or _in_table(readings)
    )
    tokens = step_tokens(batch_of or batch_figures(log))
    batch = Fact(tokens.tokens, tokens.origin, tokens.error) if tokens.tokens is not None else None
    flops, seq = _number(config, "flops_per_token"), _number(config, "seq")
    peak = _peak(model, count, descriptions) or _peak_by_mfu(log, flops, tokens.rate_scale)
    return Facts(
        depth=_number(config, "depth"),
        dim=_number(config, "dim"),
        vocab=_number(config, "vocab_size"),
        seq=seq,
        parameters=_number(config, "parameters"),
        flops_per_token=flops,
        tokens_per_step=batch,
        gpu=name,
        gpus=count or _count_by_peak(peak, model, _sequences(batch, seq)),
        peak_flops=peak,
        power_limit_w=_limits(recorded) or _limits_in_table(readings),
    )


def _printed(config: dict[str, float | str], name: str) -> Fact | None:
    return Fact(config[name], PRINTED) if name in config else None


def _number(config: dict[str, float | str], name: str) -> Fact | None:
    """Returns a setting that is a number above zero: `depth: resnet50` is none."""
    value = config.get(name)
    return Fact(value, PRINTED) if isinstance(value, (int, float)) and 0 < value < math.inf else None


def _world(config: dict[str, float | str]) -> Fact | None:
    """Returns the ranks, else the GPUs that a log prints, which may be those of one node, or all that it has."""
    sizes = {name: size for name, size in config.items() if isinstance(size, (int, float))}
    on_nodes = sizes["gpus_per_node"] * sizes.get("nodes", 1) if "gpus_per_node" in sizes else None
    counts = sizes.get("world_size"), sizes.get("gpus"), on_nodes, sizes.get("gpus_available")
    return next((Fact(int(count), PRINTED) for count in counts if count), None)


def _ranks_at_once(config: dict[str, float | str]) -> Fact | None:
    """Returns the ranks by the tokens of a micro-batch of all of them, and of one."""
    at_once, device, seq = (_number(config, name) for name in ("micro_batch_tokens", "device_batch", "seq"))
    if not (at_once and device and seq):
        return None
    ranks = float(at_once.value) / (float(device.value) * float(seq.value))
    return Fact(int(ranks), "computed from the printed micro-batches") if ranks.is_integer() else None


def _sequences(batch: Fact | None, seq: Fact | None) -> int:
    """Returns the sequences per step, an upper bound on the number of GPUs; the largest of POWERS if unknown."""
    return int(batch.value // seq.value) if batch and seq else POWERS[-1]


def _recorded(value: Any) -> Fact | None:
    return None if value is None else Fact(value, RECORDED)


def distinct_gpus(descriptions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists every GPU once, even if several segments describe it."""
    seen: dict[object, dict[str, Any]] = {}
    for facts in descriptions:
        for gpu in facts.get("gpus") or []:
            seen[facts.get("node_rank"), gpu.get("uuid") or gpu["gpu"]] = gpu
    return list(seen.values())


def whole_gpus(descriptions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists the GPUs that are counted and paid for: a MIG instance only where its own GPU is not recorded."""
    counted = []
    for facts in descriptions:
        described = facts.get("gpus") or []
        indices = {str(gpu["gpu"]) for gpu in described}
        counted.append({**facts, "gpus": [gpu for gpu in described if _parent(gpu) not in indices]})
    return distinct_gpus(counted)


def _parent(gpu: Mapping[str, Any]) -> str:
    """The index of the GPU that a MIG instance, such as 0:1, is part of; empty for a whole GPU."""
    parent, _, instance = str(gpu["gpu"]).partition(":")
    return parent if instance else ""


def _limits(recorded: Iterable[dict[str, Any]]) -> Fact | None:
    limits = [(gpu.get("limits") or {}).get("power_w") for gpu in recorded]
    return _recorded(sum(limits)) if limits and all(limit is not None for limit in limits) else None


def _of_table(value: Any) -> Fact | None:
    return None if value is None else Fact(value, READINGS)


def _in_table(readings: pl.DataFrame | None) -> Fact | None:
    """Counts the GPUs of a table of readings. A printed count wins: the table may hold others' GPUs."""
    return None if readings is None or readings.is_empty() else _of_table(readings["gpu"].n_unique())


def _limits_in_table(readings: pl.DataFrame | None) -> Fact | None:
    """Sums the GPUs' power limits: of each, the one that held for most of the time."""
    if readings is None or "power_limit_w" not in readings.columns:
        return None
    limits = readings.group_by("gpu").agg(pl.col("power_limit_w").cast(pl.Float64).median())["power_limit_w"]
    return None if limits.is_empty() or limits.null_count() else _of_table(float(limits.sum()))


def _peak(model: GpuModel | None, count: Fact | None, descriptions: Iterable[dict[str, Any]]) -> Fact | None:
    """The peak of all GPUs. Simulated and replayed GPUs have none: the training did not run on them."""
    if _is_simulated(descriptions) or model is None or model.peak_flops is None or count is None:
        return None
    return Fact(model.peak_flops * float(count.value), f"{count.value} x the dense bf16 peak of {model.name}")


def trained_on(count: Fact | None, descriptions: Iterable[dict[str, Any]]) -> int | None:
    """The number of GPUs that hold ranks of the training; None if it is unknown, as beside simulated GPUs."""
    return None if count is None or _is_simulated(descriptions) else int(count.value)


def _is_simulated(descriptions: Iterable[dict[str, Any]]) -> bool:
    return any(facts.get("simulated") for facts in descriptions)


def _peak_by_mfu(log: PrintedFigures, flops: Fact | None, rate_scale: float) -> Fact | None:
    """Computes the peak that the log divides by when it prints its MFU."""
    if flops is None or not {"tok_per_sec", "mfu"} <= set(log.records.columns):
        return None
    rows = log.records.select("tok_per_sec", "mfu").drop_nulls()
    rows = rows.filter(rows["mfu"] > 0)
    if rows.is_empty():
        return None
    peaks = float(flops.value) * rate_scale * rows["tok_per_sec"] / (rows["mfu"] / 100)
    return Fact(float(peaks.median()), "computed from the MFU that the log prints")  # type: ignore[arg-type]


def _count_by_peak(peak: Fact | None, model: GpuModel | None, most: int) -> Fact | None:
    """Returns how many GPUs have this peak together, if every possible GPU model gives the same number."""
    if peak is None:
        return None
    counts = {
        n
        for gpu in ([model] if model else gpus())
        if gpu.peak_flops
        for n in POWERS
        if n <= most and abs(n * gpu.peak_flops / peak.value - 1) < AGREE
    }
    return (
        Fact(counts.pop(), "computed from the peak that the printed MFU implies")
        if len(counts) == 1
        else None
    )
