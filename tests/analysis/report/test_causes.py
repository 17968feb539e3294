"""Why steps were slow: each cause needs slow steps, the job's own waiting, and the counter that names it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import polars as pl
import pytest

from gputel.analysis.report.causes import cause, killed
from gputel.analysis.report.machine_seconds import MachineTables, first_active, recent, slow_seconds
from gputel.telemetry.host.seconds import schema

BEGAN = datetime(2026, 3, 1, 10, tzinfo=timezone.utc)
SECONDS, SLOW_FROM = 60, 40
QUIET: dict[str, dict[str, Any]] = {
    "host": {"cpu_busy": 40.0, "cpu_steal": 0.0, "swap_in_mib_s": 0.0, "tcp_retransmits_s": 0.0},
    "cgroup": {"cgroup": "self", "throttled": 0.0, "throttled_ms_s": 0.0, "oom_kills": 0.0},
    "disk": {"disk": "vda", "busy": 2.0},
    "net": {"net": "eth0", "tx_mib_s": 0.1},
    "trainer": {"process": "1.1", "cpu": 50.0, "main_wait": 2.0, "state": "S", "storage_read_mib_s": 0.0},
    "worker": {"process": "2.2", "cpu": 20.0, "main_wait": 2.0, "state": "S", "storage_read_mib_s": 4.0},
}
"""What each table has in every second of a run that nothing slows."""


def machine(slow: dict[str, dict[str, Any]], quiet: dict[str, dict[str, Any]] = QUIET) -> MachineTables:
    """Two cores; `slow` is what differs in the last twenty seconds."""

    def table(name: str, *parts: str) -> pl.DataFrame:
        rows = [
            {
                "time": BEGAN + timedelta(seconds=n),
                **quiet[part],
                **(slow.get(part, {}) if n >= SLOW_FROM else {}),
            }
            for n in range(SECONDS)
            for part in parts or (name,)
        ]
        kinds = schema(name)
        return pl.DataFrame([{key: row.get(key) for key in kinds} for row in rows], schema=kinds)

    processes = table("process", "trainer", "worker")
    return MachineTables(
        table("host"), 2, table("disk"), table("net"), table("cgroup"), processes, ["1.1"]
    )  # fmt: skip


def steps(slow_s: float = 2.0) -> pl.DataFrame:
    """A step a second, and longer ones in the last twenty seconds."""
    starts, now = [], 0.0
    while now < SECONDS:
        length = 1.0 if now < SLOW_FROM else slow_s
        starts.append((now, now + length))
        now += length
    moment = pl.Datetime("ns", "UTC")
    return pl.DataFrame(
        {
            "start": [BEGAN + timedelta(seconds=start) for start, _ in starts],
            "end": [BEGAN + timedelta(seconds=end - 0.001) for _, end in starts],
            "duration_s": [end - start for start, end in starts],
            "steps": 1,
        },
        schema_overrides={"start": moment, "end": moment},
    )


DISTURBED: dict[str, dict[str, dict[str, Any]]] = {
    "throttled by its own limit of CPU": {
        "cgroup": {"throttled": 99.0, "throttled_ms_s": 650.0, "cpu_limit_cores": 0.45},
        "trainer": {"cpu": 20.0, "main_wait": 40.0},
    },
    "swapping": {"host": {"swap_in_mib_s": 30.0}, "trainer": {"major_faults_s": 800.0}},
    "input: remote file system": {"worker": {"cpu": 1.0, "wait_channel": "request_wait_answer"}},
    "input: slow storage": {"worker": {"cpu": 1.0, "state": "D", "storage_read_mib_s": 2.0}},
    "input: saturated disk": {"worker": {"cpu": 1.0, "state": "D"}, "disk": {"busy": 97.0}},
    "starved by other programs": {"host": {"cpu_busy": 99.0}, "trainer": {"cpu": 30.0, "main_wait": 45.0}},
    "starved by other virtual machines": {
        "host": {"cpu_steal": 40.0},
        "trainer": {"cpu": 30.0, "main_wait": 45.0},
    },
    "starved by its own processes": {
        "host": {"cpu_busy": 99.0},
        "trainer": {"cpu": 60.0, "main_wait": 45.0},
        "worker": {"cpu": 138.0},
    },
    "input: workers lack CPU": {"worker": {"cpu": 55.0, "main_wait": 42.0}, "trainer": {"cpu": 20.0}},
}


@pytest.mark.parametrize("answer", DISTURBED)
def test_cause_is_named_by_slow_steps_own_waiting_and_its_counter(answer: str) -> None:
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    verdict = cause(machine(DISTURBED[answer]), seconds)
    assert verdict is not None
    assert verdict.answer == answer
    assert verdict.evidence[0] == "steps took 2.0 s for 20.0 s, 2 times the median of 1.0 s"
    assert len(verdict.evidence) >= 2


@pytest.mark.parametrize("answer", [answer for answer in DISTURBED if "workers" not in answer])
def test_what_was_as_high_before_the_steps_were_slow_is_no_cause(answer: str) -> None:
    always = {part: {**values, **DISTURBED[answer].get(part, {})} for part, values in QUIET.items()}
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    assert cause(machine({}, always), seconds) is None


@pytest.mark.parametrize(
    "slow",
    [
        {"host": {"cpu_iowait": 90.0, "psi_io_some": 80.0, "psi_cpu_some": 90.0, "load_1m": 40.0}},
        {"host": {"cpu_steal": 60.0}},
        {"host": {"cpu_busy": 100.0}},
        {"cgroup": {"mem_limit_hits_s": 2000.0}},
        {"disk": {"busy": 100.0}},
        {"trainer": {"main_wait": 60.0}},
    ],
    ids=[
        "iowait and pressure",
        "steal",
        "full machine",
        "limit hits",
        "full disk",
        "queue without a culprit",
    ],
)
def test_one_sign_alone_is_no_cause(slow: dict[str, dict[str, Any]]) -> None:
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    assert cause(machine(slow), seconds) is None


def test_even_steps_have_no_slow_seconds() -> None:
    assert slow_seconds(steps(1.0), 0.0) is None
    assert slow_seconds(steps(1.1), 0.0) is None


def test_slow_steps_that_a_coarse_clock_may_have_made_are_none() -> None:
    assert slow_seconds(steps(2.0), 1.0) is None


def test_process_without_a_row_waits_where_it_waited() -> None:
    """A process that sleeps in a read changes nothing, so that it has no row."""
    whole = machine(DISTURBED["input: slow storage"])
    first = BEGAN + timedelta(seconds=SLOW_FROM)
    is_still = (
        (pl.col("process") == "2.2")
        & (pl.col("time") > first)
        & (pl.col("time") < first + timedelta(seconds=15))
    )
    still = MachineTables(**{**vars(whole), "processes": whole.processes.filter(~is_still)})
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    verdict = cause(still, seconds)
    assert verdict is not None
    assert "waited for storage for 100 % of the time" in verdict.evidence[1]


def test_processes_that_were_looked_at_every_other_second_used_as_much_of_the_cpu() -> None:
    whole = machine(DISTURBED["input: workers lack CPU"])
    odd = (pl.col("time") - pl.lit(BEGAN)).dt.total_seconds() % 2 == 1
    half = MachineTables(**{**vars(whole), "processes": whole.processes.filter(odd)})
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    assert cause(half, seconds) == cause(whole, seconds)


def test_kill_for_memory_after_the_last_step_ends_a_run() -> None:
    last = pl.Series([BEGAN + timedelta(seconds=38)], dtype=pl.Datetime("ns", "UTC"))
    of_limit = {"cgroup": {"oom_kills": 1.0, "mem_limit_mib": 1024.0}}
    verdict = killed(machine(of_limit), last)
    assert verdict is not None
    assert verdict.answer == "killed by its limit of memory"
    assert "which may use 1.0 GiB" in verdict.evidence[0]
    assert killed(machine({}), last) is None
    assert killed(machine(of_limit), last.dt.offset_by("1h")) is None


def test_alarm_compares_the_last_seconds_with_those_before() -> None:
    starved = machine(DISTURBED["starved by other programs"])
    verdict = cause(starved, recent(starved, 15.0))
    assert verdict is not None
    assert verdict.answer == "starved by other programs"


def two_ranks(slow_tx: float, tick_mib: float) -> MachineTables:
    """Ranks that send 2 MiB a step at once; in slow seconds `slow_tx` MiB/s, and `tick_mib` in a tick."""
    quiet = {
        **QUIET,
        "worker": {**QUIET["trainer"], "process": "2.2"},
        "net": {"net": "eth0", "tx_mib_s": 2.0},
    }
    slow = {"net": {"tx_mib_s": slow_tx}, "trainer": {"cpu": 6.0}, "worker": {"cpu": 6.0}}
    rows, total = [], 0.0
    for n in range(10 * SECONDS):
        if n < 10 * SLOW_FROM:
            total += 2.0 if n % 10 == 0 else 0.0
        else:
            total += tick_mib if n % 20 < 2.0 / tick_mib else 0.0
        rows.append((BEGAN + timedelta(seconds=n / 10), "eth0", total))
    ticks = pl.LazyFrame(rows, schema=["time", "net", "tx_mib_total"], orient="row")
    return MachineTables(**{**vars(machine(slow, quiet)), "trainers": ["1.1", "2.2"], "network_ticks": ticks})


def test_ranks_whose_exchange_takes_longer_than_before_wait_for_the_network() -> None:
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    verdict = cause(two_ranks(1.0, 0.1), seconds)
    assert verdict is not None
    assert verdict.answer == "network"
    assert "a step sent 2.0 MiB" in verdict.evidence[2]


def test_ranks_that_send_as_fast_as_ever_do_not_wait_for_the_network() -> None:
    """A slower GPU makes ranks send less often, and lets them use less CPU, too."""
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    assert cause(two_ranks(1.0, 2.0), seconds) is None


def test_garbage_collections_are_named_where_hooks_in_the_training_saw_them() -> None:
    seconds = slow_seconds(steps(), 0.0)
    assert seconds is not None
    inside = pl.DataFrame(
        {
            "time": [BEGAN + timedelta(seconds=n) for n in range(SECONDS)],
            "step_ms": [1000.0 if n < SLOW_FROM else 2000.0 for n in range(SECONDS)],
            "gc_ms": [10.0 if n < SLOW_FROM else 900.0 for n in range(SECONDS)],
        }
    )
    verdict = cause(MachineTables(**{**vars(machine({})), "inside": inside}), seconds)
    assert verdict is not None
    assert verdict.answer == "garbage collection"
    assert (
        verdict.evidence[1]
        == "Python collected garbage for 45 % of a step (1 otherwise), as seen from inside"
    )


def test_training_is_the_first_process_that_computes() -> None:
    """A worker may use more of the CPU, and a launcher is there before."""
    moment = pl.Series("time", [BEGAN] * 3, dtype=pl.Datetime("ms", "UTC"))
    processes = pl.DataFrame(
        {"time": moment, "process": ["9.300", "7.100", "8.200"], "cpu": [95.0, 0.5, 40.0]}
    )
    assert first_active(processes) == ["8.200"]


def test_seconds_that_are_hardly_slow_do_not_hide_the_cause_of_those_that_are() -> None:
    """Before the slow steps others take a fifth longer, in which no worker waits for storage."""
    whole = steps()
    mild = pl.col("start") >= BEGAN + timedelta(seconds=20)
    still = pl.col("duration_s") == 1.0
    longer = whole.with_columns(pl.when(mild & still).then(1.2).otherwise("duration_s").alias("duration_s"))
    seconds = slow_seconds(longer, 0.0)
    assert seconds is not None
    assert len(seconds.slow) == 20
    verdict = cause(machine(DISTURBED["input: workers lack CPU"]), seconds)
    assert verdict is not None
    assert verdict.answer == "input: workers lack CPU"
