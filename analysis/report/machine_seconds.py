"""A recording's tables around the GPUs -> what job and machine did in its slow seconds, and in the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from gputel.analysis import text
from gputel.analysis.runs import inside_steps
from gputel.telemetry.host.columns import NET
from gputel.telemetry.host.process_seconds import RANK

if TYPE_CHECKING:
    from gputel.analysis.runs.recording import Recording

SLOW = 1.15  # times the median step
SHARE = 0.05  # share of the training that was slow
FEWEST_S = 5  # slow seconds, below which nothing is said
MOST_S = 3600  # seconds that are looked at, evenly over all
RECENT_S, BEFORE_S = 60, 600  # of an alarm: the longest slow stretch, and how much before it is compared
COMPUTES = 0.2  # of the CPU of the most active process
MOST_LOOK_S = 4  # between two looks at the processes
NO_DATA = 0.01  # of the most that an interface sends in a tick
UNINTERRUPTIBLE, ENDED = "D", "X"
REMOTE = (
    r"^(?:request_wait_answer|fuse_|rpc_|nfs|__rpc|ceph|cifs|smb|wait_for_response|lustre|ptlrpc|p9_|v9fs)"
)
"""Wait channels of file systems behind a network or another program; their readers sleep, and use no disk."""

Figures = dict[str, Any]
Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Seconds:
    """The slow seconds of a job, and the others to compare with, empty where it was always slow; `why` says so.

    `step_s` is how long a slow step takes; None if that is not known.
    """

    slow: pl.Series
    usual: pl.Series
    why: str = ""
    step_s: float | None = None


@dataclass(frozen=True)
class MachineTables:
    """Tables of a recording, a row a second; a process without a row waits where it waited before."""

    host: pl.DataFrame
    cores: int
    disks: pl.DataFrame
    networks: pl.DataFrame
    cgroups: pl.DataFrame
    processes: pl.DataFrame
    trainers: Sequence[str] = field(default=())
    inside: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=inside_steps.SCHEMA))
    """Steps of the job's processes, as `--inside steps` saw them."""
    network_ticks: pl.LazyFrame | None = None


def open_machine(
    recording: Recording, node: str | None = None, rank: int | None = None
) -> MachineTables | None:
    """Returns the tables of a node, with the processes of one rank if it is named; None if nothing was recorded."""

    def of_node(frame: Frame) -> Frame:
        has_node = node is not None and "node" in frame.collect_schema()
        return frame.filter(pl.col("node") == node) if has_node else frame

    def of_rank(frame: pl.DataFrame) -> pl.DataFrame:
        return of_node(frame) if rank is None else of_node(frame).filter(pl.col("rank") == rank)

    host, processes = of_node(recording.host), of_rank(recording.processes)
    if host.is_empty() or processes.is_empty():
        return None
    ranks = processes.filter(pl.col("role") == RANK)["process"].unique(maintain_order=True).to_list()
    cores = of_node(recording.cores)["core"].n_unique()
    return MachineTables(
        host,
        max(cores, 1),
        of_node(recording.disks),
        of_node(recording.networks),
        of_node(recording.cgroups),
        processes,
        ranks or first_active(processes),
        of_rank(recording.inside),
        of_node(recording.scan(NET)),
    )


def slow_seconds(steps: pl.DataFrame, clock_error_s: float) -> Seconds | None:
    """Returns the seconds in which steps were slow, on average over the second; None of too few.

    Those that are less than half as much slower as most of them belong to neither: they have causes of their own.
    """
    median: Any = steps["duration_s"].median()
    if not median:
        return None
    ended = steps.with_columns(time=_second("end"))
    by_second = ended.group_by("time").agg(
        pl.col("duration_s").mean(), (pl.col("duration_s") * pl.col("steps")).sum().alias("all")
    )
    longer = pl.col("duration_s") > max(SLOW * median, median + 2 * clock_error_s)
    times = by_second.sort("time").with_columns(longer.alias("slow"))
    slowly: Any = times.filter("slow")["duration_s"].median()
    if slowly is None:
        return None
    as_slow = pl.col("slow") & (pl.col("duration_s") - median >= (slowly - median) / 2)
    lasted = float(times.filter(as_slow)["all"].sum())
    if lasted < max(FEWEST_S, SHARE * float(times["all"].sum())):
        return None
    why = (
        f"steps took {text.duration(slowly)} for {text.duration(lasted)}, {slowly / median:.2g} times the median "
        f"of {text.duration(median)}"
    )
    slow, usual = (
        ended.join(times.filter(flag), on="time", how="semi") for flag in (as_slow, ~pl.col("slow"))
    )
    return Seconds(covered(slow), covered(usual), why, slowly)


