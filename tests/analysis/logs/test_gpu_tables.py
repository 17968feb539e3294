"""Logs of GPU readings: the real ones against what was counted in them, and each grammar in a few lines."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import gpu_tables

UTC = timezone.utc
REAL = (
    "gpu/gpu_metrics-8gpu-isoz.csv",
    "gpu/nvidia-smi-query-a100-13ms.csv",
    "gpu/nvidia-smi-query-v100s.csv",
)

QUERY = b"""timestamp, index, name, power.draw [W], utilization.gpu [%], memory.used [MiB], pstate, \
clocks_throttle_reasons.active
2025/06/13 00:27:52.195, 0, NVIDIA H100, 698.12 W, 99 %, 71234 MiB, P0, 0x0000000000000004
2025/06/13 00:27:52.199, 1, NVIDIA H100, [N/A], 100 %, 71230 MiB, P0, 0x0000000000000000
"""
WIDE = b"""timestamp,elapsed_sec,gpu0_power_w,gpu0_temp_c,gpu1_power_w,gpu1_temp_c
2025-11-21 01:35:00.123456,0.000,612.3,55,98.1,31
2025-11-21 01:35:00.133456,0.010,612.9,55,,31
"""
DMON_WITH_DAY = b"""#Date       Time        gpu   pwr gtemp mtemp    sm   mem  mclk  pclk rxpci txpci
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %   MHz   MHz  MB/s  MB/s
 20240104   23:59:59      0    37    19     -     0     0  4006   582     0     1
 20240105   00:00:01      1    39    20     -     7     3  4006   600    12     1
"""
DMON_WITH_CLOCK = b"""#Time        gpu    pwr   temp
#HH:MM:SS    Idx      W      C
 23:59:58      0    218     43
 00:00:01      0    219     43
