"""nanoGPT's recipe for small models as its documentation described it, written anew: a GPT-2 with AdamW.

Facts taken over: learned positions, LayerNorm without biases, GELU, tied head, initialization, betas (0.9, 0.99),
decay 0.1 of matrices, clipping at 1, a cosine to a tenth. The warm-up is a tenth of the steps, which suits short
runs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Gpt2Layer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(dim, bias=False), nn.LayerNorm(dim, bias=False)
        self.qkv, self.mix = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.first(x)).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).flatten(-2))
        mixed: Tensor = self.down(functional.gelu(self.up(self.second(x))))
        return x + mixed


class NanoGPT(nn.Module):
    def __init__(self, depth: int, dim: int, heads: int, vocab: int, seq: int) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocab, dim), nn.Embedding(seq, dim)
        self.layers = nn.ModuleList(Gpt2Layer(dim, heads) for _ in range(depth))
        self.last = nn.LayerNorm(dim, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                projects = name.endswith(("mix.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * depth) if projects else 0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.last(x) @ self.embedding.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class NanoGPTTraining:
    """`step(number, steps)` after a backward pass."""

    def __init__(self, model: NanoGPT, rate: float) -> None:
        self.model, self.rate = model, rate
        matrices = [weight for weight in model.parameters() if weight.ndim > 1]
        others = [weight for weight in model.parameters() if weight.ndim == 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))

    def step(self, number: int, steps: int) -> None:
        warm = steps // 10
        done = (number - warm) / max(1, steps - warm)
        share = (number + 1) / (warm + 1) if number < warm else 0.1 + 0.45 * (1 + math.cos(math.pi * done))
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.rate * share
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
