"""The board: heartbeat, latest values and throttling."""

import os
import subprocess
import sys

import pytest

from gputel.telemetry.machine import Gpu
from gputel.telemetry.readings import MIB
from gputel.telemetry.sampling.plan import PlannedTier, SamplingPlan
from gputel.telemetry.sampling.status import Board, StatusWriter
from gputel.telemetry.store.tiers import Tier, TierColumn


def test_board_shows_a_child_to_its_parent() -> None:
    board = Board()
    assert (board.heartbeat, board.read()) == (0, None)
    child = os.fork()
    if child == 0:
        board.beat(42)
        board.publish({"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]})
        os._exit(0)
    os.waitpid(child, 0)
    assert board.heartbeat == 42
    assert board.read() == {"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]}


def test_process_that_reads_the_board_needs_neither_numpy_nor_polars() -> None:
    script = (
        "import sys, gputel.telemetry.process.viewer, gputel.telemetry.process.keeper\n"
        "assert not {'numpy', 'polars'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_half_a_message_on_the_board_is_no_message() -> None:
    board = Board()
    board.publish({"a": 1})
    board._memory[20] ^= 1
    assert board.read() is None


def test_reader_keeps_the_last_message_while_the_next_is_half_written() -> None:
    board = Board()
    board.publish({"a": 1})
    assert board.read() == {"a": 1}
    board._memory[20] ^= 1
    assert board.read() == {"a": 1}
    board.publish({"a": 2})
    assert board.read() == {"a": 2}


GPU = Gpu("0", "H100", "GPU-0", None, memory_total_mib=81_920)
COLUMNS = (
    TierColumn("power_w", "W", 1000, "0"),
    TierColumn("throttle", None, 1, "0"),
    TierColumn("mem_used_mib", "MiB", MIB, "0"),
)


@pytest.fixture
def reported() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def status(reported: list[tuple[str, str]]) -> StatusWriter:
    tier = PlannedTier(Tier("fast", 100.0, COLUMNS), 1, ())
    return StatusWriter(
        [GPU], SamplingPlan(100.0, 0.02, (tier,), ()), lambda kind, text, **_: reported.append((kind, text))
    )


def test_latest_values_are_in_units_and_none_where_nothing_was_measured(status: StatusWriter) -> None:
    assert status.gpus()[0]["power_w"] is None
    status.latest[0] = [412_345, 4, 1000 * MIB], None
    assert status.gpus() == [
        {
            "gpu": "0",
            "name": "H100",
            "power_w": 412.3,
            "temp_c": None,
            "util": None,
            "mem_used_mib": 1000,
            "mem_total_mib": 81_920,
        }
    ]


def test_throttling_is_reported_when_it_starts_and_not_while_it_lasts(
    status: StatusWriter, reported: list[tuple[str, str]]
) -> None:
    for mask in (0x4, 0x24, 0x20, 0x60, None, 0x0, 0x20):
        status.latest[0] = [1, mask, 1], None
        status.look_for_throttling()
    assert reported == [
        ("throttle", "GPU 0 is slowed down: software thermal slowdown"),
        ("throttle", "GPU 0 is slowed down: hardware thermal slowdown"),
        ("throttle", "GPU 0 is slowed down: software thermal slowdown"),
    ]
