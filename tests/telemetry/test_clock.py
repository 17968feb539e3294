"""Three clocks together, and a sleep until a deadline."""

import time

import pytest

from gputel.telemetry import clock
from gputel.telemetry.clock import SystemClock, iso


def test_stamp_is_written_with_all_nine_digits() -> None:
    assert iso(1_763_689_000_123_456_789) == "2025-11-21T01:36:40.123456789Z"


def test_three_clocks_are_read_together() -> None:
    before = time.time_ns(), time.monotonic_ns()
    stamp = SystemClock().stamp()
    assert before[0] <= stamp.wall <= time.time_ns()
    assert before[1] <= stamp.monotonic <= time.monotonic_ns()


def test_clocks_of_a_stamp_agree_though_the_thread_is_interrupted_while_it_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, interruptions = time.monotonic_ns, [0.02, 0.01]

    def interrupted() -> int:
        time.sleep(interruptions.pop() if interruptions else 0)
        return read()

    usual = SystemClock().stamp()
    monkeypatch.setattr("gputel.telemetry.clock.time.monotonic_ns", interrupted)
    torn = SystemClock().stamp()
    assert abs((torn.boot - torn.monotonic) - (usual.boot - usual.monotonic)) < 2_000_000


def test_stamps_go_on_as_before_when_the_machines_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before, read = SystemClock().stamp(), time.time_ns
    monkeypatch.setattr("gputel.telemetry.clock.time.time_ns", lambda: read() - 3600 * clock.SECOND)
    after = SystemClock().stamp()
    assert after.wall - before.wall == after.boot - before.boot
    assert round(clock.set_by_ns() / clock.SECOND) == -3600


def test_deadline_that_has_passed_is_not_slept_for() -> None:
    machine = SystemClock()
    machine.sleep_until(machine.monotonic() - 10**12)
