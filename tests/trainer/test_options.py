"""Shapes, also without torch; schedules and the reasons to stop."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gputel.trainer.data import open_corpus
from gputel.trainer.model import Model
from gputel.trainer.options import Options, Progress, TrainingPlan, mfu_percent, settled, shape_of
from gputel.trainer.ranks import World
from gputel.trainer.say import TrainerError

TABLE = [
    (12, 768, 6, 185_597_952, "1.038090e+09", 7_080),
    (16, 1024, 8, 335_544_320, "2.013266e+09", 12_800),
    (20, 1280, 10, 560_988_160, "3.491758e+09", 21_400),
    (24, 1536, 12, 880_803_840, "5.586813e+09", 33_600),
    (32, 2048, 16, 1_879_048_192, "1.207960e+10", 71_680),
]


@pytest.mark.parametrize(("depth", "dim", "heads", "parameters", "flops", "steps"), TABLE)
def test_depth_is_the_shape_that_users_know(
    depth: int, dim: int, heads: int, parameters: int, flops: str, steps: int
) -> None:
    shape = shape_of(depth, vocab=65_536, seq=2048)
    assert (shape.dim, shape.heads, shape.parameters) == (dim, heads, parameters)
    assert f"{shape.flops_per_token:.6e}" == flops
    assert 20 * shape.parameters // 524_288 == steps


@pytest.mark.parametrize("depth", [2, 4, 12, 16, 20, 24, 32])
def test_model_has_as_many_parameters_as_the_arithmetic_says(depth: int) -> None:
    shape = shape_of(depth, vocab=65_536, seq=2048)
    with torch.device("meta"):
        model = Model(shape)
    assert sum(p.numel() for p in model.parameters()) == shape.parameters


@pytest.mark.parametrize(("vocab", "padded"), [(50_257, 50_304), (256, 256), (65, 128), (65_536, 65_536)])
def test_vocabulary_is_padded_to_a_multiple_of_128(vocab: int, padded: int) -> None:
    assert shape_of(2, vocab=vocab, seq=16).padded_vocab == padded


@given(st.integers(1, 200))
def test_every_depth_has_heads_that_fit(depth: int) -> None:
    shape = shape_of(depth, vocab=256, seq=16)
    assert shape.heads * shape.head_dim == shape.dim
    assert shape.head_dim % 2 == 0
    assert shape.head_dim <= 128


def test_heads_that_do_not_fit_are_refused_with_a_hint() -> None:
    with pytest.raises(
        TrainerError, match=r"--heads 3: a dim of 128 does not split into 3 heads.*; try --heads 1"
    ):
        shape_of(2, vocab=256, seq=16, heads=3)


def test_mfu_is_what_the_first_users_logs_say_and_null_for_the_unknown() -> None:
    shape = shape_of(16, vocab=65_536, seq=2048)
    assert mfu_percent(shape, 431_260, 989e12, 2) == pytest.approx(43.9, abs=0.05)
    assert mfu_percent(shape, 431_260, None, 2) is None


def test_arithmetic_imports_no_torch() -> None:
    script = (
        "import sys, gputel.trainer.options, gputel.trainer.gpus; "
        "gputel.trainer.gpus.gpus(); print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def plan(options: Options, steps: int = 10, gpus: int = 1) -> TrainingPlan:
    here = World(0, 0, gpus, torch.device("cpu"))
    return settled(replace(options, depth=2, steps=steps), here, open_corpus(None, None, "bytes"))


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
