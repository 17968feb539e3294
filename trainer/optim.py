"""The optimizers: AdamW for the embedding and the head, Muon for the matrices of the blocks, each with its own
learning rate.

Muon makes the momentum of a matrix orthogonal before it is applied; q, k and v count as three matrices. Every rank
does its share of that work, and all gather the results. Nothing waits for the device: a step that is not finite is
left out there. The state of a weight has the weight's name, as a checkpoint keeps it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from gputel.trainer.options import TrainingPlan

ADAMW: dict[str, Any] = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-10, "amsgrad": False, "maximize": False}
# The older name warns in torch 2.13.
ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
MOMENTUM, FIRST_MOMENTUM, MOMENTUM_STEPS = 0.95, 0.85, 300
# Five odd polynomials that bring singular values from 0.001 to 1 to about 1, in bf16 as well: "The Polar Express"
# (arXiv 2505.16932), with its safety factor of 2 %.
POLYNOMIALS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


@dataclass(frozen=True)
class Group:
    """Weights that are trained alike, with their names."""

    weights: dict[str, nn.Parameter]
    peak: float
    decay: float = 0.0
    muon: bool = False


class Optimizer:
    """For `rank` of `size` ranks. `state` holds for every weight, by name, tensors of its shape (or the steps)."""

    def __init__(self, groups: list[Group], *, rank: int = 0, size: int = 1, compiled: bool = False) -> None:
        self.groups, self.rank, self.size = groups, rank, size
        self.orthogonal = torch.compile(orthogonal, dynamic=False) if compiled else orthogonal
        self.state: dict[str, dict[str, Tensor]] = {}
        for group in groups:
            for name, weight in group.weights.items():
                kinds = ("momentum",) if group.muon else ("mean", "square")
                self.state[name] = {kind: torch.zeros_like(weight, requires_grad=False) for kind in kinds}
                if not group.muon:
                    self.state[name]["steps"] = torch.zeros((), device=weight.device)

    @torch.no_grad()
    def step(self, step: int, multiplier: float, bad: Tensor) -> None:
        """Apply the gradients, unless `bad`, a boolean on the device; that leaves weights and state as they are."""
        for group in self.groups:
            if group.muon:
                self._muon(group, group.peak * multiplier, momentum(step), bad)
            else:
                self._adamw(group, group.peak * multiplier, bad)

    def zero_grad(self) -> None:
        for group in self.groups:
            for weight in group.weights.values():
                weight.grad = None

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All state, each tensor as `weight/part`."""
        for name, parts in self.state.items():
            yield from ((f"{name}/{part}", tensor) for part, tensor in parts.items())

    def _adamw(self, group: Group, rate: float, bad: Tensor) -> None:
        rates = {"lr": rate, "weight_decay": group.decay, "fused": True, "found_inf": bad.float(), **ADAMW}
        held = {name: weight for name, weight in group.weights.items() if local(weight).numel()}
        if held:
            kinds = [[local(self.state[name][k]) for name in held] for k in ("mean", "square", "steps")]
            mean, square, steps = kinds
            weights, grads = map(local, held.values()), map(gradient, held.values())
            adamw([*weights], [*grads], mean, square, [], steps, **rates)

    def _muon(self, group: Group, rate: float, momentum: float, bad: Tensor) -> None:
        fine = (~bad).float()
        for alike in _by_shape(group.weights):
            updates = [self._nesterov(name, weight, momentum, bad) for name, weight in alike]
            parts = 3 if alike[0][0].endswith("qkv.weight") else 1
            whole_rows, columns = alike[0][1].shape
            scale = max(1.0, whole_rows / parts / columns) ** 0.5
            shared = self._sharded if isinstance(alike[0][1], DTensor) else self._replicated
            for (_, weight), update in zip(alike, shared(updates, whole_rows, parts), strict=True):
                if group.decay:
                    local(weight).mul_(1 - fine * rate * group.decay)
                local(weight).addcmul_(update.float(), fine * rate * scale, value=-1)

    def _nesterov(self, name: str, weight: nn.Parameter, momentum: float, bad: Tensor) -> Tensor:
        grad, mean = gradient(weight).masked_fill(bad, 0.0), local(self.state[name]["momentum"])
        mean.lerp_(grad, torch.where(bad, 0.0, 1 - momentum))
        return grad.lerp(mean, momentum)

    def _replicated(self, updates: list[Tensor], rows: int, parts: int) -> list[Tensor]:
        """Every rank has every update whole: it takes its share of them, and gathers what the others made."""
        share = -(-len(updates) // self.size)
        padded = updates + [torch.zeros_like(updates[0])] * (share * self.size - len(updates))
        made = self._made(torch.stack(padded[self.rank * share :][:share]), parts)
        if self.size > 1:
            gathered = made.new_empty(share * self.size, *made.shape[1:])
            ALL_GATHER(gathered, made)
            made = gathered
        return list(made[: len(updates)])

    def _sharded(self, updates: list[Tensor], rows: int, parts: int) -> list[Tensor]:
        """Every rank has some rows of every update: as many matrices as there are ranks travel at a time, each to
        the rank that makes it, and back."""
        made: list[Tensor] = []
        height, columns = -(-rows // self.size), updates[0].shape[1]
        for first in range(0, len(updates), self.size):
            shards = updates[0].new_zeros(self.size, height, columns)
            for place, update in enumerate(updates[first : first + self.size]):
                shards[place, : len(update)] = update
            whole = torch.empty_like(shards)
            dist.all_to_all_single(whole, shards)
            one = self._made(whole.flatten(0, 1)[None, :rows], parts)[0]
            whole = one.new_zeros(self.size * height, columns)
            whole[:rows] = one
            back = torch.empty_like(whole)
            dist.all_to_all_single(back, whole)
            made += [part[: len(updates[0])] for part in back.view(self.size, height, columns)]
        return made[: len(updates)]

    def _made(self, updates: Tensor, parts: int) -> Tensor:
        """Momenta of equal shape, of which each is made of `parts` matrices."""
        count, rows, columns = updates.shape
        made: Tensor = self.orthogonal(updates.view(count, parts, rows // parts, columns))
        return made.reshape(count, rows, columns)


def optimizer(model: nn.Module, plan: TrainingPlan, rank: int) -> Optimizer:
    """One group each for embedding, head and the matrices of the blocks. Muon is compiled on a GPU only: on a CPU
    its time goes into the products themselves."""
    weights = dict(model.named_parameters())
    blocks = {name: weight for name, weight in weights.items() if name.startswith("blocks.")}
    groups = [
        Group({"embedding.weight": weights["embedding.weight"]}, plan.embedding_lr),
        Group({"head.weight": weights["head.weight"]}, plan.head_lr),
        Group(blocks, plan.matrix_lr, plan.options.weight_decay, muon=plan.options.optimizer == "muon"),
    ]
    compiled = plan.compiled and weights["head.weight"].is_cuda
    return Optimizer(groups, rank=rank, size=plan.gpus, compiled=compiled)


def momentum(step: int) -> float:
    """Muon's, which warms up as gradients calm down."""
    return FIRST_MOMENTUM + (MOMENTUM - FIRST_MOMENTUM) * min(1.0, step / MOMENTUM_STEPS)


def orthogonal(matrices: Tensor) -> Tensor:
    """For each matrix of a stack the nearest one whose singular values are all 1, roughly. A GPU makes all at once
    in bf16, a CPU one after the other, since a stack is larger than its cache."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.02 + 1e-6)
    if x.is_cuda:
        x = _by_products(x)
    else:
        make = _by_squares if x.dtype == torch.float32 and x.shape[-1] >= 2 * x.shape[-2] else _by_products
        x = torch.stack([make(one) for one in x.reshape(-1, *x.shape[-2:])]).view(x.shape)
    made: Tensor = x.mT if tall else x
    return made


def _by_products(x: Tensor) -> Tensor:
    for a, b, c in POLYNOMIALS:
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


def _by_squares(x: Tensor) -> Tensor:
    """The same of a long matrix by its small square alone, half the work; bf16 is not exact enough for it."""
    square, one = x @ x.mT, torch.eye(x.shape[-2], device=x.device)
    whole = factor = one
    for number, (a, b, c) in enumerate(POLYNOMIALS):
        if number:
            square = factor @ square @ factor
        factor = a * one + b * square + c * square @ square
        whole = factor @ whole if number else factor
    return whole @ x


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a sharded tensor; any other as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gradient(weight: nn.Parameter) -> Tensor:
    assert weight.grad is not None
    return local(weight.grad)


def _by_shape(weights: dict[str, nn.Parameter]) -> list[list[tuple[str, nn.Parameter]]]:
    shapes: dict[tuple[int, ...], list[tuple[str, nn.Parameter]]] = {}
    for name, weight in weights.items():
        shapes.setdefault((*weight.shape, name.endswith("qkv.weight")), []).append((name, weight))
    return list(shapes.values())
