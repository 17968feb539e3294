"""Multiple choice, on a CPU."""

import pytest
import torch

from gputel.trainer.questions import MultipleChoice, right
from gputel.trainer.ranks import World

from .small_model import CPU


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
    assert right(asked, 32, at_once, losses, here) == [2.0]
    assert right(asked[:1], 3, at_once, losses, here) == [1.0], "of what is too long the end counts"
    shares = [right(asked, 32, at_once, losses, World(rank, rank, 2, CPU))[0] for rank in (0, 1)]
    assert sum(shares) == 2.0
