"""Several ranks are one training: the same data, the same gradients, the same steps."""

import gc
import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from torch import Tensor
from torch.distributed.tensor import DTensor

from gputel.trainer.data import Feed
from gputel.trainer.evaluate import Losses, Validation
from gputel.trainer.ranks import World

from .conftest import Left, Start, Train, same
from .small_model import SHAPE

BATCH = ("--steps", "6", "--total-batch-size", "256")
pytestmark = pytest.mark.long


@pytest.mark.parametrize("extra", [(), ("--dtype", "bf16"), ("--optimizer", "adamw")])
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


def bytes_of_tensors() -> int:
    """What all tensors of this process hold, each storage once."""
    gc.collect()
    tensors = [each for each in gc.get_objects() if isinstance(each, Tensor)]
    tensors += [each.grad for each in tensors if each.is_leaf and each.grad is not None]
    held = (each.to_local() if isinstance(each, DTensor) else each for each in tensors)
    storages = [each.untyped_storage() for each in held if each.device.type == "cpu"]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def print_memory_before_every_micro_batch() -> None:
    whole = Feed.next

    def noted(feed: Feed) -> tuple[Tensor, Tensor]:
        sys.stderr.write(f"held {bytes_of_tensors()}\n")
        return whole(feed)

    patch.object(Feed, "next", noted).start()


@pytest.mark.parametrize(
    ("option", "least", "most"), [((), 0.4, 0.6), (("--keep-whole-gradients",), 0.9, 1.1)]
)
def test_rank_of_two_holds_half_of_the_gradients_between_micro_batches_unless_it_keeps_them_whole(
    tmp_path: Path, start: Start, option: tuple[str, ...], least: float, most: float
) -> None:
    options = ("--steps", "1", "--total-batch-size", "256", "--device-batch-size", "2", "--shard", "fsdp")
    run = start(tmp_path / "run", *options, *option, ranks=2, sabotage=print_memory_before_every_micro_batch)
    codes, output = run.end()
    assert codes == [0, 0], output
    held = sorted(int(line.split()[1]) for line in output.splitlines() if line.startswith("held "))
    assert len(held) == 4
    gradients = (held[2] + held[3] - held[0] - held[1]) / 2
    assert least < gradients / (4 * SHAPE.parameters) < most


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_four_ranks_equal_one_process_within_rounding(tmp_path: Path, train: Train, scale: float) -> None:
    """Matrices and head within rounding; the embedding within a small part of its rate, since AdamW divides by the
    size of a gradient, and where that nearly cancels its rounding counts more. A row that is read twice or left out
    moves an embedding by the whole rate, and is seen in the losses."""
    rates = {"lr": 0.02, "embedding-lr": 0.98, "head-lr": 0.02}
    options = [word for name, rate in rates.items() for word in (f"--{name}", str(rate * scale))]
    one = train(tmp_path / "one", *BATCH, *options, "--device-batch-size", "2")
    four = train(tmp_path / "four", *BATCH, *options, "--device-batch-size", "2", ranks=4)
    whole, parts = one.tensors(), four.tensors()
    moved = {name: float((whole[name] - parts[name]).abs().max()) for name in whole if "model:" in name}
    assert moved.pop("model:embedding.weight") < rates["embedding-lr"] * scale / 50
    assert max(moved.values()) < (1e-4 if scale == 1 else 1e-6)
    assert one.losses() == pytest.approx(four.losses(), abs=1e-5)


def test_two_ranks_with_large_buckets_for_a_slow_network_train_as_before(
    tmp_path: Path, train: Train
) -> None:
    usual = train(tmp_path / "usual", *BATCH, "--device-batch-size", "4", ranks=2)
    wan = train(tmp_path / "wan", *BATCH, "--device-batch-size", "4", "--network", "wan", ranks=2)
    same(usual, wan)


@pytest.mark.parametrize("shard", ["none", "fsdp"])
def test_two_ranks_evaluate_as_one_does(tmp_path: Path, train: Train, shard: str) -> None:
    """Sums over ranks; of seven batches of rows and of questions one rank has one more than the other."""
    questions = tmp_path / "questions.jsonl"
    row = {"ctx": "def main", "endings": ["(self):", "qzx jvv", "0"], "label": 0}
    questions.write_text("".join(json.dumps({**row, "label": i % 3}) + "\n" for i in range(37)))
    evaluation = ("--eval-every", "6", "--eval-tokens", "896", "--hellaswag", str(questions))
    options = (*BATCH, *evaluation, "--sample-prompt", "def ", "--sample-tokens", "4")
    one = train(tmp_path / "one", *options, "--device-batch-size", "4").metrics("eval_end")[-1]
    ranks = train(tmp_path / "two", *options, "--device-batch-size", "4", "--shard", shard, ranks=2)
    two = ranks.metrics("eval_end")[-1]
    assert (one["fault"], two["fault"]) == (None, None)
    assert two["val_loss"] == pytest.approx(one["val_loss"], abs=1e-5)
    assert two["val_bpb"] == pytest.approx(one["val_bpb"], abs=1e-5)
    assert two["hellaswag_acc"] == one["hellaswag_acc"] > 0


def fail_to_evaluate_on_rank_1() -> None:
    whole = Validation.sums

    def failing(validation: Validation, losses: Losses, where: World) -> Tensor:
        if where.rank == 1:
            raise ValueError("rank 1 has no validation")
        return whole(validation, losses, where)

    patch.object(Validation, "sums", failing).start()


def test_evaluation_that_fails_on_one_rank_is_reported_and_all_train_on(tmp_path: Path, start: Start) -> None:
    """Ranks hear of it before they would wait for its sum."""
    options = (*BATCH, "--device-batch-size", "4", "--eval-every", "3")
    codes, output = start(tmp_path / "run", *options, ranks=2, sabotage=fail_to_evaluate_on_rank_1).end()
    assert codes == [0, 0], output
    assert "evaluation at step 3 failed: ValueError: rank 1 has no validation; the training goes on" in output
    assert len(Left(tmp_path / "run").metrics("step")) == 6
