"""Schedules and the reasons to stop."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gputel.trainer.data import open_corpus
from gputel.trainer.options import Options, Progress, TrainingPlan, settled
from gputel.trainer.ranks import World


def plan(options: Options, steps: int = 10, gpus: int = 1) -> TrainingPlan:
    here = World(0, 0, gpus, torch.device("cpu"))
    return settled(replace(options, depth=2, steps=steps), here, open_corpus(None, "bytes"))


PLAN = plan(Options())


@pytest.mark.parametrize(("kind", "middle"), [("cosine", 0.55), ("warmdown", 1.0)])
def test_learning_rate_at_the_end_of_the_warm_up_in_the_middle_and_at_the_end(
    kind: str, middle: float
) -> None:
    schedule = plan(Options(schedule=kind, warmup_steps=100, warmdown_ratio=0.2, lr_floor=0.1), steps=1100)
    assert schedule.multiplier(0) == pytest.approx(0.01)
    assert schedule.multiplier(99) == 1.0
    assert schedule.multiplier(100) == pytest.approx(1.0)
    assert schedule.multiplier(600) == pytest.approx(middle)
    assert schedule.multiplier(1100) == pytest.approx(0.1)


@given(st.integers(1, 50), st.integers(0, 60), st.sampled_from(["cosine", "warmdown"]), st.floats(0, 0.5))
def test_learning_rate_is_never_above_its_peak_and_the_last_step_still_learns(
    steps: int, warmup: int, kind: str, floor: float
) -> None:
    options = Options(schedule=kind, warmup_steps=warmup, warmdown_ratio=0.2, lr_floor=floor)
    schedule = replace(PLAN, options=options, steps=steps)
    low = min(floor, 1 / warmup) if warmup else floor
    for step in range(steps):
        assert low - 1e-12 <= schedule.multiplier(step) <= 1 + 1e-12
        assert schedule.multiplier(step) > 0


def test_learning_rates_of_embedding_and_head_fall_with_the_root_of_the_width() -> None:
    narrow, wide = plan(Options(dim=192)), plan(Options(dim=768))
    assert (wide.embedding_lr, wide.head_lr) == (0.2, 0.004)
    assert narrow.embedding_lr / wide.embedding_lr == narrow.head_lr / wide.head_lr == pytest.approx(2)
    assert narrow.matrix_lr == wide.matrix_lr, "Muon's step has the same size at any width"


@pytest.mark.parametrize(
    ("options", "progress", "reason"),
    [
        (Options(), Progress(step=10), "steps"),
        (Options(), Progress(step=9), None),
        (Options(stop_at=5), Progress(step=5), "stop-at"),
        (Options(patience=3), Progress(step=4, stale_evaluations=3), "early stop"),
        (Options(max_skips=2), Progress(step=4, skips_in_a_row=2), "non-finite loss"),
    ],
)
def test_run_ends_for_a_reason(options: Options, progress: Progress, reason: str | None) -> None:
    assert plan(options).reached(progress) == reason


def test_eight_gpus_at_four_dollars_spend_a_thousand_in_thirty_one_hours() -> None:
    budget = plan(Options(budget=1000, price=4), gpus=8)
    assert budget.out_of_time(31.2 * 3600) is None
    assert budget.out_of_time(31.25 * 3600) == "budget"
    assert plan(Options(hours=2)).out_of_time(7200) == "hours"
