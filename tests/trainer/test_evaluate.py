"""Text from a model, and multiple choice, on a CPU."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from gputel.trainer.data import Shard
from gputel.trainer.evaluate import MultipleChoice, Validation, right, sampled
from gputel.trainer.model import Model
from gputel.trainer.ranks import World
from gputel.trainer.tokenizer import remade

from .small_model import CPU, stirred


def test_sample_repeats_itself_with_the_same_dice(model: Model) -> None:
    stirred(model)
    tokenizer = remade({"kind": "bytes"})
    texts = [sampled(model, tokenizer, "def ", 40, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("def ")


def test_text_of_a_model_that_is_not_compiled_imports_no_compiler() -> None:
    script = """
import sys
from gputel.trainer.evaluate import eager
with eager():
    print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("at_once", [1, 40, 1000])
def test_multiple_choice_takes_the_likeliest_ending_per_token_and_not_the_longest_or_shortest(
    at_once: int,
) -> None:
    """Nats are given by token: an ending's mean decides, whatever its length and the padding beside it."""
    nats = {1: 2.0, 2: 1.0, 3: 0.5, 9: 7.0, 0: 0.0}

    def losses(tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, 1:].clone().float().apply_(lambda token: nats[int(token)])

    here = World(0, 0, 1, CPU)
    asked = [
        MultipleChoice([9, 9], [[1], [2, 3, 3], [1, 1, 1, 1, 1]], 1),
        MultipleChoice([9], [[3], [2, 2]], 0),
        MultipleChoice([9], [[3], [2, 2]], 1),
    ]
    assert right(asked, 32, at_once, losses, here).item() == 2.0
    assert right(asked[:1], 3, at_once, losses, here).item() == 1.0, "of what is too long the end counts"
    shares = [right(asked, 32, at_once, losses, World(rank, rank, 2, CPU)).item() for rank in (0, 1)]
    assert sum(shares) == 2.0


def test_evaluation_leaves_its_sums_on_the_device_of_the_rank() -> None:
    """NCCL adds up what is on a GPU, and nothing else. A device without memory stands in for one."""
    device = torch.device("meta")

    def losses(tokens: torch.Tensor) -> torch.Tensor:
        assert tokens.device == device
        return torch.zeros(tokens.shape[0], tokens.shape[1] - 1, device=device)

    here = World(1, 1, 2, device)
    shard = Shard("s", lambda: np.arange(200))
    rows = [(shard, row * 8) for row in range(5)]
    sums = Validation(rows, 8, 2, torch.ones(256, device=device)).sums(losses, here)
    asked = [MultipleChoice([9, 9], [[1], [2, 3]], 1)] * 3
    assert sums.device == right(asked, 32, 8, losses, here).device == device
