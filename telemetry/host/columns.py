"""The tables beside gpu/: their columns as they are stored, and the rates that readers make of the counters.

A counter's name ends with `_total`; it is stored as the kernel counts it, so that a late or a missed tick costs
nothing. A rate is what a counter grew by between two reads, over the time between them or over what another
counter grew by; it is null where a counter fell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from gputel.telemetry.clock import SECOND
from gputel.telemetry.readings import MIB
from gputel.telemetry.store.tiers import PROCESS

HOST, CORE, DISK, NET, CGROUP = "host", "core", "disk", "net", "cgroup"
TABLES = (HOST, CORE, DISK, NET, CGROUP, PROCESS)
FAST, SLOW = "fast", "slow"
HZ = {FAST: 10.0, SLOW: 1.0}
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
KIB_A_MIB = 1024
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class HostColumn:
    """A column of a table as it is stored: whole numbers, `per_unit` of them to the unit."""

    name: str
    unit: str | None
    per_unit: int
    about: str


@dataclass(frozen=True)
class Rate:
    """A column that readers make: `scale` times what `counter` grew by, over `per`.

    `per` is another counter, a second, or nothing: then it is how much the counter grew.
    """

    name: str
    unit: str | None
    counter: str
    about: str
    per: str | None = "second"
    scale: float = 1.0


def _share(name: str, about: str) -> Rate:
    return Rate(name, "%", f"{name}_s_total", about, "cpu_all_s_total", 100.0)


def _cpu(name: str, about: str) -> HostColumn:
    return HostColumn(f"{name}_s_total", "s", CLOCK_TICKS, f"{about}, of all cores")


STAT = (
    _cpu("cpu_busy", "time not idle and not in iowait"),
    _cpu("cpu_user", "time in programs"),
    _cpu("cpu_system", "time in the kernel"),
    _cpu("cpu_iowait", "time idle while a disk was waited for"),
    _cpu("cpu_steal", "time that other virtual machines took"),
    _cpu("cpu_all", "time of any kind"),
)
PRESSURES = ("cpu_some", "io_some", "io_full", "memory_some", "memory_full")
PRESSURE = tuple(
    HostColumn(f"psi_{name}_s_total", "s", MICROSECONDS, f"time in which {what} waited for {resource}")
    for name in PRESSURES
    for resource, _, which in [name.partition("_")]
    for what in ["some task" if which == "some" else "every task"]
)
MEMINFO = tuple(
    HostColumn(name, "MiB", KIB_A_MIB, about)
    for name, about in (
        ("mem_total_mib", "memory of the machine"),
        ("mem_used_mib", "memory that is not available"),
        ("mem_available_mib", "memory that programs could get without swapping"),
        ("mem_cached_mib", "memory that holds files"),
        ("mem_dirty_mib", "memory that waits to be written to disk"),
        ("mem_writeback_mib", "memory that is being written to disk"),
        ("mem_shmem_mib", "shared memory and tmpfs"),
        ("swap_used_mib", "swap in use"),
    )
)
PAGES_A_MIB = MIB // os.sysconf("SC_PAGE_SIZE")
VMSTAT = (
    HostColumn("swap_in_mib_total", "MiB", PAGES_A_MIB, "read from swap"),
    HostColumn("swap_out_mib_total", "MiB", PAGES_A_MIB, "written to swap"),
    HostColumn("major_faults_total", None, 1, "page faults that read a disk"),
    HostColumn("refaults_total", None, 1, "pages of files that were dropped and read again"),
    HostColumn("direct_reclaims_total", None, 1, "pages that programs had to free themselves"),
    HostColumn("oom_kills_total", None, 1, "processes killed for memory"),
)
LOAD = (
    HostColumn("load_1m", None, 100, "tasks that run or wait, mean of a minute"),
    HostColumn("procs_running", None, 1, "tasks that run or wait for a core"),
    HostColumn("procs_blocked", None, 1, "tasks that wait for a disk"),
)
TCP = (
    HostColumn("tcp_sent_segments_total", None, 1, "TCP segments sent"),
    HostColumn("tcp_retransmits_total", None, 1, "TCP segments sent again"),
)
CORES = (
    HostColumn("busy_s_total", "s", CLOCK_TICKS, "time not idle and not in iowait"),
    HostColumn("iowait_s_total", "s", CLOCK_TICKS, "time idle while a disk was waited for"),
    HostColumn("steal_s_total", "s", CLOCK_TICKS, "time that other virtual machines took"),
    HostColumn("all_s_total", "s", CLOCK_TICKS, "time of any kind"),
)
SECTORS_A_MIB = 2048
DISKS = (
    HostColumn("read_mib_total", "MiB", SECTORS_A_MIB, "read"),
    HostColumn("write_mib_total", "MiB", SECTORS_A_MIB, "written"),
    HostColumn("reads_total", None, 1, "reads that ended"),
    HostColumn("writes_total", None, 1, "writes that ended"),
    HostColumn("read_ms_total", "ms", 1, "time of all reads, added up"),
    HostColumn("write_ms_total", "ms", 1, "time of all writes, added up"),
    HostColumn("in_flight", None, 1, "requests that have not ended"),
    HostColumn("busy_ms_total", "ms", 1, "time in which there was a request"),
)
NETWORKS = (
    HostColumn("rx_mib_total", "MiB", MIB, "received"),
    HostColumn("tx_mib_total", "MiB", MIB, "sent"),
    HostColumn("rx_drops_total", None, 1, "packets received and dropped"),
    HostColumn("tx_drops_total", None, 1, "packets dropped before they were sent"),
    HostColumn("errors_total", None, 1, "packets with errors"),
)
CGROUPS = (
    HostColumn("cpu_limit_cores", None, 1000, "cores that it may use; null without a limit"),
    HostColumn("periods_total", None, 1, "periods in which the limit of cores was counted"),
    HostColumn(
        "throttled_periods_total", None, 1, "those in which it was stopped for the rest of the period"
    ),
    HostColumn("throttled_ms_total", "ms", 1000, "time for which its tasks were stopped, added up"),
    HostColumn("mem_limit_mib", "MiB", MIB, "memory that it may use; null without a limit"),
    HostColumn("mem_used_mib", "MiB", MIB, "memory in use, with the files that it read"),
    HostColumn("mem_limit_hits_total", None, 1, "how often the limit of memory was reached"),
    HostColumn("oom_kills_total", None, 1, "processes killed for memory"),
    HostColumn("io_read_mib_total", "MiB", MIB, "read from storage"),
    HostColumn("io_write_mib_total", "MiB", MIB, "written to storage"),
    HostColumn("psi_cpu_some_s_total", "s", MICROSECONDS, "time in which some task of it waited for a core"),
    HostColumn("psi_io_some_s_total", "s", MICROSECONDS, "time in which some task of it waited for a disk"),
    HostColumn(
        "psi_memory_some_s_total", "s", MICROSECONDS, "time in which some task of it waited for memory"
    ),
)
PROCESSES = (
    HostColumn("pid", None, 1, "number of the process"),
    HostColumn("start", None, 1, "when it was started, in clock ticks since the machine was"),
    HostColumn("cpu_s_total", "s", CLOCK_TICKS, "time on cores, of all its threads"),
    HostColumn("cpu_ended_s_total", "s", CLOCK_TICKS, "the same of children that have ended"),
    HostColumn("rss_mib", "MiB", PAGES_A_MIB, "memory in use"),
    HostColumn("threads", None, 1, "threads"),
    HostColumn("major_faults_total", None, 1, "page faults that read a disk"),
    HostColumn("storage_read_mib_total", "MiB", MIB, "read from storage, also by children that have ended"),
    HostColumn("storage_write_mib_total", "MiB", MIB, "written to storage, also by children that have ended"),
    HostColumn("call_read_mib_total", "MiB", MIB, "read by calls, from storage or not"),
    HostColumn("main_wait_s_total", "s", SECOND, "time in which the main thread waited for a core"),
    HostColumn("state", None, 1, "code of the state's letter, as in `ps`; X once it has ended"),
    HostColumn("wait_channel", None, 1, "what it waits for: a number of names.jsonl; 0 is not known"),
    HostColumn("gpu", None, 1, "GPUs that it uses: a bit for each number of names.jsonl"),
    HostColumn("gpu_mem_mib", "MiB", MIB, "their memory that it uses, added up"),
    HostColumn("gpu_sm", "%", 1, "share of time in which a kernel of it ran, added up over these GPUs"),
)
STORED: dict[str, dict[str, tuple[HostColumn, ...]]] = {
    HOST: {FAST: (*STAT, *PRESSURE), SLOW: (*MEMINFO, *VMSTAT, *LOAD, *TCP)},
    CORE: {SLOW: CORES},
    DISK: {FAST: DISKS},
    NET: {FAST: NETWORKS},
    CGROUP: {SLOW: CGROUPS},
    PROCESS: {SLOW: PROCESSES},
}
"""The columns of each table, by tier."""


def _per_second(counter: str, unit: str | None, about: str) -> Rate:
    return Rate(f"{counter}_s", f"{unit or 1}/s", f"{counter}_total", about)


RATES: dict[str, tuple[Rate, ...]] = {
    HOST: (
        _share("cpu_busy", "share of all cores that was not idle and not in iowait"),
        _share("cpu_user", "share of all cores in programs"),
        _share("cpu_system", "share of all cores in the kernel"),
        _share("cpu_iowait", "share of all cores idle while a disk was waited for"),
        _share("cpu_steal", "share of all cores that other virtual machines took"),
        *(
            Rate(
                f"psi_{name}",
                "%",
                f"psi_{name}_s_total",
                column.about.replace("time", "share of time", 1),
                scale=100.0,
            )
            for name, column in zip(PRESSURES, PRESSURE, strict=True)
        ),
        _per_second("swap_in_mib", "MiB", "read from swap"),
        _per_second("swap_out_mib", "MiB", "written to swap"),
        _per_second("major_faults", None, "page faults that read a disk"),
        _per_second("refaults", None, "pages of files that were dropped and read again"),
        _per_second("direct_reclaims", None, "pages that programs had to free themselves"),
        Rate("oom_kills", None, "oom_kills_total", "processes killed for memory", per=None),
        _per_second("tcp_sent_segments", None, "TCP segments sent"),
        _per_second("tcp_retransmits", None, "TCP segments sent again"),
    ),
    CORE: (
        Rate("busy", "%", "busy_s_total", "share of time not idle and not in iowait", "all_s_total", 100.0),
        Rate(
            "iowait",
            "%",
            "iowait_s_total",
            "share of time idle while a disk was waited for",
            "all_s_total",
            100.0,
        ),
        Rate(
            "steal",
            "%",
            "steal_s_total",
            "share of time that other virtual machines took",
            "all_s_total",
            100.0,
        ),
    ),
    DISK: (
        _per_second("read_mib", "MiB", "read"),
        _per_second("write_mib", "MiB", "written"),
        _per_second("reads", None, "reads that ended"),
        _per_second("writes", None, "writes that ended"),
        Rate("read_ms", "ms", "read_ms_total", "time of a read", "reads_total"),
        Rate("write_ms", "ms", "write_ms_total", "time of a write", "writes_total"),
        Rate("busy", "%", "busy_ms_total", "share of time in which there was a request", scale=0.1),
    ),
    NET: (
        _per_second("rx_mib", "MiB", "received"),
        _per_second("tx_mib", "MiB", "sent"),
        _per_second("rx_drops", None, "packets received and dropped"),
        _per_second("tx_drops", None, "packets dropped before they were sent"),
        _per_second("errors", None, "packets with errors"),
    ),
    CGROUP: (
        Rate(
            "throttled",
            "%",
            "throttled_periods_total",
            "periods in which it was stopped",
            "periods_total",
            100.0,
        ),
        Rate(
            "throttled_ms_s", "ms/s", "throttled_ms_total", "time for which its tasks were stopped, added up"
        ),
        _per_second("mem_limit_hits", None, "how often the limit of memory was reached"),
        Rate("oom_kills", None, "oom_kills_total", "processes killed for memory", per=None),
        _per_second("io_read_mib", "MiB", "read from storage"),
        _per_second("io_write_mib", "MiB", "written to storage"),
        *(
            Rate(column.name[: -len("_s_total")], "%", column.name, f"share of {column.about}", scale=100.0)
            for column in CGROUPS[-3:]
        ),
    ),
    PROCESS: (
        Rate("cpu", "%", "cpu_s_total", "of one core, all its threads together", scale=100.0),
        Rate(
            "main_wait",
            "%",
            "main_wait_s_total",
            "share of time the main thread waited for a core",
            scale=100.0,
        ),
        _per_second("major_faults", None, "page faults that read a disk"),
        _per_second("storage_read_mib", "MiB", "read from storage"),
        _per_second("storage_write_mib", "MiB", "written to storage"),
        _per_second("call_read_mib", "MiB", "read by calls, from storage or not"),
    ),
}
