"""One run that might be: how long, how dear, how often it saves, what it reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.plan import inputs, pace, rows
from gputel.analysis.plan.estimate import computed
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row
from gputel.telemetry.errors import GputelError

Plan = Callable[..., Row]


def test_time_is_work_by_peak_and_mfu_and_money_is_time(plan: Plan) -> None:
    figures = plan(16, "2xH100", device_batch=8, price=4).figures
    seconds = 524_288 * 2_013_265_920 / (0.438 * 2 * 989e12)
    assert figures["dt_ms"].value == pytest.approx(1000 * seconds)
    assert figures["tok_per_sec"].value == pytest.approx(524_288 / seconds)
    assert figures["train_hours"].value == pytest.approx(12_800 * seconds / 3600)
    parts = ("train_hours", "eval_hours", "save_hours")
    assert figures["hours"].value == pytest.approx(
        sum(figures[name].value for name in parts) + figures["start_s"].value / 3600
    )
    assert figures["dollars"].value == pytest.approx(8 * figures["hours"].value)
    assert figures["energy_kwh"].value == pytest.approx(figures["hours"].value * 2 * 0.85 * 0.7)


def test_without_a_price_there_are_no_dollars(plan: Plan) -> None:
    assert not [name for name in plan(16, "2xH100").figures if "dollars" in name]


def test_everything_assumed_is_a_range_and_everything_else_is_not(plan: Plan) -> None:
    for name, figure in plan(24, "8xA100", nodes=2, link=12.5e9, price=2, data_tokens=10**10).figures.items():
        assert figure.is_range == (figure.origin == "assumed"), name
        assert figure.sources, name


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({}, 12_800),
        ({"ratio": 10.0}, 6_400),
        ({"tokens": 1_048_576_000}, 2_000),
        ({"tokens": 1_048_576_000, "hours": 1.0}, 2_000),
        ({"tokens": 1}, 1),
    ],
)
def test_steps_follow_from_the_ratio_or_the_tokens(plan: Plan, asked: dict[str, float], steps: int) -> None:
    assert plan(16, "2xH100", **asked).figures["steps"].value == steps


def test_hours_and_money_make_as_many_steps_as_they_pay_for(plan: Plan) -> None:
    by_time = plan(24, "8xH100", hours=3.0).figures
    by_money = plan(24, "8xH100", budget=96.0, price=4.0).figures
    assert by_time["steps"] == by_money["steps"]
    assert by_time["steps"].is_range
    assert by_time["hours"].value == pytest.approx(3, rel=1e-3)
    assert not by_time["hours"].is_range
    assert by_money["dollars"].value == pytest.approx(96, rel=1e-3)


def test_more_tokens_than_the_hours_allow_are_warned_of(plan: Plan) -> None:
    (warning,) = plan(24, "8xH100", tokens=10**12, hours=31.0, price=4.0).warnings
    assert warning.startswith("takes ")
    assert warning.endswith("; the limit is 1 d 07 h")


def test_data_read_more_than_four_times_are_warned_of(plan: Plan) -> None:
    asked = {"tokens": 34 * 350_000_000, "data_tokens": 350_000_000, "vocab": 32}
    row = plan(64, "8xH100-PCIe", **asked)
    assert row.figures["epochs"].value == pytest.approx(34, rel=1e-3)
    assert row.warnings == ("reads its data 34 times; more than 4 epochs help little",)


def test_data_of_depth_20_are_216_shards_as_its_makers_reckon(plan: Plan) -> None:
    shards = plan(20, "8xH100").figures["shards"]
    assert shards.value == 216
    assert shards.origin == "assumed"


def test_letters_are_tokens_where_the_vocabulary_is_small() -> None:
    assert pace.characters_per_token(32) == computed(1.0, "one character per token")
    assert pace.characters_per_token(50_257).value == pytest.approx(4.65)


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.none() | st.integers(1, 100))
def test_checkpoints_on_the_way_never_fall_on_the_last_step(steps: int, every: int, keep: int | None) -> None:
    made = pace.schedule(inputs.of_depth(4), Recipe(1), steps, every, keep)
    saved = list(range(every, steps, every)) if every else []
    assert made.count == len(saved)
    assert made.kept == (len(saved) + 1 if keep is None else min(keep, len(saved) + 1))


def test_interruption_costs_half_of_what_lies_between_two_checkpoints_and_a_start(plan: Plan) -> None:
    figures = plan(24, "2xH100", device_batch=8, save_every=3000, price=4.0).figures
    each_s = (figures["hours"].value * 3600 - figures["start_s"].value) / 33_600
    lost = figures["interruption_hours"]
    assert lost.value == pytest.approx((1500 * each_s + figures["start_s"].value) / 3600)
    assert lost.low == pytest.approx(figures["start_s"].low / 3600)
    assert figures["interruption_dollars"].value == pytest.approx(8 * lost.value)


def test_recomputing_costs_a_third_more_time(plan: Plan) -> None:
    once, twice = (plan(24, "2xH100", device_batch=8, recompute=again) for again in (False, True))
    assert twice.figures["dt_ms"].value == pytest.approx(once.figures["dt_ms"].value * 4 / 3)


def test_numbers_of_32_bits_reach_half_of_the_peak_at_best(plan: Plan) -> None:
    half, whole = (plan(16, "2xH100", device_batch=8, dtype=dtype).figures for dtype in ("bf16", "fp32"))
    assert whole["dt_ms"].value == pytest.approx(2 * half["dt_ms"].value)
    assert whole["dt_ms"].high > 10 * half["dt_ms"].high


def test_chip_without_bf16_is_planned_by_its_fp16(plan: Plan) -> None:
    figures = plan(12, "8xV100", device_batch=8).figures
    seconds = 524_288 * 1_038_090_240 / (figures["mfu"].value / 100 * 8 * 125e12)
    assert figures["dt_ms"].value == pytest.approx(1000 * seconds)


def test_bare_number_of_parameters_says_whose_shape_it_takes() -> None:
    size = inputs.of_parameters(1_500_000_000, "1.5B")
    assert (size.parameters, size.flops_per_token) == (1_500_000_000, 9_000_000_000)
    row = rows.row(Question(machine("8xA100"), Recipe(1)), size)
    assert row.figures["dim"].origin == "assumed"
    assert row.warnings == ("has no shape: memory and MFU are those of 29 layers of width 1,856",)


def test_tied_head_is_counted_once_and_works_as_much() -> None:
    apart = inputs.of_layers(12, 768, 12, vocab=50_257, seq=1024)
    tied = inputs.of_layers(12, 768, 12, vocab=50_257, seq=1024, tied=True)
    assert apart.parameters - tied.parameters == 50_257 * 768
    assert tied.parameters == 123_532_032
    assert tied.flops_per_token == apart.flops_per_token


def test_spread_weights_travel_twice_for_every_micro_batch() -> None:
    size, eight = inputs.of_depth(24), machine("8xH100-PCIe")
    slow = computed(10.0)
    one = pace.gathering(size, Recipe(8, shard="fsdp"), eight, 1, slow)
    four = pace.gathering(size, Recipe(8, shard="fsdp"), eight, 4, slow)
    assert one
    assert four
    each = 7 / 8 * size.parameters
    assert one.bytes_per_node == pytest.approx(each * (2 * 2 + 4))
    assert four.bytes_per_node == pytest.approx(each * (4 * 2 * 2 + 4))
    assert one.seconds.value == 0
    assert one.seconds.high > 0
    assert pace.gathering(size, Recipe(8), eight, 4, slow) is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("2xH900", "--on 2xH900: no such GPU in the table; it has H100, H100-PCIe, "),
        ("0xH100", "--on 0xH100: at least one GPU is needed; say 1 or more"),
    ],
)
def test_machines_that_are_not_there_are_refused(words: str, line: str) -> None:
    with pytest.raises(GputelError) as told:
        machine(words)
    assert str(told.value).startswith(line)
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "name", "count"),
    [("H100", "H100", 1), ("8 x A100 80GB PCIe", "A100-PCIe", 8), ("4×h200", "H200", 4)],
)
def test_gpus_are_named_as_people_and_drivers_do(words: str, name: str, count: int) -> None:
    found = machine(words)
    assert (found.gpu.name, found.count) == (name, count)


def test_nodes_need_to_divide_the_gpus_and_to_say_what_links_them() -> None:
    with pytest.raises(GputelError, match="8 GPUs do not spread evenly over 3 nodes"):
        machine("8xA100", nodes=3, link_bytes_s=1e9)
    with pytest.raises(GputelError, match="give it, such as --link 10Gbit"):
        machine("8xA100", nodes=4)
