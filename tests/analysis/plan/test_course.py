"""How long a run takes, what it costs, how often it saves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.plan.rows import Row

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


def test_evaluations_are_a_share_of_the_time_of_steps(plan: Plan) -> None:
    """8 million tokens without a backward pass, a third of the work, beside 250 steps."""
    figures = plan(16, "2xH100").figures
    share = figures["eval_percent"]
    assert share.value == pytest.approx(100 * 8e6 / 3 / (250 * 524_288))
    assert share.value == pytest.approx(100 * figures["eval_hours"].value / figures["train_hours"].value)
    assert share.low == 0
    assert share.high == pytest.approx(2.5 * share.value)


def test_without_a_price_there_are_no_dollars(plan: Plan) -> None:
    assert not [name for name in plan(16, "2xH100").figures if "dollars" in name]


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


def test_interruption_costs_half_a_checkpoint_interval_and_a_start(plan: Plan) -> None:
    figures = plan(24, "2xH100", device_batch=8, save_every=3000, price=4.0).figures
    each_s = (figures["hours"].value * 3600 - figures["start_s"].value) / 33_600
    lost = figures["interruption_hours"]
    assert lost.value == pytest.approx((1500 * each_s + figures["start_s"].value) / 3600)
    assert lost.low == pytest.approx(figures["start_s"].low / 3600)
    assert figures["interruption_dollars"].value == pytest.approx(8 * lost.value)


def test_recomputing_costs_a_third_more_time(plan: Plan) -> None:
    once, twice = (plan(24, "2xH100", device_batch=8, recompute=again) for again in (False, True))
    assert twice.figures["dt_ms"].value == pytest.approx(once.figures["dt_ms"].value * 4 / 3)


def test_fp32_reaches_half_of_the_peak_at_best(plan: Plan) -> None:
    half, whole = (plan(16, "2xH100", device_batch=8, dtype=dtype).figures for dtype in ("bf16", "fp32"))
    assert whole["dt_ms"].value == pytest.approx(2 * half["dt_ms"].value)
    assert whole["dt_ms"].high > 10 * half["dt_ms"].high


def test_chip_without_bf16_is_planned_by_its_fp16(plan: Plan) -> None:
    figures = plan(12, "8xV100", device_batch=8).figures
    seconds = 524_288 * 1_038_090_240 / (figures["mfu"].value / 100 * 8 * 125e12)
    assert figures["dt_ms"].value == pytest.approx(1000 * seconds)


def test_data_of_depth_20_are_216_shards(plan: Plan) -> None:
    shards = plan(20, "8xH100").figures["shards"]
    assert shards.value == 216
    assert shards.origin == "assumed"
