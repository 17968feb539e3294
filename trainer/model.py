"""The users' transformer: rotary, QK norm, ReLU squared, no biases, norms without weights, untied head.

Projections back into the stream and the head start at zero, so the first loss is ln(vocabulary) to the last digit.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gputel.trainer.loss import capped_logits, mean_loss, token_losses
from gputel.trainer.parallel import PADDED, placed
from gputel.trainer.shape import MLP_RATIO, Shape

ROTARY_BASE = 10_000.0


def norm(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],))


def rotary(seq: int, head_dim: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angles = torch.outer(torch.arange(seq, device=device).float(), frequencies)
    return angles.cos()[:, None], angles.sin()[:, None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1).to(x.dtype)


def spread_of(name: str, weight: Tensor) -> float:
    """The standard deviation with which a matrix starts: by what goes in, less where more goes in than out."""
    if name == "embedding.weight":
        return 1.0
    out, into = weight.shape[0], weight.shape[1]
    return float(into**-0.5 * min(1.0, (out / into) ** 0.5))


class Attention(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.heads, self.head_dim, self.dropout = shape.heads, shape.head_dim, dropout
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim, bias=False)
        self.out = nn.Linear(shape.dim, shape.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.head_dim)).unbind(-3)
        q, k = norm(rotate(q, cos, sin)), norm(rotate(k, cos, sin))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


class Block(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(shape, dropout)
        self.up = nn.Linear(shape.dim, MLP_RATIO * shape.dim, bias=False)
        self.down = nn.Linear(MLP_RATIO * shape.dim, shape.dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(norm(x), cos, sin))
        out: Tensor = x + self.dropout(self.down(functional.relu(self.up(norm(x))).square()))
        return out


class Model(nn.Module):
    """`model(ids)` gives the last position's logits, `model(ids, targets)` the mean loss, `per_token` each loss."""

    def __init__(self, shape: Shape, dropout: float = 0.0, *, recompute: bool = False) -> None:
        super().__init__()
        self.shape, self.recompute = shape, recompute
        self.embedding = nn.Embedding(shape.padded_vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape, dropout) for _ in range(shape.depth))
        self.head = nn.Linear(shape.dim, shape.padded_vocab, bias=False)
        self.turns = rotary(shape.seq, shape.head_dim)

    def on(self, device: torch.device) -> "Model":
        """Give a model that was laid out without memory its place; the weights are still to come. The rotary
        tables are no buffers: DDP would send buffers around before every step."""
        self.to_empty(device=device)
        self.turns = rotary(self.shape.seq, self.shape.head_dim, device)
        return self

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """The same weights on every device and under every sharding: drawn on the CPU, matrix by matrix. The
        padding of the vocabulary is zero, gets no gradient and stays zero."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            rows = self.shape.vocab if name in PADDED else weight.shape[0]
            drawn = torch.zeros(rows, weight.shape[1])
            if not name.endswith(("out.weight", "down.weight", "head.weight")):
                drawn = torch.randn(drawn.shape, generator=generator) * spread_of(name, weight)
            weight.copy_(placed(drawn, weight))

    def forward(self, ids: Tensor, targets: Tensor | None = None, *, per_token: bool = False) -> Tensor:
        hidden = self._hidden(ids)
        if targets is None:
            return capped_logits(hidden[:, -1], self.head.weight, self.shape.vocab)
        flat, flat_targets = hidden.flatten(0, 1), targets.flatten()
        if per_token:
            return token_losses(flat, self.head.weight, flat_targets, self.shape.vocab).view_as(targets)
        return mean_loss(flat, self.head.weight, flat_targets, self.shape.vocab)

    def _hidden(self, ids: Tensor) -> Tensor:
        cos, sin = (table[: ids.shape[1]] for table in self.turns)
        x = norm(self.embedding(ids))
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for block in self.blocks:
            if self.recompute and self.training:
                x = checkpoint(block, x, cos, sin, use_reentrant=False)
            else:
                x = block(x, cos, sin)
        return norm(x)
