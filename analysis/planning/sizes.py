"""How large a model is: a depth, layers and a width, or parameters alone -> parameters and FLOPs per token."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gputel.analysis.facts import estimated_flops
from gputel.telemetry.errors import GputelError
from gputel.trainer.errors import TrainerError
from gputel.trainer.shape import Shape, shape_of

DEEPEST = 256
VOCAB, SEQ = 65_536, 2048


@dataclass(frozen=True)
class Size:
    """`shape` is what activations are reckoned from; where parameters were asked for, the users' nearest."""

    name: str
    shape: Shape
    parameters: int
    flops_per_token: int
    tied: bool = False
    shape_is_guessed: bool = False

    @property
    def ends(self) -> int:
        """Parameters of embedding and head, which optimizers often treat apart from the matrices of the blocks."""
        return self.shape.vocab * self.shape.dim * (1 if self.tied else 2)

    @property
    def multiplying(self) -> int:
        """Weights that are copied into 16 bits to multiply; an embedding only looks up, unless it is the head."""
        return self.parameters - (0 if self.tied else self.shape.vocab * self.shape.dim)


def of_depth(depth: int, *, vocab: int = VOCAB, seq: int = SEQ) -> Size:
    shape = shape_of(depth, vocab=vocab, seq=seq)
    return Size(f"d{depth}", shape, shape.parameters, shape.flops_per_token)


def of_layers(
    layers: int, dim: int, heads: int | None, *, vocab: int = VOCAB, seq: int = SEQ, tied: bool = False
) -> Size:
    """Any layers and width. `tied`: one matrix is embedding and head (GPT-2), and multiplies as the head does."""
    try:
        shape = shape_of(layers, vocab=vocab, seq=seq, dim=dim, heads=heads)
    except TrainerError as error:
        raise GputelError(error.place, error.fault, error.mend, exit_code=2) from error
    parameters = shape.parameters - (vocab * dim if tied else 0)
    return Size(f"{layers}x{dim}", shape, parameters, shape.flops_per_token, tied)


def of_parameters(parameters: int, name: str, *, vocab: int = VOCAB, seq: int = SEQ) -> Size:
    """A size of an unknown shape: its FLOPs are estimated from its parameters."""
    near = min(
        (shape_of(depth, vocab=vocab, seq=seq) for depth in range(1, DEEPEST)),
        key=lambda shape: abs(math.log(shape.parameters / parameters)),
    )
    return Size(name, near, parameters, round(estimated_flops(parameters)), shape_is_guessed=True)


def with_seq(size: Size, seq: int) -> Size:
    """The same weights over another length; attention works less over a shorter one."""
    shape = replace(size.shape, seq=seq)
    attention = 0 if size.shape_is_guessed else shape.flops_per_token - size.shape.flops_per_token
    return replace(size, shape=shape, flops_per_token=size.flops_per_token + attention)
