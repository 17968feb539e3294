"""Control groups of both versions as files, with the limits that are planted in them."""

from __future__ import annotations

import os
from pathlib import Path

from gputel.telemetry.host.cgroup import allowance, cgroups, cores, usable_cores
from gputel.telemetry.host.kernel_files import HostSource
from tests.sources import homes

PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def by_name(source: HostSource) -> dict[str, dict[str, int | None]]:
    values, width = source.read(), len(source.columns)
    names = [column.name for column in source.columns]
    return {
        subject: dict(zip(names, values[place * width : (place + 1) * width], strict=True))
        for place, subject in enumerate(source.subjects)
    }


def version_2(root: Path, folder: str = "sys/fs/cgroup/kube/pod") -> None:
    write(
        root,
        {
            "proc/7/cgroup": "0::/kube/pod\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory io\n",
            f"{folder}/cpu.stat": "usage_usec 5\nnr_periods 100\nnr_throttled 99\nthrottled_usec 6500\n",
            f"{folder}/cpu.max": "150000 100000\n",
            f"{folder}/memory.max": "4294967296\n",
            f"{folder}/memory.current": "1073741824\n",
            f"{folder}/memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n",
            f"{folder}/io.stat": "8:0 rbytes=100 wbytes=7 rios=1\n8:16 rbytes=50 wbytes=0 rios=1\n",
            f"{folder}/cpu.pressure": PRESSURE.format(11),
            f"{folder}/io.pressure": PRESSURE.format(12),
            f"{folder}/memory.pressure": PRESSURE.format(13),
        },
    )


SELF = {
    "cpu_limit_cores": 1500,
    "periods_total": 100,
    "throttled_periods_total": 99,
    "throttled_ms_total": 6500,
    "mem_limit_mib": 4294967296,
    "mem_used_mib": 1073741824,
    "mem_limit_hits_total": 12,
    "oom_kills_total": 1,
    "io_read_mib_total": 150,
    "io_write_mib_total": 7,
    "psi_cpu_some_s_total": 11,
    "psi_io_some_s_total": 12,
    "psi_memory_some_s_total": 13,
}


def test_version_2_says_limits_and_what_they_cost(tmp_path: Path) -> None:
    version_2(tmp_path)
    assert by_name(cgroups(tmp_path, 7)) == {"self": SELF}


def test_group_above_stands_beside_it_if_it_has_a_limit(tmp_path: Path) -> None:
    version_2(tmp_path)
    write(
        tmp_path, {"sys/fs/cgroup/kube/cpu.max": "max 100000\n", "sys/fs/cgroup/kube/memory.max": "1048576\n"}
    )
    found = by_name(cgroups(tmp_path, 7))
    assert list(found) == ["self", "/kube"]
    assert (found["/kube"]["cpu_limit_cores"], found["/kube"]["mem_limit_mib"]) == (None, 1048576)


def test_allowance_is_the_tightest_of_all_groups(tmp_path: Path) -> None:
    version_2(tmp_path)
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/kube/pod\n",
            "sys/fs/cgroup/kube/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/kube/memory.max": "2147483648\n",
            "sys/fs/cgroup/kube/memory.current": "2147479552\n",
        },
    )
    assert allowance(tmp_path) == (1.5, 4096)
    assert usable_cores(tmp_path) == 1


def test_machine_without_groups_allows_all_its_cores(tmp_path: Path) -> None:
    assert allowance(tmp_path) == (None, None)
    assert usable_cores(tmp_path) == cores()


def test_path_of_the_host_that_a_container_does_not_have_is_the_root(tmp_path: Path) -> None:
    version_2(tmp_path, "sys/fs/cgroup")
    assert by_name(cgroups(tmp_path, 7))["self"] == SELF


def test_version_1_has_a_group_for_each_controller(tmp_path: Path) -> None:
    cpu, memory, blkio = "sys/fs/cgroup/cpu,cpuacct/a", "sys/fs/cgroup/memory/b", "sys/fs/cgroup/blkio"
    write(
        tmp_path,
        {
            "proc/7/cgroup": "4:cpu,cpuacct:/a\n3:memory:/b\n2:blkio:/\n0::/\n",
            f"{cpu}/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\n",
            f"{cpu}/cpu.cfs_quota_us": "45000\n",
            f"{cpu}/cpu.cfs_period_us": "100000\n",
            f"{memory}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{memory}/memory.usage_in_bytes": "4096\n",
            f"{memory}/memory.failcnt": "2167\n",
            f"{memory}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            f"{blkio}/blkio.throttle.io_service_bytes": "8:0 Read 8\n8:0 Write 9\n8:0 Total 17\nTotal 17\n",
        },
    )
    assert by_name(cgroups(tmp_path, 7)) == {
        "self": {
            **dict.fromkeys(SELF),
            "cpu_limit_cores": 450,
            "periods_total": 10,
            "throttled_periods_total": 4,
            "throttled_ms_total": 5000,
            "mem_used_mib": 4096,
            "mem_limit_hits_total": 2167,
            "oom_kills_total": 3,
            "io_read_mib_total": 8,
            "io_write_mib_total": 9,
        }
    }


def test_machine_without_cgroups_has_no_group(tmp_path: Path) -> None:
    assert cgroups(tmp_path, 7).subjects == ()


def test_cores_of_this_process_are_counted_in_one_file() -> None:
    assert homes("sched_getaffinity") == {"telemetry/host/cgroup.py"}


def test_looking_for_limits_leaves_no_file_open() -> None:
    allowance()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    allowance()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
