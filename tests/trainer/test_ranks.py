"""Several ranks are one training: the same data, the same gradients, the same steps."""

from pathlib import Path

import pytest

from .conftest import Train, same

BATCH = ("--steps", "6", "--total-batch-size", "256")
pytestmark = pytest.mark.long


@pytest.mark.parametrize("extra", [(), ("--dtype", "bf16"), ("--dropout", "0.1"), ("--optimizer", "adamw")])
def test_two_ranks_equal_one_process_that_accumulates_bit_for_bit(
    tmp_path: Path, train: Train, extra: tuple[str, ...]
) -> None:
    one = train(tmp_path / "one", *BATCH, "--device-batch-size", "4", *extra)
    two = train(tmp_path / "two", *BATCH, "--device-batch-size", "4", *extra, ranks=2)
    same(one, two)


def test_sharded_gradients_that_travel_once_a_step_or_after_every_micro_batch_train_alike(
    tmp_path: Path, train: Train
) -> None:
    options = (*BATCH, "--device-batch-size", "2", "--shard", "fsdp")
    often = train(tmp_path / "often", *options, ranks=2)
    once = train(tmp_path / "once", *options, "--keep-whole-gradients", ranks=2)
    assert often.losses() == pytest.approx(once.losses(), abs=1e-5)


def test_four_ranks_equal_one_process_within_rounding(tmp_path: Path, train: Train) -> None:
    """Weights within a ten-thousandth of a step of the embedding, whose rate is 1 at this width."""
    one = train(tmp_path / "one", *BATCH, "--device-batch-size", "2")
    four = train(tmp_path / "four", *BATCH, "--device-batch-size", "2", ranks=4)
    weights = [{n: t for n, t in run.tensors().items() if n.startswith("model:")} for run in (one, four)]
    assert max(float((weights[0][n] - weights[1][n]).abs().max()) for n in weights[0]) < 1e-4
    assert one.losses() == pytest.approx(four.losses(), abs=1e-5)
