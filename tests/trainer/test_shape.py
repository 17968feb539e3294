"""The arithmetic of shapes, which needs no torch."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gputel.trainer.model import Model
from gputel.trainer.say import TrainerError
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


def test_arithmetic_imports_neither_torch_nor_the_command_line() -> None:
    script = (
        "import sys, gputel.trainer.shape, gputel.trainer.gpus; "
        "gputel.trainer.gpus.gpus(); print(sorted({'torch', 'numpy', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
