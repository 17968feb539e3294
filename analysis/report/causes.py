"""Slow steps and the machine around the GPUs -> why they were slow; None if the cause was not seen.

A cause needs, and cites, three things: slow steps or waits for data, the job's own waiting in those seconds, and
the counter that names what it waited for. Load, iowait, steal, limits that were hit and the pressure of the whole
machine name no cause: each of them is high beside jobs that wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.report.machine_seconds import FEWEST_S, Figures, MachineTables, Seconds, figures

STOPPED, STOPPED_MS = 50.0, 100.0  # % of periods, ms a second
QUEUED, OTHERS = 20.0, 50.0  # % of the time a main thread waits for a core; % of a core that others use
BLOCKED = 50.0  # % of the time a process waits for storage, all of the job added up
SATURATED = 80.0  # % of the time in which a disk had a request
SWAPPED_MIB, FAULTS = 1.0, 20.0  # per second
BUSY_WORKER = 80.0  # % of the time in which a worker runs or waits for a core
FLAT, SENT_MIB, IDLE_RANK = 0.8, 1.0, 0.5  # share of what a step sends; per second; share of the usual CPU
COLLECTING = 10.0  # % of a step in garbage collections
TWICE = 2.0  # a figure has risen from this many times its usual value on


@dataclass(frozen=True)
class Cause:
    answer: str
    evidence: tuple[str, ...] = ()


def cause(machine: MachineTables, seconds: Seconds) -> Cause | None:
    """Returns the first cause for which everything is seen."""
    slow = figures(machine, seconds.slow, seconds.step_s)
    usual = figures(machine, seconds.usual) if len(seconds.usual) >= FEWEST_S else {}
    named = named_cause(slow, usual)
    return named and Cause(named.answer, tuple(filter(None, (seconds.why, *named.evidence))))


def named_cause(slow: Figures, usual: Figures) -> Cause | None:
    """Returns the first cause whose rule holds for figures of slow seconds and of the others, if there are any."""
    for answer, rule in RULES.items():
        evidence = rule(slow, usual)
        if evidence:
            return Cause(answer, tuple(evidence))
    return None


def killed(machine: MachineTables, last_step: Any) -> Cause | None:
    """Returns the kill for memory that ended a run: in the seconds around its last step, or after it."""
    kills = machine.cgroups.filter(
        (pl.col("oom_kills") > 0) & (pl.col("time") >= last_step.dt.offset_by("-10s"))
    )
    if kills.is_empty():
        return None
    row = kills.sort("time").row(0, named=True)
    limit = row["mem_limit_mib"]
    allowed = "" if limit is None else f", which may use {text.mebibytes(limit)}"
    return Cause(
        "killed by its limit of memory",
        (
            f"at {row['time']:%H:%M:%S} the kernel killed {row['oom_kills']:.0f} of its processes in the control "
            f"group {row['cgroup']}{allowed}; the last step ended at {last_step[0]:%H:%M:%S}",
        ),
    )


def _rose(name: str, least: float, slow: Figures, usual: Figures) -> bool:
    """Whether a figure is high in the slow seconds, and was not in the others."""
    before = usual.get(name, 0.0)
    return bool(slow[name] >= least and (slow[name] >= TWICE * before or slow[name] - before >= least))


def _was(name: str, usual: Figures, form: str = "{:.0f}") -> str:
    return f" ({form.format(usual[name])} otherwise)" if usual else ""


def _throttled(slow: Figures, usual: Figures) -> list[str]:
    if not (slow["throttled"] >= STOPPED and _rose("throttled_ms", STOPPED_MS, slow, usual)):
        return []
    limit = "its control group" if slow["cpu_limit"] is None else f"its limit of {slow['cpu_limit']:g} cores"
    return [
        f"its tasks were stopped for {slow['throttled_ms']:,.0f} ms a second{_was('throttled_ms', usual)}",
        f"{limit} stopped them in {slow['throttled']:.0f} % of periods{_was('throttled', usual)}",
    ]


def _swapping(slow: Figures, usual: Figures) -> list[str]:
    if not (_rose("faults", FAULTS, slow, usual) and _rose("swap_in", SWAPPED_MIB, slow, usual)):
        return []
    return [
        f"its processes waited for {slow['faults']:,.0f} pages a second that were not in memory"
        f"{_was('faults', usual)}",
        f"{slow['swap_in']:.1f} MiB a second came from swap{_was('swap_in', usual, '{:.1f}')}",
    ]


def _collecting(slow: Figures, usual: Figures) -> list[str]:
    """Blames Python's garbage collector, whose times hooks in the training saw."""
    if not _rose("collecting", COLLECTING, slow, usual):
        return []
    return [
        f"Python collected garbage for {slow['collecting']:.0f} % of a step{_was('collecting', usual)}, "
        "as seen from inside"
    ]


def _remote(slow: Figures, usual: Figures) -> list[str]:
    if not _rose("remote", BLOCKED, slow, usual):
        return []
    return [
        f"its processes waited in {slow['remote_channel']} for {slow['remote']:.0f} % of the time, added up"
        f"{_was('remote', usual)}: a file system behind a network or another program",
    ]


