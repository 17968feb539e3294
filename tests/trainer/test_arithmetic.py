"""Shapes, GPUs, schedules, budgets: what can be said without torch, and that torch agrees."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gputel.trainer.budget import Progress, StopBudget, exit_code
from gputel.trainer.errors import TrainerError
from gputel.trainer.gpus import find_gpu, gpus
from gputel.trainer.model import Model
from gputel.trainer.options import Options
from gputel.trainer.schedule import Schedule
from gputel.trainer.shape import mfu_percent, shape_of

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
    assert shape.steps_for_ratio(20, 524_288) == steps


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


def test_heads_that_do_not_fit_are_refused_with_a_mend() -> None:
    with pytest.raises(
        TrainerError, match=r"--heads 3: a dim of 128 does not split into 3 heads.*; try --heads 1"
    ):
        shape_of(2, vocab=256, seq=16, heads=3)


@pytest.mark.parametrize(
    ("driver", "name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", 989e12),
        ("NVIDIA H100 PCIe", "H100-PCIe", 756e12),
        ("NVIDIA H100 NVL", "H100-NVL", 835e12),
        ("NVIDIA H200", "H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", "A100", 312e12),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB", 312e12),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB", 312e12),
        ("Tesla V100-SXM2-16GB", "V100-16GB", None),
        ("NVIDIA GB10", "GB10", 125e12),
        ("NVIDIA L40S", "L40S", 362e12),
        ("NVIDIA L4", "L4", 121e12),
        ("NVIDIA GeForce RTX 4090", "RTX-4090", 165.2e12),
        ("h100", "H100", 989e12),
        ("h100-pcie", "H100-PCIe", 756e12),
    ],
)
def test_gpu_is_found_by_the_name_of_its_driver(driver: str, name: str, peak: float | None) -> None:
    gpu = find_gpu(driver)
    assert gpu
    assert (gpu.name, gpu.peak_flops) == (name, peak)


def test_slice_of_a_gpu_and_a_stranger_are_unknown() -> None:
    assert find_gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None
    assert find_gpu("NVIDIA Quux 9000") is None


def test_every_name_in_the_table_finds_its_own_row() -> None:
    for gpu in gpus():
        assert [find_gpu(name) for name in gpu.names] == [gpu] * len(gpu.names)


def test_mfu_is_what_the_first_users_logs_say_and_null_for_the_unknown() -> None:
    shape = shape_of(16, vocab=65_536, seq=2048)
    assert mfu_percent(shape, 431_260, 989e12, 2) == pytest.approx(43.9, abs=0.05)
    assert mfu_percent(shape, 431_260, None, 2) is None


@pytest.mark.parametrize(("kind", "middle"), [("cosine", 0.55), ("warmdown", 1.0)])
def test_learning_rate_at_the_end_of_the_warm_up_in_the_middle_and_at_the_end(
    kind: str, middle: float
) -> None:
    schedule = Schedule(kind, steps=1101, warmup_steps=100, warmdown_ratio=0.2, floor=0.1)
    assert schedule.multiplier(0) == pytest.approx(0.01)
    assert schedule.multiplier(99) == 1.0
    assert schedule.multiplier(100) == pytest.approx(1.0)
    assert schedule.multiplier(600) == pytest.approx(middle)
    assert schedule.multiplier(1100) == pytest.approx(0.1)


@given(st.integers(1, 50), st.integers(0, 60), st.sampled_from(["cosine", "warmdown"]))
def test_learning_rate_is_never_above_its_peak_nor_below_its_floor(
    steps: int, warmup: int, kind: str
) -> None:
    schedule = Schedule(kind, steps, warmup, 0.2, 0.1)
    for step in range(steps):
        low = min(0.1, 1 / warmup) if warmup else 0.1
        assert low - 1e-12 <= schedule.multiplier(step) <= 1 + 1e-12


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
    assert StopBudget(10, options).reached(progress) == reason


def test_eight_gpus_at_four_dollars_spend_a_thousand_in_thirty_one_hours() -> None:
    budget = StopBudget(10**9, Options(budget=1000, price=4), gpus=8)
    assert budget.out_of_time(31.2 * 3600) is None
    assert budget.out_of_time(31.25 * 3600) == "budget"
    assert StopBudget(10, Options(hours=2)).out_of_time(7200) == "hours"


def test_exit_codes_are_those_a_shell_expects() -> None:
    codes = {reason: exit_code(reason) for reason in ("steps", "stop-at", "hours", "SIGINT", "SIGTERM")}
    assert codes == {"steps": 0, "stop-at": 0, "hours": 0, "SIGINT": 130, "SIGTERM": 143}
    assert exit_code("non-finite loss") == 1


def test_arithmetic_imports_no_torch() -> None:
    script = (
        "import sys, gputel.trainer.shape, gputel.trainer.gpus, gputel.trainer.schedule; "
        "gputel.trainer.gpus.gpus(); print(sorted({'torch', 'numpy', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
