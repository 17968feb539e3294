"""nanochat's recipe as its documentation described it in October 2025, written anew: model, optimizers, schedule.

The shape is that of the reference trainer. Facts taken over: initialization, learning rates and how they scale with
width, betas, Muon with a momentum that warms up, clipping at 1, a plateau and a linear warm-down to zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WARMDOWN_SHARE, MOMENTUM_STEPS = 0.2, 300
POLYNOMIAL = (3.4445, -4.7750, 2.0315)


def norm(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],))


class Layer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.mix = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = norm(x)
        q, k, v = (m(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        q, k = (norm(turned(z, cos, sin)) for z in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).flatten(-2))
        mixed: Tensor = self.down(functional.relu(self.up(norm(x))).square())
        return x + mixed


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos + b * sin, b * cos - a * sin], -1)


class NanochatGPT(nn.Module):
    def __init__(self, depth: int, dim: int, heads: int, vocab: int, seq: int) -> None:
        super().__init__()
        self.dim = dim
        self.embedding, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        size = dim // heads
        speeds = 10_000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(seq).float(), speeds)
        self.cos, self.sin = angles.cos(), angles.sin()
        nn.init.normal_(self.embedding.weight, std=1.0)
        for name, weight in self.layers.named_parameters():
            out, into = weight.shape
            nn.init.normal_(weight, std=into**-0.5 * min(1.0, (out / into) ** 0.5))
            if name.endswith(("mix.weight", "down.weight")):
                nn.init.zeros_(weight)
        nn.init.zeros_(self.head.weight)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = norm(self.embedding(ids))
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = 15 * torch.tanh(self.head(norm(x)) / 15)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class NanochatTraining:
    """`step(number, steps)` after a backward pass."""

    def __init__(self, model: NanochatGPT) -> None:
        self.model, scale = model, (model.dim / 768) ** -0.5
        ends = [
            {"params": [model.head.weight], "lr": 0.004 * scale},
            {"params": [model.embedding.weight], "lr": 0.2 * scale},
        ]
        self.adam = torch.optim.AdamW(ends, betas=(0.8, 0.95), eps=1e-10, weight_decay=0.0)
        self.peaks = [group["lr"] for group in self.adam.param_groups]
        self.momenta = {weight: torch.zeros_like(weight) for weight in model.layers.parameters()}

    def step(self, number: int, steps: int) -> None:
        share = min(1.0, (steps - number) / (WARMDOWN_SHARE * steps))
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group, peak in zip(self.adam.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share
        self.adam.step()
        warm = min(number / MOMENTUM_STEPS, 1.0)
        self.muon(0.02 * share, 0.85 + 0.10 * warm)
        self.model.zero_grad(set_to_none=True)

    @torch.no_grad()
    def muon(self, rate: float, momentum: float) -> None:
        for weight, mean in self.momenta.items():
            assert weight.grad is not None
            mean.lerp_(weight.grad, 1 - momentum)
            step = orthogonal(weight.grad.lerp(mean, momentum))
            weight.add_(step, alpha=-rate * max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """Newton-Schulz, five steps; in fp32, since many CPUs have no fast bf16."""
    x = matrix.float()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    a, b, c = POLYNOMIAL
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    step: Tensor = x.T if tall else x
    return step.to(matrix.dtype)
