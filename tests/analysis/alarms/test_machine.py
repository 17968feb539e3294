"""Rules about the machine: GPUs, disk, budget, and events that say themselves what is wrong."""

from __future__ import annotations

import pytest

from gputel.analysis import timed_regex
from gputel.analysis.alarms import rules
from gputel.analysis.alarms.machine import OnEvent
from gputel.analysis.alarms.observations import ClockTick, EventSeen, GpuSecond, Moment, Record
from gputel.analysis.alarms.watch import RuleEngine
from gputel.telemetry.errors import GputelError
from tests.analysis.alarms.scenes import alarms_of, records, seconds


@pytest.mark.parametrize("kind", ["oom", "nccl", "traceback", "xid", "gpu_lost"])
def test_fault_that_a_log_names_is_an_alarm(kind: str) -> None:
    assert alarms_of([EventSeen(kind, "it broke", step=7)]) == [(kind, "on", 7)]


def test_interruption_is_no_exception() -> None:
    assert alarms_of([EventSeen("traceback", "KeyboardInterrupt")]) == []


def test_returning_gpu_ends_its_alarm() -> None:
    lost, back = (EventSeen(kind, kind, facts={"gpu": "3"}) for kind in ("gpu_lost", "gpu_back"))
    assert alarms_of([lost, lost, back]) == [("gpu_lost", "on", None), ("gpu_lost", "off", None)]


def test_exit_code_other_than_0_is_an_alarm() -> None:
    assert alarms_of([EventSeen("exit", "ended", facts={"code": 0})]) == []
    assert alarms_of([EventSeen("exit", "ended", facts={"code": 137})]) == [("exit", "on", None)]
    assert alarms_of([EventSeen("exit", "ended", facts={"code": 143, "stopped": True})]) == []


def test_idle_gpu_is_an_alarm_once_training_has_begun() -> None:
    assert alarms_of(seconds(400, util=0.0)) == []
    assert alarms_of([Record(0, {"loss": 3.0}), *seconds(400, util=0.0)]) == [("idle", "on", None)]


def test_full_memory_is_an_alarm_after_ten_seconds() -> None:
    assert alarms_of(seconds(9, memory_share=0.99)) == []
    assert alarms_of([*seconds(12, memory_share=0.99), *seconds(1, memory_share=0.5)]) == [
        ("memory", "on", None),
        ("memory", "off", None),
    ]


def test_heat_is_an_alarm_and_the_power_cap_is_not() -> None:
    assert alarms_of(seconds(200, throttle=0x04)) == []
    assert alarms_of(seconds(200, throttle=0x40)) == [("throttle", "on", None)]


def slowed(slow: int, every: int = 60, rounds: int = 5) -> list[Moment]:
    """The first `slow` of every `every` seconds are slowed down by heat."""
    return [
        GpuSecond("0", float(n), {"throttle": 0x40 if n % every < slow else 0}) for n in range(every * rounds)
    ]


def test_heat_is_an_alarm_from_half_a_minute_on() -> None:
    assert alarms_of(slowed(29)) == []
    assert alarms_of(slowed(30)) == [("throttle", "on", None)]


@pytest.mark.parametrize(("share", "slow"), [(0.1, 6), (0.9, 54), (1.0, 60)])
def test_share_of_slow_seconds_can_be_set(share: float, slow: int) -> None:
    settings = {"throttle": {"share": share}}
    for count, states in ((slow - 1, []), (slow, ["on"])):
        watch = RuleEngine(rules.load(settings=settings))
        assert [alarm.state for moment in slowed(count) for alarm in watch.see(moment)] == states


def test_growing_error_counter_is_an_alarm() -> None:
    assert alarms_of([*seconds(3, ecc=2.0), *seconds(3, ecc=3.0)]) == [("ecc", "on", None)]


def test_full_disk_is_an_alarm() -> None:
    assert alarms_of([ClockTick(0.0, 0.0, disk_free_share=0.5, disk_free_gib=500.0)]) == []
    assert alarms_of([ClockTick(0.0, 0.0, disk_free_share=0.001, disk_free_gib=0.5)]) == [
        ("disk", "on", None)
    ]


def test_budget_is_judged_only_if_one_was_set() -> None:
    moment = ClockTick(0.0, 0.0, hours=40.0, dollars=1200.0, foresees_end=True)
    assert alarms_of([moment]) == []
    watch = RuleEngine(rules.load(settings={"budget": {"hours": 31, "dollars": 1000}}))
    assert [alarm.text for alarm in watch.see(moment)] == [
        "projected duration 1 d 16 h, limit 1 d 07 h",
        "projected cost $1,200, budget $1,000",
    ]


def test_budget_of_a_run_without_a_foreseen_end_names_what_was_spent() -> None:
    watch = RuleEngine(rules.load(settings={"budget": {"dollars": 50}}))
    (alarm,) = watch.see(ClockTick(0.0, 0.0, hours=4.25, dollars=85.0))
    assert alarm.text == "cost $85.00, budget $50.00"


def test_projection_that_wavers_around_its_limit_is_one_alarm() -> None:
    engine = RuleEngine(rules.load(settings={"budget": {"hours": 31}}))
    hours = [30.0, *[31.1, 30.9] * 50, 30.0]
    ticks = [ClockTick(float(at), 0.0, hours=each) for at, each in enumerate(hours)]
    assert [alarm.state for tick in ticks for alarm in engine.see(tick)] == ["on", "off"]


def test_disk_that_wavers_around_its_limit_is_one_alarm() -> None:
    free = [500.0, *[1.9, 2.1] * 50, 500.0]
    ticks = [
        ClockTick(float(at), 0.0, disk_free_share=gib / 1000, disk_free_gib=gib)
        for at, gib in enumerate(free)
    ]
    engine = RuleEngine(rules.load(settings={"disk": {"share": 0.0}}))
    assert [alarm.state for tick in ticks for alarm in engine.see(tick)] == ["on", "off"]


def test_low_mfu_that_wavers_around_its_floor_is_one_alarm() -> None:
    shares = [*[14.0] * 60, *([15.5] * 60 + [14.5] * 60) * 4, *[20.0] * 60]
    assert [alarm[:2] for alarm in alarms_of(records(shares, "mfu"), "rented") if alarm[0] == "low_mfu"] == [
        ("low_mfu", "on"),
        ("low_mfu", "off"),
    ]


def test_pattern_of_ignored_events_that_never_ends_is_stopped_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timed_regex.timed, "__defaults__", (0.05,))
    detector = OnEvent("traceback", unless="(a+)+$")
    with pytest.raises(
        GputelError, match=r"alarm of traceback: 'unless' searched a line for more than 0\.05 s"
    ):
        list(detector.see(EventSeen("traceback", "a" * 200 + "!")))


def test_pattern_of_ignored_events_is_a_regular_expression() -> None:
    with pytest.raises(GputelError, match="alarm 'traceback': 'unless' is not a regular expression"):
        RuleEngine(rules.load(settings={"traceback": {"unless": "("}}))