"""
DCGM = b"""#Entity   POWER   TMPTR   SMACT   DRAMA   PCITX
ID          W       C
GPU 0     241.3   51      0.884   0.421   1048576
GPU 1     N/A     49      0.878   0.418   2097152
GPU-I 1   0.0     49      0.500   0.250   0
"""


def truth_of(real_logs: Path, name: str) -> dict[str, Any]:
    lines = (real_logs / "truth.jsonl").read_text().splitlines()
    return next(entry for entry in map(json.loads, lines) if entry["path"] == name)["ground_truth"]  # type: ignore[no-any-return]


@pytest.mark.real_logs
@pytest.mark.parametrize("name", REAL)
def test_real_log_gives_the_rows_gpus_and_figures_that_were_counted_in_it(real_logs: Path, name: str) -> None:
    truth = truth_of(real_logs, name)
    data = (real_logs / name).read_bytes()
    read = gpu_tables.parse(data)
    assert gpu_tables.recognize(data[:4096]) in ("nvidia-smi-csv", "gpu-csv")
    assert read.rows.height == truth["rows"]
    assert read.lines == data.count(b"\n")
    assert read.rejects == []
    gpus = truth["gpus"]
    assert sorted(set(read.rows["gpu"])) == (gpus if isinstance(gpus, list) else ["0"])
    first, last = read.rows["time"].min(), read.rows["time"].max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    assert (last - first).total_seconds() == pytest.approx(truth["timestamps"]["span_s"], abs=1e-9)
    columns = {source: column for column, source in read.sources.items()}
    for printed, figures in truth["columns"].items():
        values = read.rows[columns[printed]]
        assert values.count() == figures["n_numeric"]
        assert (values.min(), values.max()) == (figures["min"], figures["max"])
        assert values.mean() == pytest.approx(figures["mean"], abs=5e-5)


@pytest.mark.real_logs
def test_real_dmon_gives_its_rows_and_null_for_a_dash(real_logs: Path) -> None:
    data = (real_logs / "excerpts/nvidia-smi-dmon.txt").read_bytes()
    rows = gpu_tables.parse(data).rows
    assert gpu_tables.recognize(data) == "nvidia-smi-dmon"
    assert (rows.height, rows["power_w"][0], rows["power_w"][-1]) == (6, 218, 366)
    assert rows["temp_mem_c"].null_count() == 6
    assert rows["time"].null_count() == 6


def test_instant_power_is_power_w_beside_another_power() -> None:
    data = b"timestamp, power.draw [W], power.draw.instant [W]\n2023/07/30 17:28:02.589, 78.66, 81.81\n"
    read = gpu_tables.parse(data)
    assert read.rows["power_w"].to_list() == [81.81]
    assert read.rows["power_draw_w"].to_list() == [78.66]
    assert read.sources["power_w"] == "power.draw.instant [W]"


def test_units_in_cells_placeholders_states_and_masks_become_numbers_or_null() -> None:
    rows = gpu_tables.parse(QUERY).rows
    assert rows["gpu"].to_list() == ["0", "1"]
    assert rows["power_w"].to_list() == [698.12, None]
    assert rows["util"].to_list() == [99, 100]
    assert rows["mem_used_mib"].to_list() == [71234, 71230]
    assert rows["pstate"].to_list() == [0, 0]
    assert rows["throttle"].to_list() == [4, 0]
    assert "name" not in rows.columns


def test_gpus_side_by_side_in_a_line_become_a_row_each() -> None:
    rows = gpu_tables.parse(WIDE).rows
    assert rows.columns == ["time", "gpu", "elapsed_s", "power_w", "temp_c"]
    assert rows["gpu"].to_list() == ["0", "1", "0", "1"]
    assert rows["power_w"].to_list() == [612.3, 98.1, 612.9, None]
    assert rows["time"][0] == datetime(2025, 11, 21, 1, 35, 0, 123456, tzinfo=UTC)


def test_dmon_with_day_and_time_gives_a_time() -> None:
    read = gpu_tables.parse(DMON_WITH_DAY)
    assert read.rows["time"][1] == datetime(2024, 1, 5, 0, 0, 1, tzinfo=UTC)
    assert read.rows["pcie_rx_mib_s"].to_list() == [0, 12]
    assert read.units["sm_mhz"] == "MHz"


def test_clock_without_a_day_gives_no_time_but_what_passed_over_midnight_too() -> None:
    rows = gpu_tables.parse(DMON_WITH_CLOCK).rows
    assert rows["time"].null_count() == 2
    assert rows["elapsed_s"].to_list() == [0, 3]


def test_dcgm_shares_become_percent_and_an_instance_keeps_its_name() -> None:
    data = DCGM
    rows = gpu_tables.parse(data).rows
    assert gpu_tables.recognize(data) == "dcgmi-dmon"
    assert rows["gpu"].to_list() == ["0", "1", "GPU-I:1"]
    assert rows["power_w"].to_list() == [241.3, None, 0.0]
    assert rows["sm_active"].to_list() == pytest.approx([88.4, 87.8, 50])
    assert rows["pcie_tx_mib_s"].to_list() == [1, 2, 0]


def test_gpu_named_by_its_uuid_gets_its_place_in_the_order_of_appearance() -> None:
    data = b"uuid, power.draw [W]\nGPU-bb, 1.0 W\nGPU-aa, 2.0 W\nGPU-bb, 3.0 W\n"
    assert gpu_tables.parse(data).rows["gpu"].to_list() == ["0", "1", "0"]


def test_columns_may_come_in_any_order_and_the_header_again_in_the_middle() -> None:
    data = b"power.draw [W], timestamp\n1.5 W, 2025/06/13 00:27:52.195\n" * 2
    rows = gpu_tables.parse(data).rows
    assert rows.columns == ["time", "gpu", "power_w"]
    assert rows["power_w"].to_list() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"2025/06/13 00:27:53.195, 0, NVI", "3 cells under a header of 8"),
        (b"2025/06/13 00:27:53.195, 0, H, 9x W, 1 %, 1, P0, 0x0", "power.draw [W] is '9x W', expected a number"),
        (b"2025/06/31, 0, H, 9 W, 1 %, 1 MiB, P0, 0x0", "time is '2025/06/31', expected a time"),
    ],
)  # fmt: skip
def test_row_that_cannot_be_read_is_a_reject_with_its_line_and_reason(row: bytes, reason: str) -> None:
    assert gpu_tables.parse(QUERY + row).rejects == [(4, reason)]


@pytest.mark.parametrize(
    "head",
    [
        b"timestamp,step,loss,gpu_util\n2025-01-01 00:00:00,1,2.0,99\n",
        b"epoch,power\n1,2\n",
        b"timestamp,temperature,humidity\n2025-01-01 00:00:00,21.5,40\n",
        b"Training on 8 GPUs, power limit 700 W\n",
        b"step 1 | loss: 2.0\n",
        b"# gpu power for step loss\n",
        b"",
        b"\x00\xff\xfe" * 100,
    ],
)
def test_training_log_is_not_taken_for_telemetry(head: bytes) -> None:
    assert gpu_tables.recognize(head) is None


@given(
    st.datetimes(datetime(2002, 1, 1), datetime(2200, 1, 1)),
    st.sampled_from(
        ["%Y/%m/%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d %H:%M:%S.%f", "unix", "zone"]
    ),
)
def test_however_a_stamp_is_written_it_is_the_same_moment(moment: datetime, how: str) -> None:
    moment = moment.replace(tzinfo=UTC)
    zone = timezone(timedelta(hours=-5, minutes=-30))
    seconds, micros = divmod((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), 10**6)
    written = {"unix": f"{seconds}.{micros:06d}", "zone": moment.astimezone(zone).isoformat(" ")}
    text = written.get(how) or moment.strftime(how)
    assert gpu_tables.parse(f"time,power\n{text},1\n".encode()).rows["time"].to_list() == [moment]


@given(st.binary(max_size=300))
def test_parse_reads_any_bytes_without_failing(junk: bytes) -> None:
    read = gpu_tables.parse(QUERY + junk)
    assert read.rows.height >= 2
    gpu_tables.recognize(junk)


def test_semicolons_and_decimal_commas_of_a_spreadsheet_are_read_as_points() -> None:
    spreadsheet = WIDE.replace(b",", b";").replace(b".", b",")
    assert gpu_tables.recognize(spreadsheet) == "gpu-csv"
    read, usual = gpu_tables.parse(spreadsheet).rows, gpu_tables.parse(WIDE).rows
    assert read.drop("time").equals(usual.drop("time"))
