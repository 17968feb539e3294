"""The machine around the GPUs, as facts of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputel.analysis import text
from gputel.analysis.document import FactList
from gputel.analysis.report.machine import MachineSummary
from gputel.telemetry.host.gpu_users import OTHER, UNSEEN

FEW = 4
"""Disks, interfaces and processes that are named; the rest are in the JSON."""
MOST_USERS = 16
"""Processes on GPUs that are named."""
STILL_MIB = 0.5
"""What a disk or interface moved that is not worth a line."""


def machine_facts(summary: MachineSummary) -> FactList:
    """A line for each part of a machine that was measured."""
    title = "Machine" if summary.node is None else f"Machine of node {summary.node}"
    return FactList(
        {
            "CPU": _cpu(summary),
            "pressure": _pressure(summary),
            "memory": _memory(summary),
            "disks": "\n".join(_moved(summary.disks, "disk", ("read", "write"), ("read", "written"))),
            "limits": "\n".join(_limits(summary.cgroups)),
            "processes": "\n".join(_processes(summary.processes)),
            "on the GPUs": "\n".join(_gpu_users(summary.processes)),
            "networks": "\n".join(_moved(summary.networks, "net", ("rx", "tx"), ("received", "sent"))),
        },
        title=f"{title} over {text.duration(summary.seconds)}",
    )


def machine_words(summary: MachineSummary) -> str | None:
    """CPU and memory in a line."""
    node = "" if summary.node is None else f"node {summary.node}: "
    parts = [part for part in (_cpu(summary), _memory(summary)) if part]
    return f"{node}{'; '.join(parts)}" if parts else None


def _cpu(summary: MachineSummary) -> str | None:
    if summary.cpu_busy_mean is None:
        return None
    of_cores = f" of {summary.cores} cores" if summary.cores else ""
    words = f"{summary.cpu_busy_mean:.0f} %{of_cores} busy, at most {summary.cpu_busy_max:.0f} %"
    stolen = summary.cpu_steal_mean or 0
    return words + (f"; {stolen:.0f} % taken by other virtual machines" if stolen >= 1 else "")


def _pressure(summary: MachineSummary) -> str | None:
    """The share of time in which some task of the whole machine waited."""
    shares = {
        "a core": summary.psi_cpu_some_mean,
        "a disk": summary.psi_io_some_mean,
        "memory": summary.psi_memory_some_mean,
    }
    parts = [f"{share:.0f} % for {name}" for name, share in shares.items() if share is not None]
    return f"some task waited {', '.join(parts)}" if parts else None


def _memory(summary: MachineSummary) -> str | None:
    if summary.mem_used_max_mib is None or summary.mem_total_mib is None:
        return None
    words = (
        f"at most {text.mebibytes(summary.mem_used_max_mib)} used of {text.mebibytes(summary.mem_total_mib)}"
    )
    if summary.swap_used_max_mib:
        words += f", {text.mebibytes(summary.swap_used_max_mib)} of swap"
    if summary.oom_kills:
        words += f"; {summary.oom_kills:.0f} killed for want of memory"
    return words


def _limits(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The limits of the command's control groups, and how near it came to them."""
    for group in groups:
        cores, memory, parts = group["cpu_limit_cores"], group["mem_limit_mib"], list[str]()
        if cores is not None:
            throttled = group["throttled_mean"]
            parts.append(
                f"{cores:g} cores"
                + ("" if throttled is None else f", stopped in {throttled:.0f} % of periods")
            )
        if memory is not None:
            used, hits = group["mem_used_mib_max"], group["mem_limit_hits"]
            words = "" if used is None else f", at most {text.mebibytes(used)} used"
            parts.append(
                f"{text.mebibytes(memory)} of memory{words}" + (f", reached {hits:.0f} times" if hits else "")
            )
        if parts:
            yield f"{group['cgroup']}: {'; '.join(parts)}"


def _processes(processes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The processes of the command that took most of the CPU."""
    measured = [process for process in processes if process["cpu_mean"] is not None]
    for process in measured[:FEW]:
        mean, most = process["cpu_mean"], process["cpu_max"]
        words = f"{_user(process)}: {mean:.0f} % of a core, at most {most:.0f} %"
        waited = process["main_wait_mean"]
        if waited is not None and waited >= 1:
            words += f", its main thread waited for a core {waited:.0f} % of the time"
        yield f"{words}, {text.mebibytes(process['rss_max_mib'])}"
    rest = sum(process["role"] not in (OTHER, UNSEEN) for process in processes) - len(measured[:FEW])
    if measured and rest:
        yield f"and {rest:,} more"


def _gpu_users(processes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Who uses which GPU, those with the most of its memory first."""
    users = [process for process in processes if process["gpus"]]
    for user in sorted(users, key=lambda user: -(user["gpu_mem_max_mib"] or 0))[:MOST_USERS]:
        memory, share = user["gpu_mem_max_mib"], user["gpu_sm_mean"]
        together, time = (" together", "one GPU's time") if "," in user["gpus"] else ("", "the time")
        parts = [
            f"GPU {user['gpus']}: {_user(user)}",
            "memory not known" if memory is None else f"at most {text.mebibytes(memory)}{together}",
        ]
        yield ", ".join(parts + ([] if share is None else [f"busy {share:.0f} % of {time}"]))
    if len(users) > MOST_USERS:
        yield f"and {len(users) - MOST_USERS:,} more"


def _user(process: Mapping[str, Any]) -> str:
    """The name of a process: with its rank and attempt if it is the command's, otherwise with its number."""
    number = str(process["process"]).partition(".")[0]
    if process["role"] == UNSEEN:
        return f"a process that cannot be seen from here, number {number} by the driver"
    if process["role"] == OTHER:
        return f"another program, {process['name']} ({number})"
    rank = None if process["rank"] is None else f"{process['role']} {process['rank']}"
    attempt = None if process["attempt"] is None else f"attempt {process['attempt']}"
    known = ", ".join(word for word in (rank, attempt) if word)
    return f"{process['name']} ({known})" if known else str(process["name"])


def _moved(
    subjects: Sequence[Mapping[str, Any]], name: str, ways: tuple[str, str], words: tuple[str, str]
) -> Iterator[str]:
    """The busiest subjects that moved anything: how much each way, and the highest rate of a second."""
    amounts = [(sum(subject[f"{way}_mib"] or 0 for way in ways), subject) for subject in subjects]
    ordered = sorted(amounts, key=lambda pair: -pair[0])
    for amount, subject in ordered[:FEW]:
        if amount < STILL_MIB:
            continue
        parts = [
            f"{text.mebibytes(subject[f'{way}_mib'])} {word} (at most {subject[f'{way}_mib_s_max']:.1f} MiB/s)"
            for way, word in zip(ways, words, strict=True)
            if subject[f"{way}_mib_s_max"] is not None
        ]
        busy = subject.get("busy_mean")
        yield f"{subject[name]}: {', '.join(parts)}" + ("" if busy is None else f", {busy:.0f} % busy")
