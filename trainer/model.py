"""The users' transformer: rotary, QK norm, ReLU squared, no biases, norms without weights, untied head.

Projections back into the stream and the head start at zero, so the first loss is ln(vocabulary) to the last digit.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.torch_version import TorchVersion
from torch.utils.checkpoint import checkpoint

from gputel.trainer.kernels import Fp8Linear, capped_logits, mean_loss, norm, relu_squared, token_losses
from gputel.trainer.network import BUCKET_MB
from gputel.trainer.options import TrainingPlan
from gputel.trainer.ranks import PADDED, World, placed, replicated, sharded
from gputel.trainer.shape import MLP_RATIO, Shape

ROTARY_BASE = 10_000.0
SPLITS_DDP_GRAPHS = "2.13"  # the first torch that was seen to compile the chunked loss behind DDP


def rotary(seq: int, head_dim: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """The cosines of both halves of a head for every position, and the sines as they are added."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angles = torch.outer(torch.arange(seq, device=device).float(), frequencies)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1), torch.cat((sin, -sin), -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs that the first and the second half of a head make."""
    first, second = x.chunk(2, dim=-1)
    return torch.addcmul(x * cos, torch.cat((second, first), -1), sin).to(x.dtype)


def spread_of(name: str, weight: Tensor) -> float:
    """The standard deviation with which a matrix starts: by what goes in, less where more goes in than out."""
    if name == "embedding.weight":
        return 1.0
    out, into = weight.shape[0], weight.shape[1]
    return float(into**-0.5 * min(1.0, (out / into) ** 0.5))


class Linear(nn.Linear):
    """A weight in fp32, cast to what comes in: autocast would take norms back to fp32."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.to(x.dtype))


class Attention(nn.Module):
    def __init__(self, shape: Shape, dropout: float, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.heads, self.head_dim, self.dropout = shape.heads, shape.head_dim, dropout
        self.qkv = linear(shape.dim, 3 * shape.dim, bias=False)
        self.out = linear(shape.dim, shape.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3 * self.heads, self.head_dim)).transpose(1, 2)
        qk, v = qkv.split((2 * self.heads, self.heads), dim=1)
        q, k = norm(rotate(qk, cos, sin)).chunk(2, dim=1)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


class Block(nn.Module):
    def __init__(self, shape: Shape, dropout: float, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.attention = Attention(shape, dropout, linear)
        self.up = linear(shape.dim, MLP_RATIO * shape.dim, bias=False)
        self.down = linear(MLP_RATIO * shape.dim, shape.dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(norm(x), cos, sin))
        out: Tensor = x + self.dropout(self.down(relu_squared(self.up(norm(x)))))
        return out


class Model(nn.Module):
    """`model(ids)` gives the last position's logits, `model(ids, targets)` the mean loss, `per_token` each loss."""

    def __init__(
        self,
        shape: Shape,
        dropout: float = 0.0,
        *,
        recompute: bool = False,
        fp8: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`dtype` is that of activations and products; weights are fp32."""
        super().__init__()
        self.shape, self.recompute, self.dtype = shape, recompute, dtype
        self.embedding = nn.Embedding(shape.padded_vocab, shape.dim)
        self.blocks = nn.ModuleList(
            Block(shape, dropout, Fp8Linear if fp8 else Linear) for _ in range(shape.depth)
        )
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
        x = norm(self.embedding(ids)).to(self.dtype)
        for block in self.blocks:
            if self.recompute and self.training:
                x = checkpoint(block, x, cos, sin, use_reentrant=False)
            else:
                x = block(x, cos, sin)
        return norm(x)


def built(plan: TrainingPlan, where: World) -> tuple[Model, nn.Module]:
    """The model is laid out without memory, spread, and only then given weights: no rank ever holds more than its
    part, and all draw the same. It is compiled whole, so that the loss fuses with the head; where it is sharded,
    block by block, since gathering weights breaks a graph anyway."""
    options, fsdp = plan.options, plan.options.shard == "fsdp"
    torch.set_float32_matmul_precision("high")
    if plan.compiled and where.size > 1 and TorchVersion(torch.__version__) < SPLITS_DDP_GRAPHS:
        torch._dynamo.config.optimize_ddp = False  # older ones cannot split a higher-order operator
    with torch.device("meta"):
        dtype = torch.bfloat16 if plan.bf16 else torch.float32
        model = Model(plan.shape, options.dropout, recompute=options.recompute, fp8=options.fp8, dtype=dtype)
    if plan.compiled:
        for part in model.blocks if fsdp else [model]:
            part.compile(dynamic=False)
    if fsdp:
        sharded([*model.blocks, model], where, bf16=plan.bf16)
    model.on(where.device)
    model.initialize(options.seed)
    return model, model if fsdp else replicated(model, where, bucket_mb=BUCKET_MB[options.network])
