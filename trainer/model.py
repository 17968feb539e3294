"""A nanochat-style transformer: rotary, QK norm, ReLU squared, no biases, norms without weights, untied head.

Projections back into the stream and the head start at zero, so the first loss is ln(vocabulary) to the last digit.
Three operations are written out: for a large batch the loss keeps gradients instead of logits, a chunk at a time;
norm and activation are shorter on a CPU.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.torch_version import TorchVersion
from torch.utils.checkpoint import checkpoint

from gputel.trainer.kernels import Fp8Linear
from gputel.trainer.options import TrainingPlan
from gputel.trainer.ranks import BUCKET_MB, PADDED, World, placed, replicated, sharded
from gputel.trainer.shape import MLP_RATIO, Shape

ROTARY_BASE = 10_000.0
SOFTCAP, LOGITS_AT_ONCE = 15.0, 2**27
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
    def __init__(self, shape: Shape, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.heads, self.head_dim = shape.heads, shape.head_dim
        self.qkv = linear(shape.dim, 3 * shape.dim, bias=False)
        self.out = linear(shape.dim, shape.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3 * self.heads, self.head_dim)).transpose(1, 2)
        qk, v = qkv.split((2 * self.heads, self.heads), dim=1)
        q, k = norm(rotate(qk, cos, sin)).chunk(2, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


class Block(nn.Module):
    def __init__(self, shape: Shape, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.attention = Attention(shape, linear)
        self.up = linear(shape.dim, MLP_RATIO * shape.dim, bias=False)
        self.down = linear(MLP_RATIO * shape.dim, shape.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(norm(x), cos, sin)
        out: Tensor = x + self.down(relu_squared(self.up(norm(x))))
        return out


class Model(nn.Module):
    """`model(ids)` gives the last position's logits, `model(ids, targets)` the mean loss, `per_token` each loss."""

    def __init__(
        self,
        shape: Shape,
        *,
        recompute: bool = False,
        fp8: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`dtype` is that of activations and products; weights are fp32."""
        super().__init__()
        self.shape, self.recompute, self.dtype = shape, recompute, dtype
        self.embedding = nn.Embedding(shape.padded_vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape, Fp8Linear if fp8 else Linear) for _ in range(shape.depth))
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
        model = Model(plan.shape, recompute=options.recompute, fp8=options.fp8, dtype=dtype)
    if plan.compiled:
        for part in model.blocks if fsdp else [model]:
            part.compile(dynamic=False)
    if fsdp:
        sharded([*model.blocks, model], where, bf16=plan.bf16)
    model.on(where.device)
    model.initialize(options.seed)
    return model, model if fsdp else replicated(model, where, bucket_mb=BUCKET_MB[options.network])


def capped_logits(hidden: Tensor, head: Tensor, vocab: int) -> Tensor:
    logits = (hidden @ head.to(hidden.dtype).T)[:, :vocab]
    return SOFTCAP * torch.tanh(logits.float() / SOFTCAP)


def mean_loss(hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
    if hidden.shape[0] * head.shape[0] <= LOGITS_AT_ONCE:
        return functional.cross_entropy(capped_logits(hidden, head, vocab), targets)
    loss: Tensor = _ChunkedLoss.apply(hidden, head, targets, vocab)  # type: ignore[no-untyped-call]
    return loss


def token_losses(hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
    """One figure per token, for evaluation; builds no graph over more than a chunk."""
    chunks = [
        functional.cross_entropy(capped_logits(h, head, vocab), t, reduction="none")
        for h, t in _chunks(hidden, head, targets)
    ]
    return torch.cat(chunks)


def _chunks(hidden: Tensor, head: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    size = max(1, LOGITS_AT_ONCE // head.shape[0])
    return list(zip(torch.split(hidden, size), torch.split(targets, size), strict=True))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
        weight, padding = head.to(hidden.dtype), head.shape[0] - vocab
        grad_head = torch.zeros_like(head, dtype=torch.float32)
        total, grads = hidden.new_zeros((), dtype=torch.float32), []
        for h, t in _chunks(hidden, weight, targets):
            loss, grad_logits = _loss_and_gradient((h @ weight.T)[:, :vocab].float(), t)
            grad_logits = functional.pad((grad_logits / len(targets)).to(h.dtype), (0, padding))
            total = total + loss
            grads.append(grad_logits @ weight)
            grad_head += (grad_logits.T @ h).float()
        ctx.save_for_backward(torch.cat(grads), grad_head.to(head.dtype))
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_head = ctx.saved_tensors
        scale = grad_outputs[0]
        return grad_hidden * scale.to(grad_hidden.dtype), grad_head * scale.to(grad_head.dtype), None, None


def _loss_and_gradient(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of a chunk's losses, and its gradient by the raw logits: softmax less one, times the cap's slope."""
    slope = torch.tanh(logits / SOFTCAP)
    log_probabilities = functional.log_softmax(SOFTCAP * slope, dim=-1)
    picked = targets.unsqueeze(1)
    loss = -log_probabilities.gather(1, picked).sum()
    gradient = log_probabilities.exp().scatter_add(1, picked, torch.full_like(picked, -1, dtype=logits.dtype))
    return loss, gradient * (1 - slope * slope)


class _Norm(torch.autograd.Function):
    """RMSNorm in fp32 on a CPU, for which torch has no kernel: its eight operations are five."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps)
        ctx.save_for_backward(out := x * scale, scale)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (grad,), (out, scale) = grad_outputs, ctx.saved_tensors
        return torch.addcmul(grad, out, (grad * out).mean(-1, keepdim=True), value=-1).mul_(scale)


class _ReluSquared(torch.autograd.Function):
    """Its gradient is twice what it keeps, and zero where that is zero: neither a power nor a threshold is left."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(positive := functional.relu(x))
        return positive.square()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        grad: Tensor = grad_outputs[0] * ctx.saved_tensors[0]
        return grad.mul_(2)


def norm(x: Tensor) -> Tensor:
    if x.is_cuda or x.dtype != torch.float32:
        return functional.rms_norm(x, (x.shape[-1],))
    made: Tensor = _Norm.apply(x)  # type: ignore[no-untyped-call]
    return made


def relu_squared(x: Tensor) -> Tensor:
    made: Tensor = _ReluSquared.apply(x)  # type: ignore[no-untyped-call]
    return made
