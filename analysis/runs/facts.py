"""What a run is: its size, its batch, its GPUs, each figure with where it comes from; None where nothing tells it.

In go what the log printed (its configuration and its rows) and what the recorder saw of the machine; what neither
says is worked out from the other figures where they determine it, such as the GPUs from the MFU that was printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gputel.trainer.gpus import GpuModel, find_gpu, gpus

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

PRINTED = "printed"
RECORDED = "recorded"
FLOPS_PER_PARAMETER = 6  # and token, forward and backward
POWERS = tuple(2**n for n in range(13))  # how many GPUs people train on
AGREE = 0.002  # of a figure that was printed with three digits and more


@dataclass(frozen=True)
class Fact:
    """A figure and its origin: `printed`, `recorded`, or the sentence that says how it was reckoned."""

    value: Any
    origin: str


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
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: fact for name, fact in found.items() if fact is not None}


def estimated_flops(parameters: float) -> float:
    """FLOPs a token by the common estimate, which leaves attention out: the shape may not be known."""
    return FLOPS_PER_PARAMETER * parameters


def run_facts(log: Log, descriptions: Sequence[dict[str, Any]] = ()) -> Facts:
    """`descriptions` are those of the run folder's segments, where the run was recorded."""
    config = log.config
    recorded = _gpus(descriptions)
    batch = _printed(config, "batch_tokens") or _batch(log)
    flops = _printed(config, "flops_per_token")
    name = _recorded(next((gpu["name"] for gpu in recorded), None)) or _printed(config, "gpu")
    known = find_gpu(str(name.value)) if name else None
    seq = _printed(config, "seq")
    count = _recorded(len(recorded) or None) or _world(config)
    peak = _peak(known, count) or _peak_by_mfu(log, flops)
    return Facts(
        depth=_printed(config, "depth"),
        dim=_printed(config, "dim"),
        vocab=_printed(config, "vocab_size"),
        seq=seq,
        parameters=_printed(config, "parameters"),
        flops_per_token=flops,
        tokens_per_step=batch,
        gpu=name,
        gpus=count or _count_by_peak(peak, known, _sequences(batch, seq)),
        peak_flops=peak,
        power_limit_w=_limits(recorded),
    )


def _printed(config: dict[str, float | str], name: str) -> Fact | None:
    return Fact(config[name], PRINTED) if name in config else None


def _world(config: dict[str, float | str]) -> Fact | None:
    size = config.get("world_size")
    return Fact(int(size), PRINTED) if isinstance(size, (int, float)) else None


def _sequences(batch: Fact | None, seq: Fact | None) -> int:
    """How many a step has: a GPU has one at least. As many as anybody trains on, where that is not known."""
    return int(batch.value // seq.value) if batch and seq else POWERS[-1]


def _recorded(value: Any) -> Fact | None:
    return None if value is None else Fact(value, RECORDED)


def _gpus(descriptions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every GPU once, however many segments have seen it."""
    seen: dict[object, dict[str, Any]] = {}
    for facts in descriptions:
        for gpu in facts.get("gpus") or []:
            seen[gpu.get("uuid") or (facts.get("node_rank"), gpu["gpu"])] = gpu
    return list(seen.values())


def _limits(recorded: Iterable[dict[str, Any]]) -> Fact | None:
    limits = [(gpu.get("limits") or {}).get("power_w") for gpu in recorded]
    return _recorded(sum(limits)) if limits and all(limit is not None for limit in limits) else None


def _batch(log: Log) -> Fact | None:
    """Tokens a step: what the count of tokens grew by, else throughput times the time of a step."""
    import polars as pl

    steps = log.records
    if {"tokens", "step"} <= set(steps.columns):
        grown = steps.select(pl.col("tokens").diff() / pl.col("step").diff())["tokens"]
        typical = grown.filter(grown.is_finite() & (grown > 0)).median()
        if typical is not None:
            return Fact(round(float(typical)), "reckoned from the tokens printed and the steps")
    if {"tok_per_sec", "dt_ms"} <= set(steps.columns):
        typical = (steps["tok_per_sec"] * steps["dt_ms"] / 1000).median()
        if typical is not None:
            return Fact(round(float(typical)), "reckoned as throughput x time of a step")  # type: ignore[arg-type]
    return None


def _peak(known: GpuModel | None, count: Fact | None) -> Fact | None:
    if known is None or known.peak_flops is None or count is None:
        return None
    return Fact(known.peak_flops * float(count.value), f"{count.value} x the dense bf16 peak of {known.name}")


def _peak_by_mfu(log: Log, flops: Fact | None) -> Fact | None:
    """What the log itself divides by when it prints its MFU."""
    if flops is None or not {"tok_per_sec", "mfu"} <= set(log.records.columns):
        return None
    rows = log.records.select("tok_per_sec", "mfu").drop_nulls()
    rows = rows.filter(rows["mfu"] > 0)
    if rows.is_empty():
        return None
    peaks = float(flops.value) * rows["tok_per_sec"] / (rows["mfu"] / 100)
    return Fact(float(peaks.median()), "reckoned from the MFU that the log prints")  # type: ignore[arg-type]


def _count_by_peak(peak: Fact | None, known: GpuModel | None, most: int) -> Fact | None:
    """How many GPUs have this peak together, if every GPU that may be meant gives the same number."""
    if peak is None:
        return None
    counts = {
        n
        for gpu in ([known] if known else gpus())
        if gpu.peak_flops
        for n in POWERS
        if n <= most and abs(n * gpu.peak_flops / peak.value - 1) < AGREE
    }
    return Fact(counts.pop(), "reckoned from the peak that the log's MFU means") if len(counts) == 1 else None