def covered(steps: pl.DataFrame) -> pl.Series:
    """Returns every second that one of the steps lasts for."""
    seconds = pl.datetime_ranges(_second("start"), _second("end"), "1s").alias("time")
    times: pl.Series = steps.select(seconds).explode("time")["time"].unique().sort()
    return times


def _second(name: str) -> pl.Expr:
    return pl.col(name).dt.truncate("1s").dt.cast_time_unit("ms")


def recent(machine: MachineTables, lasts_s: float) -> Seconds:
    """Returns the last seconds of a run that goes on, and the ten minutes before them."""
    times = machine.host["time"].unique().sort()
    border = times[-1] - timedelta(seconds=min(max(lasts_s, FEWEST_S), RECENT_S))
    began = border - timedelta(seconds=BEFORE_S)
    return Seconds(times.filter(times > border), times.filter((times > began) & (times <= border)))


def figures(machine: MachineTables, seconds: pl.Series, step_s: float | None = None) -> Figures:
    """Returns means over these seconds, of the job's processes and of the machine; `step_s` is that of a step."""

    def at(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(pl.col("time").is_in(seconds.implode()))

    seconds = machine.host.filter(pl.col("time").is_in(seconds.implode()))["time"].unique().sort()
    seconds = seconds.gather_every(max(1, len(seconds) // MOST_S))
    rows, host, count = _each_second(machine.processes, seconds), at(machine.host), max(len(seconds), 1)
    states = _waits(machine.processes, seconds)
    trainers = rows.filter(pl.col("process").is_in(machine.trainers))
    workers = rows.filter(~pl.col("process").is_in(machine.trainers))
    waits = states.filter(pl.col("state") == UNINTERRUPTIBLE)
    remote = states.filter(pl.col("wait_channel").str.contains(REMOTE))
    job = _sum(rows, "cpu") / count
    busy = machine.cores * (_mean(host, "cpu_busy") or 0.0)
    return {
        "step_s": step_s,
        "main_wait": _sum(trainers, "main_wait") / count / max(len(machine.trainers), 1),
        "trainer_cpu": _sum(trainers, "cpu") / count,
        "trainers": len(machine.trainers),
        "worker_busy": _worker_share(workers, count),
        "blocked": 100 * waits.height / count,
        "channel": _commonest(waits),
        "remote": 100 * remote.height / count,
        "remote_channel": _commonest(remote),
        "read_mib_s": _sum(rows, "storage_read_mib_s") / count,
        "faults": _sum(rows, "major_faults_s") / count,
        "job_cpu": job,
        "others_cpu": max(0.0, busy - job),
        "steal": machine.cores * (_mean(host, "cpu_steal") or 0.0),
        "all_cpu": 100.0 * machine.cores,
        "swap_in": _mean(host, "swap_in_mib_s") or 0.0,
        "throttled": _highest(at(machine.cgroups), "cgroup", "throttled"),
        "throttled_ms": _highest(at(machine.cgroups), "cgroup", "throttled_ms_s"),
        "cpu_limit": _least(at(machine.cgroups), "cpu_limit_cores"),
        "disk_busy": _highest(at(machine.disks), "disk", "busy"),
        "tx_mib_s": _highest(at(machine.networks), "net", "tx_mib_s"),
        "tick_mib": _sent_in_a_tick(machine.network_ticks, seconds) if len(machine.trainers) > 1 else None,
        "retransmits": _mean(host, "tcp_retransmits_s") or 0.0,
        "collecting": _collecting(machine.inside, seconds),
    }  # fmt: skip


def _each_second(processes: pl.DataFrame, seconds: pl.Series) -> pl.DataFrame:
    """Returns the rows of each second: a look at the processes tells of all seconds since the one before.

    A recorder for which looks are expensive takes one in two seconds.
    """
    looks = processes.select(look=pl.col("time")).unique().sort("look")
    grid = pl.DataFrame({"time": seconds})
    covered_by = grid.join_asof(
        looks, left_on="time", right_on="look", strategy="forward", tolerance=f"{MOST_LOOK_S}s"
    )
    return covered_by.join(processes.rename({"time": "look"}), on="look")


def _waits(processes: pl.DataFrame, seconds: pl.Series) -> pl.DataFrame:
    """Returns the state and wait channel of each process that lives, in each of these seconds."""
    lives = processes.group_by("process", maintain_order=True).agg(first=pl.col("time").min())
    grid = pl.DataFrame({"time": seconds}).join(lives, how="cross").filter(pl.col("time") >= pl.col("first"))
    rows = processes.select("time", "process", "state", "wait_channel").sort("time")
    states = grid.sort("time").join_asof(rows, on="time", by="process", check_sortedness=False)
    return states.filter(pl.col("state") != ENDED)


def _sent_in_a_tick(ticks: pl.LazyFrame | None, seconds: pl.Series) -> float | None:
    """Returns the MiB that the interface with the most sends in a tick: at most, but for a fifth of its ticks.

    A fifth, since the first and the last of these seconds are only partly slow. Ticks without data do not count.
    """
    if ticks is None:
        return None
    grown = pl.col("tx_mib_total").diff().over(NET, order_by="time")
    rows = ticks.select(pl.col("time").alias("at"), _second("time"), NET, grown.alias("mib"))
    seen = rows.filter(pl.col("time").is_in(seconds.implode()) & (pl.col("mib") >= 0)).collect()
    sends = pl.col("mib") >= NO_DATA * pl.col("mib").max()
    sent = seen.group_by(NET).agg(pl.col("mib").sum().alias("all"), pl.col("mib").filter(sends).quantile(0.8))
    return None if sent.is_empty() else float(sent.sort("all")["mib"][-1])


def first_active(processes: pl.DataFrame) -> list[str]:
    """Names the first process that computes, where none says that it is a rank: what it started came later.

    A worker may use more of the CPU than the training itself, and a launcher before it uses hardly any.
    """
    used = processes.group_by("process").agg(pl.col("cpu").sum(), pl.col("time").min())
    started = pl.col("process").str.extract(r"\.(\d+)$").cast(pl.Int64)
    computes = used.filter(pl.col("cpu") >= COMPUTES * pl.col("cpu").max())
    return computes.sort("time", started, "process")["process"].head(1).to_list()


def _collecting(inside: pl.DataFrame, seconds: pl.Series) -> float:
    """Returns the share of the steps that ended in these seconds that garbage collections took, in %."""
    ended = _second("time").is_in(seconds.dt.cast_time_unit("ms").implode())
    steps = inside.filter(pl.col("step_ms").is_not_null() & ended)
    lasted = _sum(steps, "step_ms")
    return 100 * _sum(steps, "gc_ms") / lasted if lasted else 0.0


def _sum(frame: pl.DataFrame, name: str) -> float:
    return float(frame[name].sum() or 0.0)


def _mean(frame: pl.DataFrame, name: str) -> float | None:
    value: Any = frame[name].mean()
    return None if value is None else float(value)


def _most(frame: pl.DataFrame, name: str) -> float:
    value: Any = frame[name].max()
    return float(value or 0.0)


def _least(frame: pl.DataFrame, name: str) -> float | None:
    value: Any = frame[name].min()
    return None if value is None else float(value)


def _highest(frame: pl.DataFrame, subject: str, name: str) -> float:
    """Returns the mean of the subject with the highest one."""
    return _most(frame.group_by(subject).agg(pl.col(name).fill_null(0.0).mean()), name)


def _worker_share(workers: pl.DataFrame, seconds: int) -> float:
    """Returns the share of time in which the busiest worker ran or waited for a core."""
    shares = workers.group_by("process").agg((pl.col("cpu").sum() + pl.col("main_wait").sum()) / seconds)
    return _most(shares, "cpu")


def _commonest(rows: pl.DataFrame) -> str | None:
    counts = rows["wait_channel"].drop_nulls().value_counts(sort=True)
    return None if counts.is_empty() else str(counts["wait_channel"][0])
