"""The arithmetic of a model's shape, without torch: depth in, dimensions, parameters and FLOPs out.

Parameters count both embedding and head (they are not tied) without the padding of the vocabulary; FLOPs leave the
embedding out, which is a look-up.
"""

from dataclasses import dataclass

from gputel.trainer.errors import TrainerError

DIM_PER_LAYER = 64
HEAD_DIM = 128
MLP_RATIO = 4
VOCAB_MULTIPLE = 128


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
        attention = 4 * self.dim**2
        mlp = 2 * MLP_RATIO * self.dim**2
        return 2 * self.vocab * self.dim + self.depth * (attention + mlp)

    @property
    def flops_per_token(self) -> int:
        """Forward and backward: six per weight that multiplies, and attention over the whole sequence."""
        return 6 * (self.parameters - self.vocab * self.dim) + 12 * self.depth * self.dim * self.seq

    def steps_for_ratio(self, tokens_per_parameter: float, tokens_per_step: int) -> int:
        return int(tokens_per_parameter * self.parameters) // tokens_per_step


def shape_of(depth: int, *, vocab: int, seq: int, dim: int | None = None, heads: int | None = None) -> Shape:
    """The users' shape: 64 wide per layer, heads of at most 128; whatever is given overrides."""
    dim = DIM_PER_LAYER * depth if dim is None else dim
    heads = fewest_heads(dim) if heads is None else heads
    if dim % heads or (dim // heads) % 2:
        raise TrainerError(
            f"--heads {heads}",
            f"a dim of {dim} does not split into {heads} heads of an even size",
            f"try --heads {fewest_heads(dim)}",
        )
    return Shape(depth, dim, heads, vocab, seq)


def fewest_heads(dim: int) -> int:
    """ceil(dim/128), or the next number above it that divides the dimension into even heads (depth 5: 4 of 80)."""
    if dim % 2:
        raise TrainerError(f"--dim {dim}", "is odd, and rotary embeddings turn pairs", f"try --dim {dim + 1}")
    heads = -(-dim // HEAD_DIM)
    while dim % heads or (dim // heads) % 2:
        heads += 1
    return heads


def mfu_percent(shape: Shape, tokens_per_second: float, peak_flops: float | None, gpus: int) -> float | None:
    """Model FLOPs utilization; None where the peak is not known, never 0 or 100."""
    if peak_flops is None:
        return None
    return 100 * shape.flops_per_token * tokens_per_second / (peak_flops * gpus)
