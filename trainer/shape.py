"""The shape of a model and what follows from it: parameters, FLOPs per token, utilization.

It needs neither torch nor the command line; the planner and the scaling law use it, too.
"""

from dataclasses import dataclass

from gputel.trainer.say import TrainerError

DIM_PER_LAYER, HEAD_DIM, MLP_RATIO, VOCAB_MULTIPLE = 64, 128, 4, 128


@dataclass(frozen=True)
class Shape:
    depth: int
    dim: int
    heads: int
    vocab: int
    seq: int

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def padded_vocab(self) -> int:
        """Rows of embedding and head: tensor cores are slow where a size is no multiple of theirs."""
        return -(-self.vocab // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def parameters(self) -> int:
        return 2 * self.vocab * self.dim + self.depth * (4 + 2 * MLP_RATIO) * self.dim**2

    @property
    def flops_per_token(self) -> int:
        """Forward and backward: six per weight that multiplies, and attention over the whole sequence."""
        return 6 * (self.parameters - self.vocab * self.dim) + 12 * self.depth * self.dim * self.seq


def shape_of(depth: int, *, vocab: int, seq: int, dim: int | None = None, heads: int | None = None) -> Shape:
    """64 wide per layer, ceil(dim / 128) heads, or the next number that divides the width into even heads (depth 5:
    4 of 80), since rotary embeddings turn pairs."""
    dim = DIM_PER_LAYER * depth if dim is None else dim
    if dim % 2:
        raise TrainerError(f"--dim {dim}", "is odd, and rotary embeddings turn pairs", f"try --dim {dim + 1}")
    usual = next(n for n in range(-(-dim // HEAD_DIM), dim) if dim % (2 * n) == 0)
    if heads and dim % (2 * heads):
        fault = f"a dim of {dim} does not split into {heads} heads of an even size"
        raise TrainerError(f"--heads {heads}", fault, f"try --heads {usual}")
    return Shape(depth, dim, heads or usual, vocab, seq)


def mfu_percent(shape: Shape, tokens_per_second: float, peak_flops: float | None, gpus: int) -> float | None:
    """Model FLOPs utilization; None where the peak is not known, never 0 or 100."""
    if peak_flops is None:
        return None
    return 100 * shape.flops_per_token * tokens_per_second / (peak_flops * gpus)
