"""The slow seconds of a job, and what it and the machine did in them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

import polars as pl
import pytest

from gputel.analysis.report import machine_seconds
from gputel.analysis.report.machine_seconds import MachineTables, slow_seconds
from gputel.telemetry.host.seconds import schema

BEGAN = datetime(2026, 3, 1, 10, tzinfo=timezone.utc)
COUNT = 10


def table(name: str, *parts: dict[str, Any], every: int = 1) -> pl.DataFrame:
    """The same rows in every second, or in one of so many."""
    kinds = schema(name)
    seconds = [{"time": BEGAN + timedelta(seconds=n)} for n in range(every - 1, COUNT, every)]
    rows = [second | part for second in seconds for part in parts]
    return pl.DataFrame([{key: row.get(key) for key in kinds} for row in rows], schema=kinds)


TRAINER = {"process": "1.1", "cpu": 50.0, "main_wait": 10.0, "state": "R"}
WORKER = {"process": "1.2", "cpu": 20.0, "main_wait": 5.0, "state": "D", "wait_channel": "folio_wait"}
IDLE = {"process": "1.3", "cpu": 1.0, "main_wait": 0.0, "state": "S", "wait_channel": "nfs_wait"}


def machine(every: int = 1) -> MachineTables:
    """Two cores that are busy at 60 %; the processes are looked at every so many seconds."""
    return MachineTables(
        table("host", {"cpu_busy": 60.0, "cpu_steal": 2.0}),
        2,
        table("disk", {"disk": "vda", "busy": 3.0}, {"disk": "vdb", "busy": 80.0}),
        table("net", {"net": "eth0", "tx_mib_s": 4.0}, {"net": "lo", "tx_mib_s": 1.0}),
        table("cgroup", {"cgroup": "self", "cpu_limit_cores": 4.0}, {"cgroup": "/", "cpu_limit_cores": 1.5}),
        table("process", TRAINER, WORKER, IDLE, every=every),
        ["1.1"],
    )


def seconds(first: int = 0, last: int = COUNT - 1) -> pl.Series:
    times = [BEGAN + timedelta(seconds=n) for n in range(first, last + 1)]
    return pl.Series("time", times, dtype=pl.Datetime("ms", "UTC"))


@pytest.mark.parametrize("every", [1, 2])
def test_figures_do_not_depend_on_how_often_processes_are_looked_at(every: int) -> None:
    found = machine_seconds.figures(machine(every), seconds())
    assert (found["trainer_cpu"], found["main_wait"]) == (50, 10)
    assert (found["job_cpu"], found["others_cpu"]) == (71, 2 * 60 - 71)
    assert found["worker_busy"] == 25


def test_processes_that_wait_are_counted_with_what_most_of_them_wait_for() -> None:
    found = machine_seconds.figures(machine(), seconds())
    assert (found["blocked"], found["channel"]) == (100, "folio_wait")
    assert (found["remote"], found["remote_channel"]) == (100, "nfs_wait")


def test_figure_is_of_the_busiest_disk_and_network_and_of_the_tightest_limit() -> None:
    found = machine_seconds.figures(machine(), seconds())
    assert (found["disk_busy"], found["tx_mib_s"], found["cpu_limit"]) == (80, 4, 1.5)
    assert (found["steal"], found["all_cpu"]) == (4, 200)


def test_process_without_a_row_waits_where_it_waited_before_until_it_ends() -> None:
    whole = machine()
    looks = whole.processes.filter((pl.col("process") != "1.2") | (pl.col("time") == BEGAN))
    tables = {name: getattr(whole, name) for name in ("host", "cores", "disks", "networks", "cgroups")}
    assert machine_seconds.figures(MachineTables(**tables, processes=looks), seconds())["blocked"] == 100
    ended = looks.with_columns(
        state=pl.when(pl.col("process") == "1.2").then(pl.lit("X")).otherwise(pl.col("state"))
    )
    assert machine_seconds.figures(MachineTables(**tables, processes=ended), seconds())["blocked"] == 0


def steps(*lengths: float) -> pl.DataFrame:
    """Steps of these lengths in a row."""
    ends = list(accumulate(lengths))
    moment = pl.Datetime("ns", "UTC")
    return pl.DataFrame(
        {
            "start": [
                BEGAN + timedelta(seconds=end - length) for end, length in zip(ends, lengths, strict=True)
            ],
            "end": [BEGAN + timedelta(seconds=end - 0.001) for end in ends],
            "duration_s": lengths,
            "steps": 1,
        },
        schema_overrides={"start": moment, "end": moment, "duration_s": pl.Float64},
    )


def test_slow_seconds_are_told_from_the_others() -> None:
    found = slow_seconds(steps(*[1.0] * 20, *[2.0] * 4), clock_error_s=0.0)
    assert found is not None
    assert (len(found.slow), len(found.usual), found.step_s) == (8, 20, 2.0)
    assert found.why == "steps took 2.0 s for 8.0 s, 2 times the median of 1.0 s"


def test_step_that_is_hardly_slow_is_neither_slow_nor_usual() -> None:
    found = slow_seconds(steps(*[1.0] * 20, 1.2, *[2.0] * 4), clock_error_s=0.0)
    assert found is not None
    assert (len(found.slow), len(found.usual)) == (9, 20)


@pytest.mark.parametrize(
    ("lengths", "clock_error_s"),
    [
        ([1.0] * 20 + [2.0] * 2, 0.0),  # only 4 s of them
        ([1.0] * 200 + [2.0] * 4, 0.0),  # 8 s of 208 s
        ([1.0] * 20 + [2.0] * 4, 0.5),  # the clocks may be wrong by as much
        ([], 0.0),
    ],
    ids=["few seconds", "small share", "clock error", "no steps"],
)
def test_nothing_is_slow_where_little_is(lengths: list[float], clock_error_s: float) -> None:
    assert slow_seconds(steps(*lengths), clock_error_s) is None
