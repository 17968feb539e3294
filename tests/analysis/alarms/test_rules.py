"""Each rule fires where it must, at the step where it must, once; and is silent where nothing is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from gputel.analysis.alarms import observations, rules
from gputel.analysis.alarms.observations import ClockTick, Evaluation, EventSeen, GpuSecond, Moment, Record
from gputel.analysis.alarms.watch import DETECTORS, RuleEngine
from gputel.analysis.logs.files import read_file
from gputel.telemetry.errors import GputelError

SAMPLES = Path(__file__).parents[3] / "sample_logs"
Told = tuple[str, str, int | None]


def told(moments: Iterable[Moment], *presets: str) -> list[Told]:
    """Rule, on or off, step, in order."""
    watch = RuleEngine(rules.load(presets))
    return [(alarm.rule, alarm.state, alarm.step) for moment in moments for alarm in watch.see(moment)]


def training(
    steps: int, *, start: int = 0, every_s: float | None = None, rank: str | None = None, **values: float
) -> Iterator[Record]:
    """A loss that falls from 11 with some noise; `values` stand in every record."""
    chance = random.Random(start)
    for step in range(start, start + steps):
        loss = 3 * (step + 30) ** -0.1 + 8 * math.exp(-step / 60) + chance.gauss(0, 0.02)
        at = None if every_s is None else step * every_s
        yield Record(step, {"loss": loss, **values}, at, rank)


def records(values: Iterable[float], name: str = "loss", start: int = 0) -> list[Record]:
    return [Record(start + n, {name: value}) for n, value in enumerate(values)]


def noise(level: float, count: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(level, 0.02) for _ in range(count)]


def test_a_healthy_run_raises_nothing() -> None:
    assert told(training(6000, tok_per_sec=1e5, grad_norm=0.3, mfu=44.0)) == []


def test_a_nan_is_told_once_and_so_is_its_end() -> None:
    values = [2.0] * 3 + [math.nan] * 4 + [2.0] * 3
    assert told(records(values)) == [("nan", "on", 3), ("nan", "off", 7)]


def test_an_infinite_gradient_norm_is_told() -> None:
    assert told(records([0.3, math.inf], "grad_norm")) == [("nan", "on", 1)]


def test_a_spike_is_told_at_its_step() -> None:
    assert told(records([*noise(3, 100), 4.5, *noise(3, 20)])) == [
        ("spike", "on", 100),
        ("spike", "off", 101),
    ]


def test_a_second_spike_is_not_hidden_by_the_first() -> None:
    values = [*noise(3, 100), 40.0, *noise(3, 5), 4.5, *noise(3, 5)]
    assert [step for _, state, step in told(records(values)) if state == "on"] == [100, 106]


def test_a_loss_that_scatters_widely_has_no_spikes() -> None:
    chance = random.Random(1)
    assert told(records(chance.uniform(0.3, 2.2) for _ in range(600))) == []


def test_a_divergence_is_told_while_it_rises() -> None:
    values = [*noise(2.5, 300), *(2.5 + n / 50 for n in range(200))]
    fired = {rule: step for rule, state, step in told(records(values)) if state == "on"}
    assert fired["divergence"] in range(355, 380)  # half of the last 50 are then 30 % above
    assert "rising" in fired


def test_a_slow_rise_is_told_as_rising_and_not_as_divergence() -> None:
    values = [*noise(2.5, 300, 1), *(v + n / 3000 for n, v in enumerate(noise(2.5, 600, 2)))]
    assert {rule for rule, _, _ in told(records(values))} == {"rising"}


def test_a_new_phase_begins_anew() -> None:
    base = [Record(n, {"loss": v}, phase="base") for n, v in enumerate(noise(2, 200))]
    tuned = [Record(n, {"loss": v}, phase="sft") for n, v in enumerate(noise(4, 200))]
    assert told([*base, *tuned]) == []


def test_a_plateau_is_told_once_a_third_of_the_run_has_gained_nothing() -> None:
    falling = [4 - n / 2000 for n in range(4000)]
    fired = told(records([*falling, *([falling[-1]] * 4000)]))
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


def test_slower_of_a_time_is_a_rise() -> None:
    watch = RuleEngine(rules.load(settings={"slower": {"metrics": ["dt_ms"]}}))
    times = [100.0] * 200 + [130.0] * 100
    (alarm,) = (alarm for moment in records(times, "dt_ms") for alarm in watch.see(moment))
    assert (alarm.rule, alarm.text) == ("slower", "dt_ms is 130, 30% above this run's baseline 100")


def clocks(start: int, end: int, **facts: float) -> Iterator[ClockTick]:
    return (ClockTick(float(second), started_s=0.0, **facts) for second in range(start, end))  # type: ignore[arg-type]


def test_a_run_that_stands_still_is_told_after_ten_intervals_and_a_minute() -> None:
    watch = RuleEngine(rules.load())
    moments: list[Moment] = [*training(50, every_s=10.0), *clocks(491, 1000)]
    (alarm,) = (alarm for moment in moments for alarm in watch.see(moment))
    assert (alarm.rule, alarm.at_s, alarm.text) == ("stalled", 591.0, "no step for 101 s; usually 10 s")


def test_the_first_minutes_and_an_evaluation_may_take_long() -> None:
    moments: list[Moment] = [*clocks(0, 800), *(Record(n, {"loss": 3.0}, 800 + 10.0 * n) for n in range(20))]
    moments += [Evaluation(20, "val_loss", 3.0, 995.0), *clocks(1000, 1800)]
    assert told(moments) == []


def test_a_run_that_has_not_begun_after_a_quarter_of_an_hour_is_told() -> None:
    assert told(clocks(0, 1000)) == [("stalled", "on", None)]


def test_a_run_that_ended_does_not_stall() -> None:
    moments: list[Moment] = [
        *training(50, every_s=1.0),
        EventSeen("exit", "ended", 60.0, facts={"code": 0}),
        *clocks(60, 900),
    ]
    assert told(moments) == []


def test_a_run_that_got_slower_than_itself_is_told_and_hovering_at_the_limit_is_told_once() -> None:
    paces = [20_000.0] * 10 + [1000.0] * 200 + [840.0, 860.0] * 100 + [1000.0] * 100
    assert [fired[:2] for fired in told(records(paces, "tok_per_sec"))] == [
        ("slower", "on"),
        ("slower", "off"),
    ]


def test_a_rank_that_falls_silent_is_named_while_the_others_go_on() -> None:
    watch = RuleEngine(rules.load())
    moments = [
        Record(step, {"loss": 3.0}, 10.0 * step, rank)
        for step in range(60)
        for rank in ("0", "1", "2")
        if rank != "1" or step < 30
    ]
    found = [alarm for m in moments for now in (m, ClockTick(m.at_s or 0.0)) for alarm in watch.see(now)]
    assert [(alarm.rule, alarm.key, alarm.state) for alarm in found] == [("rank_behind", "1", "on")]


def test_ranks_that_never_showed_are_counted() -> None:
    moments: list[Moment] = [Record(0, {"loss": 3.0}, 0.5, str(rank)) for rank in range(7)]
    moments += [Record(n, {"loss": 3.0}, 10.0 * n, "0") for n in range(1, 62)]
    fired = told([*moments, ClockTick(620.0, 0.0, world_size=8)])
    assert ("ranks_missing", "on", None) in fired


@pytest.mark.parametrize("kind", ["oom", "nccl", "traceback", "xid", "gpu_lost"])
def test_what_a_log_says_outright_is_passed_on(kind: str) -> None:
    assert told([EventSeen(kind, "it broke", step=7)]) == [(kind, "on", 7)]


def test_an_interruption_is_no_exception() -> None:
    assert told([EventSeen("traceback", "KeyboardInterrupt")]) == []


def test_a_gpu_that_comes_back_ends_its_alarm() -> None:
    lost, back = (EventSeen(kind, kind, facts={"gpu": "3"}) for kind in ("gpu_lost", "gpu_back"))
    assert told([lost, lost, back]) == [("gpu_lost", "on", None), ("gpu_lost", "off", None)]


def test_an_exit_code_that_is_not_0_is_told() -> None:
    assert told([EventSeen("exit", "ended", facts={"code": 0})]) == []
    assert told([EventSeen("exit", "ended", facts={"code": 137})]) == [("exit", "on", None)]


def seconds(count: int, gpu: str = "0", **values: float) -> list[Moment]:
    return [GpuSecond(gpu, float(n), values) for n in range(count)]


def test_a_gpu_that_idles_is_told_once_training_has_begun() -> None:
    assert told(seconds(400, util=0.0)) == []
    assert told([Record(0, {"loss": 3.0}), *seconds(400, util=0.0)]) == [("idle", "on", None)]


def test_full_memory_is_told_after_ten_seconds() -> None:
    assert told(seconds(9, memory_share=0.99)) == []
    assert told([*seconds(12, memory_share=0.99), *seconds(1, memory_share=0.5)]) == [
        ("memory", "on", None),
        ("memory", "off", None),
    ]


def test_heat_is_told_and_the_power_cap_is_not() -> None:
    assert told(seconds(200, throttle=0x04)) == []
    assert told(seconds(200, throttle=0x40)) == [("throttle", "on", None)]


def slowed(slow: int, of: int = 60, rounds: int = 5) -> list[Moment]:
    """The first `slow` of every `of` seconds are slowed down by heat."""
    return [GpuSecond("0", float(n), {"throttle": 0x40 if n % of < slow else 0}) for n in range(of * rounds)]


def test_heat_is_told_from_half_of_a_minute_on_and_not_below() -> None:
    assert told(slowed(29)) == []
    assert told(slowed(30)) == [("throttle", "on", None)]


@pytest.mark.parametrize(("share", "slow"), [(0.1, 6), (0.9, 54), (1.0, 60)])
def test_the_share_of_slow_seconds_is_the_projects_to_set(share: float, slow: int) -> None:
    own = {"throttle": {"share": share}}
    for seconds, states in ((slow - 1, []), (slow, ["on"])):
        watch = RuleEngine(rules.load(settings=own))
        assert [alarm.state for moment in slowed(seconds) for alarm in watch.see(moment)] == states


def test_a_counter_of_errors_is_told_when_it_grows() -> None:
    assert told([*seconds(3, ecc=2.0), *seconds(3, ecc=3.0)]) == [("ecc", "on", None)]


def test_a_disk_that_fills_is_told() -> None:
    assert told([ClockTick(0.0, 0.0, disk_free_share=0.5, disk_free_gib=500.0)]) == []
    assert told([ClockTick(0.0, 0.0, disk_free_share=0.001, disk_free_gib=0.5)]) == [("disk", "on", None)]


def test_a_budget_is_judged_only_where_one_was_set() -> None:
    moment = ClockTick(0.0, 0.0, hours=40.0, dollars=1200.0)
    assert told([moment]) == []
    watch = RuleEngine(rules.load(settings={"budget": {"hours": 31, "dollars": 1000}}))
    assert [alarm.text for alarm in watch.see(moment)] == [
        "projected duration 1 d 16 h, limit 1 d 07 h",
        "projected cost $1,200, budget $1,000",
    ]


def test_the_presets_thresholds_are_not_the_default() -> None:
    low = [Record(n, {"mfu": 9.0}) for n in range(100)]
    assert told(low) == []
    assert told(low, "rented") == [("low_mfu", "on", 49)]


def test_every_detector_is_some_rules_and_every_rule_has_one() -> None:
    used = {rule.detector for rule in rules.load(["rented"])}
    assert used == DETECTORS.keys()


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ({"nan": {"records": 3}}, "gputel.toml: alarm 'nan' has no 'records'; it has metrics, off"),
        ({"naan": {}}, "gputel.toml: no such alarm: 'naan'; the alarms are: nan, spike"),
    ],
)
def test_a_wrong_setting_is_named_with_the_right_ones(own: dict[str, dict[str, object]], line: str) -> None:
    with pytest.raises(GputelError, match="^" + line.replace(".", "\\.")) as caught:
        rules.load(settings=own)
    assert caught.value.exit_code == 2


def test_a_rule_can_be_silenced() -> None:
    assert "spike" not in [rule.name for rule in rules.load(settings={"spike": {"off": True}})]


@pytest.mark.parametrize(
    ("name", "fired"),
    [
        ("d16-base.log.gz", []),
        ("d24-base.log.gz", []),
        ("mid-training.log", []),
        ("nan.log", [("nan", "on", 61), ("nan", "on", 61)]),
        ("crashed-out-of-memory.log", [("oom", "on", 143), ("traceback", "on", 143)]),
    ],
)
def test_sample_logs_raise_what_their_story_says(name: str, fired: list[Told]) -> None:
    log = read_file(SAMPLES / name)
    placed = observations.placed(log.records, log.evals, log.events)
    assert sorted(told(moment for _, _, moment in placed)) == fired
