"""Options of `gputel plan` -> a plan, or a check."""

from __future__ import annotations

from typing import Any

import pytest

from gputel.analysis.plan import request
from gputel.analysis.plan.request import PlanRequest
from gputel.telemetry.errors import GputelError
from tests.analysis.plan.scenes import Write


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({}, "gputel plan: no size or limit was given; say --depth 16,20,24, --params 1.5B or --layers; "),
        ({"depth": [16]}, "gputel plan: the GPUs are not named; say --on 2xH100"),
        ({"depth": [16], "params": [10**9]}, "--depth --params: are alternatives; give one of them"),
        ({"depth": [16], "heads": 6}, "--heads: goes with --layers; say --layers 12 too"),
        ({"layers": 12, "on": "H100"}, "--layers: needs the width too; say --dim 768"),
        ({"depth": [16], "shard": "all"}, "--shard all: is not known; one of none, zero1, fsdp, zero3"),
    ],
)
def test_impossible_request_is_refused_in_one_line(asked: dict[str, Any], line: str) -> None:
    with pytest.raises(GputelError) as error:
        request.plan(PlanRequest(**asked))
    assert str(error.value).startswith(line)
    assert error.value.exit_code == 2


def test_options_are_those_of_the_run_unless_given(write: Write) -> None:
    like = request.plan(PlanRequest(depth=[12], like=write())).question
    assert (like.machine.words, like.device_batch, like.tokens_per_step) == ("8 x H100", 32, 524_288)
    named = request.plan(PlanRequest(depth=[12], on="2xA100", device_batch_size=4, like=write())).question
    assert (named.machine.words, named.device_batch) == ("2 x A100", 4)


def test_rate_in_steps_an_hour_is_a_rate_in_tokens() -> None:
    (target,) = request.plan(PlanRequest(depth=[16], on="8xH100", target_steps_h=730)).targets
    assert target.tok_per_sec == pytest.approx(730 * 524_288 / 3600)


def test_check_of_several_sizes_is_refused(write: Write) -> None:
    with pytest.raises(GputelError, match=r"^--check: needs one size, but several were given; "):
        request.check(write(), PlanRequest(depth=[12, 16]))


def test_limit_without_a_size_plans_the_largest_depth() -> None:
    plan = request.plan(PlanRequest(budget=1000, price=4, on="8xH100"))
    assert plan.rows[0].figures["dollars"].value <= 1000 < plan.rows[1].figures["dollars"].value
