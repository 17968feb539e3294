"""What each source reads of a small machine, and of machines that lack its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gputel.telemetry.host.columns import STORED
from gputel.telemetry.host.kernel_files import HostSource
from gputel.telemetry.host.sources import SOURCES, arrange, open_sources
from tests.telemetry.host import machine

GOLDEN: dict[str, dict[str, int | None]] = {
    "stat": {
        "cpu_busy_s_total": 1220,
        "cpu_user_s_total": 1010,
        "cpu_system_s_total": 210,
        "cpu_iowait_s_total": 30,
        "cpu_steal_s_total": 50,
        "cpu_all_s_total": 6300,
    },
    "pressure": {
        "psi_cpu_some_s_total": 11,
        "psi_io_some_s_total": 22,
        "psi_io_full_s_total": 21,
        "psi_memory_some_s_total": 33,
        "psi_memory_full_s_total": 32,
    },
    "meminfo": {
        "mem_total_mib": 16_000_000,
        "mem_used_mib": 4_000_000,
        "mem_available_mib": 12_000_000,
        "mem_cached_mib": 2_000_000,
        "mem_dirty_mib": 640,
        "mem_writeback_mib": 0,
        "mem_shmem_mib": 1_000_000,
        "swap_used_mib": 500_000,
    },
    "vmstat": {
        "swap_in_mib_total": 100,
        "swap_out_mib_total": 200,
        "major_faults_total": 7,
        "refaults_total": 60,
        "direct_reclaims_total": 5,
        "oom_kills_total": 2,
    },
    "loadavg": {"load_1m": 125, "procs_running": 3, "procs_blocked": 1},
    "snmp": {"tcp_sent_segments_total": 5000, "tcp_retransmits_total": 12},
    "cores": {
        "0 busy_s_total": 710,
        "0 iowait_s_total": 10,
        "0 steal_s_total": 25,
        "0 all_s_total": 3245,
        "1 busy_s_total": 510,
        "1 iowait_s_total": 20,
        "1 steal_s_total": 25,
        "1 all_s_total": 3055,
    },
    "diskstats": {
        "nvme0n1 read_mib_total": 4096,
        "nvme0n1 write_mib_total": 2048,
        "nvme0n1 reads_total": 100,
        "nvme0n1 writes_total": 20,
        "nvme0n1 read_ms_total": 50,
        "nvme0n1 write_ms_total": 80,
        "nvme0n1 in_flight": 3,
        "nvme0n1 busy_ms_total": 900,
    },
    "net/dev": {
        "eth0 rx_mib_total": 1048576,
        "eth0 tx_mib_total": 2097152,
        "eth0 rx_drops_total": 2,
        "eth0 tx_drops_total": 4,
        "eth0 errors_total": 4,
    },
}


def values(source: HostSource) -> dict[str, int | None]:
    names = [f"{subject} {column.name}".strip() for subject in source.subjects for column in source.columns]
    return dict(zip(names, source.read(), strict=True))


def test_every_source_reads_what_stands_in_its_files(tmp_path: Path) -> None:
    assert {source.name: values(source) for source in open_sources(machine.make(tmp_path))} == GOLDEN


def test_machine_without_proc_has_the_host_alone_and_only_nulls(tmp_path: Path) -> None:
    sources = open_sources(tmp_path)
    assert {source.table for source in sources} == {"host"}
    assert all(value is None for source in sources for value in source.read())
    assert all(source.fault and "no such file" in source.fault for source in sources)


@pytest.mark.parametrize(("path", "unknown"), [("proc/pressure/io", "psi_io"), ("proc/meminfo", "mem_")])
def test_missing_file_gives_null_for_its_columns_alone(tmp_path: Path, path: str, unknown: str) -> None:
    root = machine.make(tmp_path)
    (root / path).unlink()
    named = {name: value for source in open_sources(root) for name, value in values(source).items()}
    assert all(value is None for name, value in named.items() if name.startswith(unknown))
    assert named["psi_cpu_some_s_total"] == 11


def test_kernel_without_stolen_time_gives_null_for_it(tmp_path: Path) -> None:
    root = machine.make(tmp_path)
    (root / "proc/stat").write_text("cpu  10 0 20 70 5 0 0\n")
    cpu = values(SOURCES[0](root))
    assert cpu["cpu_steal_s_total"] is None
    assert cpu["cpu_all_s_total"] == 105


def test_file_of_another_kind_is_null_and_said(tmp_path: Path) -> None:
    root = machine.make(tmp_path)
    cpu = SOURCES[0](root)
    (root / "proc/stat").write_text("cpu a few\n")
    assert set(cpu.read()) == {None}
    assert cpu.fault == "stat cannot be understood"


def test_disk_that_is_pulled_out_is_null_from_then_on(tmp_path: Path) -> None:
    root = machine.make(tmp_path)
    disks = next(source for source in open_sources(root) if source.table == "disk")
    assert disks.read()[0] == 4096
    (root / "proc/diskstats").write_text("")
    assert set(disks.read()) == {None}


def test_partitions_are_left_out_where_sys_is_hidden(tmp_path: Path) -> None:
    root = machine.make(tmp_path)
    shutil.rmtree(root / "sys")
    assert next(s for s in open_sources(root) if s.table == "disk").subjects == ("nvme0n1",)


def test_unchanged_bytes_are_not_parsed_again(tmp_path: Path) -> None:
    cpu = SOURCES[0](machine.make(tmp_path))
    before = cpu.read()
    assert cpu.read() is before


def test_this_machine_counts_the_time_of_its_cores() -> None:
    cpu, cores = (opened(Path("/")) for opened in (SOURCES[0], SOURCES[-1]))
    whole, each = values(cpu), cores.read()
    assert (whole["cpu_all_s_total"] or 0) > (whole["cpu_busy_s_total"] or 0) > 0
    assert len(each) == 4 * len(cores.subjects) > 0


def test_tables_are_named_by_rate_and_hold_the_columns_of_all_their_sources(tmp_path: Path) -> None:
    tiers = {
        (tier.table, tier.name): len(tier.columns)
        for tier, _ in arrange(open_sources(machine.make(tmp_path)))
    }
    assert tiers == {
        ("host", "fast"): 11,
        ("disk", "fast"): 8,
        ("net", "fast"): 5,
        ("host", "slow"): 19,
        ("core", "slow"): 8,
    }


def test_every_column_of_a_source_is_one_that_readers_and_the_docs_know(tmp_path: Path) -> None:
    """Each tier has the columns of `STORED`, from which readers and the pages of the docs take them."""
    for tier, _ in arrange(open_sources(machine.make(tmp_path))):
        names = dict.fromkeys(column.name for column in tier.columns)
        assert list(names) == [column.name for column in STORED[tier.table][tier.name]]
