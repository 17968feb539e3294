"""Rules about the loss: each fires at the step where it must, once."""

from __future__ import annotations

import math
import random
from itertools import zip_longest

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import Evaluation, EventSeen, Moment, Record
from gputel.analysis.alarms.watch import RuleEngine
from gputel.telemetry.errors import GputelError
from tests.analysis.alarms.scenes import alarms_of, noise, records


def test_nan_that_recovers_is_one_alarm_and_its_end() -> None:
    values = [2.0] * 3 + [math.nan] * 4 + [2.0] * 10
    assert alarms_of(records(values)) == [("nan", "on", 3), ("nan", "off", 7)]
    assert alarms_of(records(values[:-1])) == [("nan", "on", 3)]


def test_nan_that_comes_and_goes_is_one_alarm() -> None:
    values = [math.nan, *[2.0] * 5] * 20 + [2.0] * 10
    assert alarms_of(records(values)) == [("nan", "on", 0), ("nan", "off", 115)]


def test_nan_of_several_metrics_is_one_alarm_until_all_are_finite() -> None:
    wrong = [Record(step, {"loss": math.nan, "grad_norm": math.inf}) for step in range(3)]
    half = [Record(step, {"loss": 2.0, "grad_norm": math.nan}) for step in range(3, 30)]
    lone = [Record(step, {"loss": 2.0}) for step in range(30, 60)]  # prints no gradient norm
    whole = [Record(step, {"loss": 2.0, "grad_norm": 0.3}) for step in range(60, 70)]
    assert alarms_of([*wrong, *half, *lone]) == [("nan", "on", 0)]
    assert alarms_of([*wrong, *half, *lone, *whole]) == [("nan", "on", 0), ("nan", "off", 60)]


def test_infinite_gradient_norm_is_an_alarm() -> None:
    assert alarms_of(records([0.3, math.inf], "grad_norm")) == [("nan", "on", 1)]


def test_spike_is_an_alarm_at_its_step() -> None:
    assert alarms_of(records([*noise(3, 100), 4.5, *noise(3, 20)])) == [
        ("spike", "on", 100),
        ("spike", "off", 101),
    ]


def test_second_spike_is_not_hidden_by_the_first() -> None:
    values = [*noise(3, 100), 40.0, *noise(3, 5), 4.5, *noise(3, 5)]
    assert [step for _, state, step in alarms_of(records(values)) if state == "on"] == [100, 106]


def test_widely_scattered_loss_has_no_spikes() -> None:
    chance = random.Random(1)
    assert alarms_of(records(chance.uniform(0.3, 2.2) for _ in range(600))) == []


def test_divergence_is_an_alarm_while_the_loss_rises() -> None:
    values = [*noise(2.5, 300), *(2.5 + n / 50 for n in range(200))]
    fired = {rule: step for rule, state, step in alarms_of(records(values)) if state == "on"}
    assert fired["divergence"] in range(355, 380)  # half of the last 50 are then 30 % above
    assert "rising" in fired


def test_slow_rise_is_rising_and_not_divergence() -> None:
    values = [*noise(2.5, 300, 1), *(v + n / 3000 for n, v in enumerate(noise(2.5, 600, 2)))]
    assert {rule for rule, _, _ in alarms_of(records(values))} == {"rising"}


def test_new_phase_begins_anew() -> None:
    base = [Record(n, {"loss": v}, phase="base") for n, v in enumerate(noise(2, 200))]
    tuned = [Record(n, {"loss": v}, phase="sft") for n, v in enumerate(noise(4, 200))]
    assert alarms_of([*base, *tuned]) == []


def test_plateau_is_an_alarm_once_a_third_of_the_run_gained_nothing() -> None:
    falling = [4 - n / 2000 for n in range(4000)]
    fired = alarms_of(records([*falling, *([falling[-1]] * 4000)]))
    assert [(rule, state) for rule, state, _ in fired] == [("plateau", "on")]
    step = fired[0][2]
    assert step is not None
    assert 5900 <= step <= 6200


def test_overfitting_names_the_best_evaluation_and_its_checkpoint() -> None:
    watch = RuleEngine(rules.load())
    saved = [
        EventSeen("checkpoint", f"saved checkpoints/step_{n:06d}.pt", step=n) for n in range(100, 600, 100)
    ]
    evals = [
        Evaluation(n, "val_loss", v)
        for n, v in zip(range(100, 700, 100), (3.2, 3.0, 3.1, 3.2, 3.3, 3.4), strict=True)
    ]
    moments: list[Moment] = [moment for both in zip_longest(saved, evals) for moment in both if moment]
    (alarm,) = (alarm for moment in moments for alarm in watch.see(moment))
    assert (alarm.rule, alarm.step) == ("overfit", 500)
    assert alarm.text == (
        "val_loss is 3.3000, was 3.0000 at step 200; nearest checkpoint: step 200, checkpoints/step_000200.pt"
    )


def test_overfitting_of_an_accuracy_is_a_fall_and_an_unknown_metric_is_refused() -> None:
    watch = RuleEngine(rules.load(settings={"overfit": {"metrics": ["val_acc"]}}))
    evals = [Evaluation(n, "val_acc", v) for n, v in enumerate((0.1, 0.5, 0.6, 0.5, 0.4, 0.3))]
    (alarm,) = (alarm for moment in evals for alarm in watch.see(moment))
    assert (alarm.rule, alarm.step, alarm.text) == (
        "overfit",
        5,
        "val_acc is 0.3000, was 0.6000 at step 2",
    )
    with pytest.raises(GputelError, match="kl: its name does not say whether lower or higher is better"):
        RuleEngine(rules.load(settings={"overfit": {"metrics": ["kl"]}}))


def test_divergence_that_wavers_around_its_limit_is_one_alarm() -> None:
    values = [*noise(2.5, 300), *([*noise(3.4, 60, 1), *noise(3.15, 60, 2)] * 4)]
    diverged = [alarm for alarm in alarms_of(records(values)) if alarm[0] == "divergence"]
    assert [state for _, state, _ in diverged] == ["on"]
