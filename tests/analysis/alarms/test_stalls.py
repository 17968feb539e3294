"""Rules about silence: a run, a rank, ranks that never appeared."""

from __future__ import annotations

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import ClockTick, Evaluation, EventSeen, Moment, Record
from gputel.analysis.alarms.watch import RuleEngine
from tests.analysis.alarms.scenes import alarms_of, clocks, training


def test_run_stalls_after_ten_intervals_and_a_minute() -> None:
    watch = RuleEngine(rules.load())
    moments: list[Moment] = [*training(50, every_s=10.0), *clocks(491, 1000)]
    (alarm,) = (alarm for moment in moments for alarm in watch.see(moment))
    assert (alarm.rule, alarm.at_s, alarm.text) == ("stalled", 591.0, "no step for 101 s; usually 10 s")


def test_stalled_recording_without_stacks_names_the_option() -> None:
    watch = RuleEngine(rules.load())
    moments: list[Moment] = [*training(50, every_s=10.0), *clocks(491, 600, hint="use --inside")]
    (alarm,) = (alarm for moment in moments for alarm in watch.see(moment))
    assert alarm.text == "no step for 101 s; usually 10 s; use --inside"


def test_incident_is_an_alarm_and_allows_no_pause() -> None:
    incident = EventSeen("incident", "rank 1 stands in a.py:6 read", 491.0)
    moments: list[Moment] = [*training(50, every_s=10.0), incident, *clocks(491, 600)]
    assert [(rule, state) for rule, state, _ in alarms_of(moments)] == [("hang", "on"), ("stalled", "on")]


def test_start_and_evaluations_may_take_long() -> None:
    moments: list[Moment] = [*clocks(0, 800), *(Record(n, {"loss": 3.0}, 800 + 10.0 * n) for n in range(20))]
    moments += [Evaluation(20, "val_loss", 3.0, 995.0), *clocks(1000, 1800)]
    assert alarms_of(moments) == []


def test_run_without_a_step_stalls_after_a_quarter_of_an_hour() -> None:
    assert alarms_of(clocks(0, 1000)) == [("stalled", "on", None)]


def test_ended_run_does_not_stall() -> None:
    moments: list[Moment] = [
        *training(50, every_s=1.0),
        EventSeen("exit", "ended", 60.0, facts={"code": 0}),
        *clocks(60, 900),
    ]
    assert alarms_of(moments) == []


def test_silent_rank_is_named_while_the_others_go_on() -> None:
    watch = RuleEngine(rules.load())
    moments = [
        Record(step, {"loss": 3.0}, 10.0 * step, rank)
        for step in range(60)
        for rank in ("0", "1", "2")
        if rank != "1" or step < 30
    ]
    alarms = [alarm for m in moments for now in (m, ClockTick(m.at_s or 0.0)) for alarm in watch.see(now)]
    assert [(alarm.rule, alarm.key, alarm.state) for alarm in alarms] == [("rank_behind", "1", "on")]


def test_ranks_that_never_appeared_are_counted() -> None:
    moments: list[Moment] = [Record(0, {"loss": 3.0}, 0.5, str(rank)) for rank in range(7)]
    moments += [Record(n, {"loss": 3.0}, 10.0 * n, "0") for n in range(1, 62)]
    fired = alarms_of([*moments, ClockTick(620.0, 0.0, world_size=8)])
    assert ("ranks_missing", "on", None) in fired
