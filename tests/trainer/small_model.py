"""A model small enough for a test on a CPU."""

import torch

from gputel.trainer.model import Model
from gputel.trainer.shape import shape_of

SHAPE = shape_of(2, vocab=256, seq=32, dim=32, heads=2)
CPU = torch.device("cpu")


def small_model() -> Model:
    torch.set_num_threads(1)
    model = Model(SHAPE).on(CPU)
    model.initialize(seed=1)
    return model


def stirred(model: Model) -> None:
    """Weights that start at zero would hide faults."""
    dice = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=dice) * 0.05)