def _blocked(slow: Figures, usual: Figures) -> list[str]:
    if not (_rose("blocked", BLOCKED, slow, usual) and slow["read_mib_s"] > 0):
        return []
    return [
        f"its processes waited for storage for {slow['blocked']:.0f} % of the time, added up"
        f"{_was('blocked', usual)}" + (f", in {slow['channel']}" if slow["channel"] else ""),
        f"they read {slow['read_mib_s']:.1f} MiB/s{_was('read_mib_s', usual, '{:.1f}')}, and the busiest disk had "
        f"requests for {slow['disk_busy']:.0f} % of the time",
    ]


def _saturated(slow: Figures, usual: Figures) -> list[str]:
    return _blocked(slow, usual) if slow["disk_busy"] >= SATURATED else []


def _starved(slow: Figures, usual: Figures) -> list[str]:
    """Blames other programs; where the machine was full before, they need not have used more."""
    others = slow["others_cpu"] >= max(OTHERS, slow["job_cpu"], usual.get("others_cpu", 0.0))
    if not (others and _rose("main_wait", QUEUED, slow, usual)):
        return []
    return [
        _queue(slow, usual),
        f"other programs used {slow['others_cpu']:.0f} of {slow['all_cpu']:.0f} % of all cores"
        f"{_was('others_cpu', usual)}",
    ]


def _stolen(slow: Figures, usual: Figures) -> list[str]:
    if not (_rose("main_wait", QUEUED, slow, usual) and _rose("steal", OTHERS, slow, usual)):
        return []
    return [
        _queue(slow, usual),
        f"other virtual machines took {slow['steal']:.0f} % of a core{_was('steal', usual)}",
    ]


def _crowded(slow: Figures, usual: Figures) -> list[str]:
    """Blames the job itself: its processes beside the training want more cores than there are."""
    own = slow["job_cpu"] - slow["trainer_cpu"]
    before = usual["job_cpu"] - usual["trainer_cpu"] if usual else 0.0
    full = slow["job_cpu"] + slow["others_cpu"] >= BUSY_WORKER / 100 * slow["all_cpu"]
    grew = own >= before + OTHERS or slow["job_cpu"] >= BUSY_WORKER / 100 * slow["all_cpu"]
    if not (full and grew and own >= slow["others_cpu"] and _rose("main_wait", QUEUED, slow, usual)):
        return []
    return [
        _queue(slow, usual),
        f"its own processes used {slow['job_cpu']:.0f} of {slow['all_cpu']:.0f} % of all cores"
        f"{_was('job_cpu', usual)}",
    ]


def _queue(slow: Figures, usual: Figures) -> str:
    return f"its main thread waited for a core for {slow['main_wait']:.0f} % of the time{_was('main_wait', usual)}"


def _slow_workers(slow: Figures, usual: Figures) -> list[str]:
    """Blames workers that always run, or wait for a core, beside a trainer that does not."""
    idle = slow["trainer_cpu"] < BUSY_WORKER * slow["trainers"]
    if not (slow["worker_busy"] >= BUSY_WORKER and idle and slow["blocked"] < BLOCKED):
        return []
    if usual and slow["worker_busy"] < usual["worker_busy"] + QUEUED:
        return []
    return [
        f"a worker ran, or waited for a core, for {slow['worker_busy']:.0f} % of the time"
        f"{_was('worker_busy', usual)}",
        f"the training itself used {slow['trainer_cpu']:.0f} % of a core{_was('trainer_cpu', usual)}",
    ]


def _network(slow: Figures, usual: Figures) -> list[str]:
    """Blames the network: the ranks' CPU falls, and what a step sends no longer fits into a tick.

    Steps that are slow for another reason send as much as ever in a tick, and then nothing.
    """
    if not usual or slow["trainers"] < 2 or slow["trainer_cpu"] > IDLE_RANK * usual["trainer_cpu"]:
        return []
    now, before, step_s = slow["tick_mib"], usual["tick_mib"], slow["step_s"]
    if now is None or before is None or step_s is None:
        return []
    of_step = slow["tx_mib_s"] * step_s
    if not (slow["tx_mib_s"] >= SENT_MIB and now < FLAT * of_step and now < FLAT * before >= FLAT * of_step):
        return []
    return [
        f"the ranks used {slow['trainer_cpu']:.0f} % of a core{_was('trainer_cpu', usual)}",
        f"a step sent {of_step:.1f} MiB; in a tenth of a second an interface sent {now:.1f} at most"
        f"{_was('tick_mib', usual, '{:.1f}')}",
        f"{slow['retransmits']:,.0f} TCP segments a second were sent again{_was('retransmits', usual)}",
    ]


RULES: dict[str, Callable[[Figures, Figures], list[str]]] = {
    "throttled by its own limit of CPU": _throttled,
    "swapping": _swapping,
    "garbage collection": _collecting,
    "input: remote file system": _remote,
    "input: saturated disk": _saturated,
    "input: slow storage": _blocked,
    "starved by other programs": _starved,
    "starved by other virtual machines": _stolen,
    "starved by its own processes": _crowded,
    "input: workers lack CPU": _slow_workers,
    "network": _network,
}
"""The causes, those first that explain others: a job that its limit stops also waits for a core."""
