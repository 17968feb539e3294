"""All rules on one run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gputel.analysis.alarms import observations, rules
from gputel.analysis.alarms.observations import EventSeen, Moment
from gputel.analysis.alarms.watch import DETECTORS, RuleEngine
from gputel.analysis.logs.files import read_file
from gputel.telemetry.errors import GputelError
from tests.analysis.alarms.scenes import AlarmState, alarms_of, records, training

SAMPLES = Path(__file__).parents[3] / "sample_logs"


def test_healthy_run_raises_nothing() -> None:
    assert alarms_of(training(6000, tok_per_sec=1e5, grad_norm=0.3, mfu=44.0)) == []


def test_every_detector_has_a_rule_and_every_rule_a_detector() -> None:
    used = {rule.detector for rule in rules.load(["rented"])}
    assert used == DETECTORS.keys()


@pytest.mark.parametrize(
    ("name", "fired"),
    [
        ("d16-base.log.gz", []),
        ("d24-base.log.gz", []),
        ("mid-training.log", []),
        ("nan.log", [("nan", "on", 61)]),
        ("crashed-out-of-memory.log", [("oom", "on", 143), ("traceback", "on", 143)]),
    ],
)
def test_sample_logs_raise_their_known_alarms(name: str, fired: list[AlarmState]) -> None:
    log = read_file(SAMPLES / name)
    placed = observations.placed(log.records, log.evals, log.events)
    assert sorted(alarms_of(moment for _, _, moment in placed)) == fired


def test_active_alarms_are_those_that_are_not_over() -> None:
    engine = RuleEngine(rules.load())
    moments: list[Moment] = [*records([2.0, math.nan]), EventSeen("oom", "out of memory")]
    for moment in moments:
        list(engine.see(moment))
    assert [(alarm.rule, alarm.key) for alarm in engine.active] == [("nan", ""), ("oom", "")]


def test_alarm_is_one_line_with_its_step() -> None:
    on, off = (
        alarm.line
        for engine in [RuleEngine(rules.load())]
        for moment in records([math.nan, *[2.0] * 10], start=812)
        for alarm in engine.see(moment)
    )
    assert on == "NaN or infinite loss at step 812: loss is NaN"
    assert off == "over: NaN or infinite loss at step 813: loss is 2"


def test_unknown_threshold_of_a_detector_is_refused() -> None:
    with pytest.raises(GputelError, match=r"^alarm 'nan': .*unexpected keyword argument 'records'"):
        RuleEngine([rules.Rule("nan", "NaN", "not_finite", {"metrics": ["loss"], "records": 3})])
