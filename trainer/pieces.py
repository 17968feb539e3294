"""Tensors as pieces: what this rank holds of each, with its place in the whole, and the whole put together again.

A file of pieces is a plain torch file of tensors and numbers, so it loads without unpickling code. Sharding
is along the first dimension; a tensor that is not sharded is one piece, kept by rank 0. So any number of
ranks can read what any other number wrote.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.distributed import World
from gputel.trainer.optimizer import Optimizers

Piece = dict[str, Any]


def mine(tensors: Iterable[tuple[str, Tensor]], where: World) -> dict[str, Piece]:
    pieces = {}
    for name, tensor in tensors:
        if isinstance(tensor, DTensor):
            start, _ = _held(tensor, where)
            pieces[name] = {"values": tensor.to_local().detach(), "start": start, "shape": list(tensor.shape)}
        elif where.main:
            pieces[name] = {"values": tensor.detach(), "start": 0, "shape": list(tensor.shape)}
    return pieces


def weights_of(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()


def states_of(model: nn.Module, optimizers: Optimizers) -> Iterator[tuple[str, Tensor]]:
    for name, weight in model.named_parameters():
        for part in optimizers.parts:
            for key, value in part.state.get(weight, {}).items():
                yield f"{name}/{key}", value


class Pieces:
    """What several files hold together, mapped rather than read."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.found: dict[str, list[Piece]] = {}
        for path in sorted(paths):
            held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            for name, piece in held.items():
                self.found.setdefault(name, []).append(piece)

    def whole(self, name: str) -> Tensor:
        shape = self.found[name][0]["shape"]
        return self.rows(name, 0, shape[0]) if shape else self.found[name][0]["values"].clone()

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of the first dimension, from whichever pieces hold them."""
        held = sorted(self.found[name], key=lambda piece: int(piece["start"]))
        overlapping = [_cut(piece, start, stop) for piece in held]
        return torch.cat(overlapping)

    def like(self, name: str, weight: Tensor, where: World) -> Tensor:
        """The tensor as `weight` lies: this rank's rows on its device, or all of it."""
        if not isinstance(weight, DTensor) or self.found[name][0]["shape"] != list(weight.shape):
            return self.whole(name).to(weight.device)
        start, stop = _held(weight, where)
        local = self.rows(name, start, stop).to(weight.device)
        return DTensor.from_local(
            local,
            weight.device_mesh,
            weight.placements,
            run_check=False,
            shape=weight.shape,
            stride=weight.stride(),
        )


@torch.no_grad()
def restore(model: nn.Module, optimizers: Optimizers, weights: Pieces, states: Pieces, where: World) -> None:
    for name, weight in model.named_parameters():
        weight.copy_(weights.like(name, weight, where))
        for part in optimizers.parts:
            if any(weight is p for group in part.param_groups for p in group["params"]):
                part.state[weight] = _state(name, weight, states, where)


def _state(name: str, weight: Tensor, states: Pieces, where: World) -> dict[str, Tensor]:
    keys = [full.rpartition("/")[2] for full in states.found if full.rpartition("/")[0] == name]
    return {key: states.like(f"{name}/{key}", weight, where) for key in keys}


def _held(tensor: DTensor, where: World) -> tuple[int, int]:
    """torch shards like torch.chunk: equal chunks, the last ones shorter or empty."""
    rows, chunk = tensor.shape[0], -(-tensor.shape[0] // where.size)
    return min(where.rank * chunk, rows), min((where.rank + 1) * chunk, rows)


def _cut(piece: Piece, start: int, stop: int) -> Tensor:
    values: Tensor = piece["values"]
    first = int(piece["start"])
    return values[max(0, start - first) : max(0, stop - first)]
