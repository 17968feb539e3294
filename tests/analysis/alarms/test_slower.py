"""A run that becomes slower: by what it prints, else by the times of its lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import Evaluation, EventSeen, Moment, Record
from gputel.analysis.alarms.watch import Alarm, RuleEngine
from tests.analysis.alarms.scenes import alarms_of, records


def test_slower_of_a_time_is_a_rise() -> None:
    watch = RuleEngine(rules.load(settings={"slower": {"metrics": ["dt_ms"]}}))
    times = [100.0] * 200 + [130.0] * 100
    (alarm,) = (alarm for moment in records(times, "dt_ms") for alarm in watch.see(moment))
    assert (alarm.rule, alarm.text) == ("slower", "dt_ms is 130, 30% above this run's baseline 100")


def test_hovering_at_the_limit_of_slower_is_one_alarm() -> None:
    paces = [20_000.0] * 10 + [1000.0] * 200 + [840.0, 860.0] * 100 + [1000.0] * 200
    assert [fired[:2] for fired in alarms_of(records(paces, "tok_per_sec"))] == [
        ("slower", "on"),
        ("slower", "off"),
    ]


def test_slower_throughput_is_written_in_full() -> None:
    moments = records([524_288.0] * 60 + [349_525.0] * 60, "tok_per_sec")
    (alarm,) = (
        alarm for watch in [RuleEngine(rules.load())] for moment in moments for alarm in watch.see(moment)
    )
    assert alarm.text == "tok_per_sec is 349,525, 33% below this run's baseline 524,288"


def test_throughput_that_wavers_is_slower_once() -> None:
    """A shared machine: a hundred records of 80 %, then sixty of 96 %, again and again."""
    paces = [1000.0] * 110 + ([800.0] * 100 + [960.0] * 60) * 8 + [1000.0] * 200
    states = [alarm[:2] for alarm in alarms_of(records(paces, "tok_per_sec"))]
    assert states == [("slower", "on"), ("slower", "off")]


def slower(moments: Iterable[Moment]) -> list[Alarm]:
    """The alarms of the one rule."""
    watch = RuleEngine([rule for rule in rules.load() if rule.name == "slower"])
    return [alarm for moment in moments for alarm in watch.see(moment)]


def timed(steps: Iterable[float], resolution_s: float = 1.0, every: int = 1) -> Iterator[Record]:
    """Records of steps that take so long, whose lines have timestamps, and neither a rate nor a step time."""
    now = 1000.3
    for step, seconds in enumerate(steps):
        now += seconds
        if step % every == 0:
            stamp = math.floor(now / resolution_s) * resolution_s
            yield Record(step, {"loss": 2.0}, 5e9, printed_s=stamp)


@pytest.mark.parametrize("resolution_s", [1.0, 0.001])
@pytest.mark.parametrize("step_s", [0.31, 1.217, 11.4])
@pytest.mark.parametrize("every", [1, 10])
def test_timestamps_tell_that_steps_are_slower(step_s: float, resolution_s: float, every: int) -> None:
    calm = [step_s] * 200 * every
    for factor, states in ((1.03, []), (1.4, ["on", "off"]), (4.0, ["on", "off"])):
        steps = [*calm, *[factor * step_s] * 700 * every, *calm, *calm, *calm, *calm]
        seen = slower(timed(steps, resolution_s, every))
        assert [alarm.state for alarm in seen] == states, (factor, seen)


def test_alarm_by_timestamps_says_how_long_a_step_takes() -> None:
    (alarm,) = slower(timed([1.2] * 200 + [1.6] * 200, 0.001))
    assert alarm.text == "time per step is 1.4 s, 17% above this run's baseline 1.2 s"


def test_pauses_of_a_log_without_step_times_are_no_slower_steps() -> None:
    """Evaluations and saves come oftener in the second half, and one stop explains itself by no line."""

    def moments() -> Iterator[Moment]:
        steps = [1.2] * 1000
        for late in range(500, 1000, 5):
            steps[late] += 30
        steps[700] += 3600
        for record in timed(steps):
            step = record.step or 0
            if step >= 500 and step % 5 == 0:
                yield EventSeen("checkpoint", "saved") if step % 10 else Evaluation(step, "val_loss", 2.0)
            yield record

    assert slower(moments()) == []


def test_lines_without_timestamps_are_timed_by_their_arrival_in_blocks() -> None:
    """A buffered output comes 40 lines at a time."""
    arrived = [Record(step, {"loss": 2.0}, 48.0 * (step // 40)) for step in range(400)]
    late = [Record(step, {"loss": 2.0}, 480 + 96.0 * ((step - 400) // 40)) for step in range(400, 800)]
    assert slower(arrived) == []
    assert [alarm.state for alarm in slower([*arrived, *late])] == ["on"]


def test_every_rank_of_a_log_is_no_step_of_its_own() -> None:
    copies = (
        Record(each.step, each.values, each.at_s, str(rank), printed_s=each.printed_s)
        for each in timed([1.2] * 200 + [2.4] * 200, 0.001)
        for rank in range(4)
    )
    assert [alarm.state for alarm in slower(copies)] == ["on"]


def test_timestamps_judge_no_log_that_prints_its_pace() -> None:
    steps = enumerate(timed([1.2] * 200 + [2.4] * 400))
    moments = (
        Record(each.step, {"dt_ms": 1200.0} if n % 2 else {}, each.at_s, printed_s=each.printed_s)
        for n, each in steps
    )
    assert slower(moments) == []
