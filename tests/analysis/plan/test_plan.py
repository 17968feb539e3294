"""The largest depth that fits, and what would make fit what does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis import plan
from gputel.analysis.plan import inputs, rows
from gputel.analysis.plan.inputs import Size
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row, row
from gputel.telemetry.errors import GputelError

Ask = Callable[..., Question]
Plan = Callable[..., Row]


def text_of_32(depth: int) -> Size:
    return inputs.of_depth(depth, vocab=32)


def test_depth_above_the_largest_is_too_dear(ask: Ask) -> None:
    asked = ask("8xH100-PCIe", price=4, budget=1000)
    (best, above), said = plan.largest(asked, text_of_32)
    assert best.figures["dollars"].value <= 1000 < above.figures["dollars"].value
    assert above.size.shape.depth == best.size.shape.depth + 1
    assert said[0] == f"{best.name} is the largest that fits"
    assert "in the worst case of every range" in said[-1]


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"hours": 10}, "takes"),
        ({"hours": 10_000, "device_batch": 32}, "needs"),
        ({"hours": 10_000, "data_tokens": 350_000_000}, "reads its data"),
    ],
    ids=["time", "memory", "data"],
)
def test_time_memory_and_data_are_limits_as_money_is(ask: Ask, asked: dict[str, Any], fault: str) -> None:
    (best, above), said = plan.largest(ask("8xH100", **asked), text_of_32)
    assert not plan.broken(ask("8xH100", **asked), best, asked["hours"])
    assert any(f"{above.name} {fault}" in part for part in said)


def test_no_depth_is_proposed_that_reads_its_data_more_than_four_times(ask: Ask) -> None:
    (best, _), _ = plan.largest(ask("8xH100", hours=31, data_tokens=350_000_000), text_of_32)
    assert best.figures["epochs"].value <= 4
    assert not best.warnings


def test_nearest_recipe_is_named_if_nothing_fits(ask: Ask) -> None:
    with pytest.raises(GputelError, match=r"^--budget 0.1: nothing fits; the nearest is d1, which takes"):
        plan.largest(ask("8xH100", price=4, budget=0.1), text_of_32)


def test_budget_without_a_price_is_no_question(ask: Ask) -> None:
    with pytest.raises(GputelError, match=r"^--budget 10: needs the price of a GPU hour; add --price$"):
        plan.largest(ask("8xH100", budget=10), text_of_32)


@pytest.mark.parametrize("depth", [36, 40, 48, 64, 96])
def test_every_change_that_is_proposed_does_make_it_fit(ask: Ask, depth: int) -> None:
    asked = ask("8xH100", device_batch=8)
    size = inputs.of_depth(depth)
    found = row(asked, size)
    assert found.fits == "no"
    ways = rows.changes(asked, found)
    assert ways
    for way in ways:
        said = dict(re.findall(r"--([a-z-]+) (\w+)", way))
        again = ask(
            said.get("on", "8xH100"),
            device_batch=int(said.get("device-batch-size", 8)),
            shard=said.get("shard", "none"),
            loss=said.get("loss", "full"),
            recompute="--recompute" in way,
        )
        other = inputs.with_seq(size, int(said["seq"])) if "seq" in said else size
        assert row(again, other).fits != "no", way


def test_size_that_no_recipe_makes_fit_says_how_many_gpus_would(ask: Ask) -> None:
    asked = ask("2xH100", device_batch=8)
    (way,) = rows.changes(asked, row(asked, inputs.of_depth(64)))
    assert way == "--on 4xH100 --device-batch-size 1 --shard zero3 --recompute"
    again = ask("4xH100", device_batch=1, shard="zero3", recompute=True)
    assert row(again, inputs.of_depth(64)).fits != "no"


def test_tight_size_is_reported_what_would_give_it_room(ask: Ask) -> None:
    asked = ask("2xH100", device_batch=8)
    found = plan.of_sizes(asked, [inputs.of_depth(32)]).rows[0]
    assert found.fits == "tight"
    assert found.changes[0].startswith("--device-batch-size 4 ")


def test_without_a_batch_the_largest_that_fits_is_taken(ask: Ask, plan: Plan) -> None:
    batches = [plan(depth, "8xH100").figures["device_batch"].value for depth in (12, 24, 32)]
    assert batches == sorted(batches, reverse=True)
    for depth in (12, 24, 32):
        assert plan(depth, "8xH100").fits == "fits"


def test_batch_that_does_not_divide_a_step_is_reported_with_one_that_does(plan: Plan) -> None:
    with pytest.raises(GputelError) as result:
        plan(16, "2xH100", device_batch=7)
    assert str(result.value) == (
        "--device-batch-size 7: 7 x 2048 x 2 GPUs = 28,672 do not divide 524,288 tokens per step; "
        "take another batch, or --total-batch-size 516096"
    )
    assert plan(16, "2xH100", device_batch=7, tokens_per_step=516_096).figures["accumulation"].value == 18
