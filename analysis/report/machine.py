"""A recording -> what the machine around the GPUs did, over all of it: CPU, pressure, memory, disks, networks.

Means and maxima are of whole seconds; what a disk or an interface moved is by the first and the last tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import document
from gputel.telemetry.file_names import natural_order
from gputel.telemetry.host.columns import DISK, NET

if TYPE_CHECKING:
    from gputel.analysis.runs.recording import Recording


ENDED = "X"


@dataclass(frozen=True)
class MachineSummary:
    """The machine of one node. Shares are in %; null was not measured."""

    node: str | None
    seconds: int
    """With a row: how long it was recorded."""
    cores: int | None
    cpu_busy_mean: float | None
    cpu_busy_max: float | None
    cpu_steal_mean: float | None
    psi_cpu_some_mean: float | None
    psi_io_some_mean: float | None
    psi_memory_some_mean: float | None
    mem_total_mib: float | None
    mem_used_max_mib: float | None
    swap_used_max_mib: float | None
    oom_kills: float | None
    disks: Sequence[Mapping[str, Any]]
    """A row each: `disk`, `read_mib`, `write_mib`, `busy_mean` and `busy_max`."""
    networks: Sequence[Mapping[str, Any]]
    """A row each: `net`, `rx_mib`, `tx_mib`, and the mean and highest rates of a second."""
    cgroups: Sequence[Mapping[str, Any]]
    """A row per control group: `cgroup`, `cpu_limit_cores`, `throttled_mean`, `mem_limit_mib`, `mem_used_mib_max`,
    and how often it reached the limit of memory, `mem_limit_hits`."""
    processes: Sequence[Mapping[str, Any]]
    """A row per process of the command, and others on its GPUs, most CPU first: `process`, `name`, `rank`, `role`,
    `seconds`, `cpu_mean`, `cpu_max`, `main_wait_mean`, `rss_max_mib`, `gpus`, `gpu_mem_max_mib`,
    `gpu_sm_mean`."""

    def as_json(self) -> dict[str, Any]:
        return dict(document.as_json(vars(self)))


@dataclass(frozen=True)
class MachineSampling:
    """How the machine was read, from the last segment."""

    cpu_share: float | None
    """Share of a core, for all reads together."""
    lowered: Sequence[str]
    """Expensive sources, with the lowered rates at which they were read in the end."""
    unread: Sequence[str]
    """Sources of which something is null, and why."""

    def as_json(self) -> dict[str, Any]:
        return dict(document.as_json(vars(self)))


def machine_sampling(recording: Recording) -> MachineSampling | None:
    """None where the machine was not recorded."""
    described = next(
        (facts["host_sampling"] for facts in reversed(recording.descriptions) if facts.get("host_sampling")),
        None,
    )
    if described is None:
        return None
    sources = described.get("sources")
    known = (
        {str(name): source for name, source in sources.items() if isinstance(source, dict)}
        if isinstance(sources, dict)
        else {}
    )
    share = described.get("cpu_share")
    return MachineSampling(
        cpu_share=float(share) if isinstance(share, (int, float)) else None,
        lowered=[
            f"{name} at {source['hz']:g} Hz"
            for name, source in known.items()
            if isinstance(source.get("hz"), (int, float)) and source.get("lowered") is True
        ],
        unread=[f"{name}: {source['fault']}" for name, source in known.items() if source.get("fault")],
    )


def machine_summaries(recording: Recording) -> list[MachineSummary]:
    """One for each node; none where the machine was not recorded."""
    host = recording.host
    if host.is_empty():
        return []
    nodes = host["node"].unique(maintain_order=True).to_list() if "node" in host.columns else [None]
    return [_summary(recording, node) for node in nodes]


def _summary(recording: Recording, node: str | None) -> MachineSummary:
    host, cores = _of_node(recording.host, node), _of_node(recording.cores, node)
    figures = host.select(
        pl.col("cpu_busy", "cpu_steal", "psi_cpu_some", "psi_io_some", "psi_memory_some")
        .mean()
        .name.suffix("_mean"),
        pl.col("cpu_busy").max().alias("cpu_busy_max"),
        pl.col("mem_total_mib").max(),
        pl.col("mem_used_mib").max().alias("mem_used_max_mib"),
        pl.col("swap_used_mib").max().alias("swap_used_max_mib"),
        pl.when(pl.col("oom_kills").is_not_null().any()).then(pl.col("oom_kills").sum()).alias("oom_kills"),
    ).row(0, named=True)
    disks = _subjects(recording, DISK, node, ("read_mib", "write_mib"), _of_node(recording.disks, node))
    networks = _subjects(recording, NET, node, ("rx_mib", "tx_mib"), _of_node(recording.networks, node))
    return MachineSummary(
        node=node,
        seconds=host["time"].n_unique(),
        cores=cores["core"].n_unique() or None,
        **figures,
        disks=disks,
        networks=networks,
        cgroups=_groups(_of_node(recording.cgroups, node)),
        processes=_processes(_of_node(recording.processes, node), _of_node(recording.segments, node)),
    )


def _groups(rows: pl.DataFrame) -> list[dict[str, Any]]:
    by_group = rows.group_by("cgroup", maintain_order=True).agg(
        pl.col("cpu_limit_cores", "mem_limit_mib").drop_nulls().last(),
        pl.col("throttled").mean().alias("throttled_mean"),
        pl.col("mem_used_mib").max().alias("mem_used_mib_max"),
        pl.col("mem_limit_hits_s").sum().alias("mem_limit_hits"),
    )
    return by_group.to_dicts()


def _processes(rows: pl.DataFrame, segments: pl.DataFrame) -> list[dict[str, Any]]:
    """Means are over the time from a process's first row to its last but its end: without a row it rested.

    Each has the `attempt` in which it was first seen, if there are several.
    """
    alive = pl.col("time").filter(pl.col("state") != ENDED)
    lived_s = (alive.max() - pl.col("time").min()).dt.total_seconds().alias("seconds")
    until_next = pl.col("time").shift(-1).over("process") - pl.col("time")
    held_s = pl.when(pl.col("gpu_sm").is_not_null()).then(until_next.dt.total_seconds().fill_null(1))
    by_process = (
        rows.with_columns(held_s.alias("_held_s"))
        .group_by("process", maintain_order=True)
        .agg(
            pl.col("name", "rank", "role").last(),
            lived_s,
            pl.col("time").min().alias("_began"),
            pl.when(pl.col("cpu").count() > 0).then(pl.col("cpu").sum()).alias("_cpu"),
            pl.col("cpu").max().alias("cpu_max"),
            pl.col("main_wait").sum().alias("_waited"),
            pl.col("rss_mib").max().alias("rss_max_mib"),
            pl.col("gpu")
            .drop_nulls()
            .unique(maintain_order=True)
            .str.split(",")
            .list.explode()
            .alias("gpus"),
            pl.col("gpu_mem_mib").max().alias("gpu_mem_max_mib"),
            (pl.col("gpu_sm") * pl.col("_held_s")).sum().alias("_sm"),
            pl.col("_held_s").sum(),
        )
    )
    lived = pl.when(pl.col("seconds") > 0).then(pl.col("seconds"))
    means = (
        (pl.col("_cpu") / lived).alias("cpu_mean"),
        (pl.col("_waited") / lived).alias("main_wait_mean"),
        pl.when(pl.col("_held_s") > 0).then(pl.col("_sm") / pl.col("_held_s")).alias("gpu_sm_mean"),
        pl.col("gpus").map_elements(_named_once, pl.String),
    )
    whole = _with_attempt(by_process.with_columns(means), segments)
    whole = whole.drop("_cpu", "_waited", "_sm", "_held_s", "_began")
    return whole.sort("cpu_mean", descending=True, nulls_last=True, maintain_order=True).to_dicts()


def _with_attempt(processes: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The last attempt that had begun by the second in which a process was first seen; null where there is one."""
    if len(segments) < 2:
        return processes.with_columns(attempt=pl.lit(None, pl.Int64))
    attempt = pl.lit(segments["attempt"].min(), pl.Int64)
    for number, started in segments.sort("started").select("attempt", "started").iter_rows():
        begun = pl.col("_began").cast(pl.Datetime("ns", "UTC")) + pl.duration(seconds=1) > started
        attempt = pl.when(begun).then(pl.lit(number, pl.Int64)).otherwise(attempt)
    return processes.with_columns(attempt=attempt)


def _named_once(gpus: pl.Series) -> str | None:
    """Each GPU of `0` and `0,1`, in their order; None without any."""
    return ", ".join(sorted({name for names in gpus for name in names.split(",")}, key=natural_order)) or None


def _subjects(
    recording: Recording, table: str, node: str | None, moved: Sequence[str], seconds: pl.DataFrame
) -> list[dict[str, Any]]:
    """What each disk or interface moved, and its mean and highest rates; counters that fell count from there."""
    grew = [pl.col(f"{name}_total").drop_nulls().diff().clip(0).sum().alias(name) for name in moved]
    totals = _of_node(recording.scan(table).collect(), node).group_by(table, maintain_order=True).agg(grew)
    rates = seconds.group_by(table, maintain_order=True).agg(
        pl.exclude("time", "node", table).mean().name.suffix("_mean"),
        pl.exclude("time", "node", table).max().name.suffix("_max"),
    )
    return totals.join(rates, on=table, how="left").sort(table).to_dicts()


def _of_node(frame: pl.DataFrame, node: str | None) -> pl.DataFrame:
    return frame if node is None else frame.filter(pl.col("node") == node)
