"""A size and a recipe -> the memory of a GPU in bytes, in six parts.

Weights, gradients and optimizer state follow from the recipe. Activations are counted tensor by tensor: flash
attention keeps no score matrix, so all of them grow with tokens x width. The reserve is not tensors: the driver's
context, buffers of NCCL and matrix libraries, and fragmentation of the allocator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gputel.analysis.plan.estimate import Estimate, assumed, computed, sum_of_independent
from gputel.analysis.plan.inputs import Cluster, Size
from gputel.trainer.shape import MLP_RATIO

GIB = 2**30
Constant = tuple[float, float, float]
"""Expected, lowest and highest value."""
PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "reserve")
# Numbers per token, layer and unit of width that the backward pass needs. Counted with torch's hooks
# for saved tensors on the project's own trainer (torch 2.13): 20 compiled, 24 not. Peaks that nanochat printed mean
# 14 and 19 (depth 20 at batch 32, depth 24 at batch 16, compiled); 18 is the middle of the three. The least is what
# matrix products and flash attention need if all else is computed again: 3 of q, k and v, 2 of q and k turned, 1 of
# what attention gives, 2 of the stream, 4 of the MLP.
COMPILED = (18.0, 12.0, 22.0)
EAGER = (24.0, 20.0, 30.0)
# Bytes for each logit where all are held at once, in 16 bits. Compiled: the logits (the hooks see 2) and their
# gradient; a compiler that does not fuse the loss adds a copy in fp32. Else: two copies in fp32 are kept (the hooks
# see 8), and two more come in the backward pass.
LOGITS_COMPILED = (4.0, 4.0, 8.0)
LOGITS_EAGER = (16.0, 12.0, 20.0)
# The same of a chunk, whose gradient is taken while it is at hand.
CHUNK = 2**27
CHUNK_COMPILED = (8.0, 4.0, 16.0)
CHUNK_EAGER = (20.0, 16.0, 26.0)
CONTEXT_GIB = (1.0, 0.6, 2.0)
NCCL_GIB = (0.5, 0.2, 1.5)
FRAGMENTATION = (0.05, 0.02, 0.12)  # of the memory that each micro-batch allocates and frees
STATES = {"adamw": (2, 2), "muon": (1, 2), "sgd": (1, 1)}
"""State numbers per parameter: of matrices in blocks, and of embedding and head."""

Memory = dict[str, Estimate]


@dataclass(frozen=True)
class Precision:
    """Bytes per number of each kind; `copy` is the 16-bit copy of the weights that multiply."""

    weight: int
    copy: int
    gradient: int
    state: int
    activation: int


PRECISIONS = {
    "bf16": Precision(4, 2, 4, 4, 2),
    "fp32": Precision(4, 0, 4, 4, 4),
    "pure-bf16": Precision(2, 0, 2, 2, 2),
}


@dataclass(frozen=True)
class Spread:
    """Which parts are sharded over GPUs; `steadily`: gradients too, while micro-batches are accumulated."""

    weights: bool
    gradients: bool
    optimizer: bool
    steadily: bool
    words: str


SHARDS = {
    "none": Spread(False, False, False, False, "DDP: every GPU holds everything"),
    "zero1": Spread(False, False, True, False, "only the optimizer state is sharded"),
    "fsdp": Spread(True, True, True, False, "sharded; gradients whole while micro-batches are accumulated"),
    "zero3": Spread(True, True, True, True, "sharded, gradients too after every micro-batch"),
}


@dataclass(frozen=True)
class Recipe:
    """The training settings on which memory and time depend."""

    device_batch: int
    optimizer: str = "adamw"
    dtype: str = "bf16"
    shard: str = "none"
    loss: Literal["full", "chunked"] = "full"
    recompute: bool = False
    compiled: bool = True
    flash: bool = True

    @property
    def precision(self) -> Precision:
        return PRECISIONS[self.dtype]

    @property
    def spread(self) -> Spread:
        return SHARDS[self.shard]


def gpu_memory(size: Size, recipe: Recipe, machine: Cluster, accumulation: int) -> Memory:
    """Returns the parts in bytes at the peak, which is the loss of a micro-batch after the first."""
    tokens = recipe.device_batch * size.shape.seq
    logits = _logits(size, recipe, tokens)
    activations = _activations(size, recipe, tokens, logits)
    return {
        "weights": computed(_weights(size, recipe, machine.count), "parameters x bytes"),
        "gradients": computed(_gradients(size, recipe, machine.count, accumulation), "parameters x bytes"),
        "optimizer": computed(_optimizer(size, recipe, machine.count), "parameters x bytes"),
        "activations": activations,
        "logits": logits,
        "reserve": _reserve(machine, (activations + logits).value),
    }


def total(memory: Memory) -> Estimate:
    return sum_of_independent(memory.values())


def allocated(memory: Memory) -> Estimate:
    """Sums what a framework reports (`max_memory_allocated`), which leaves out the reserve."""
    return sum_of_independent(part for name, part in memory.items() if name != "reserve")


def _weights(size: Size, recipe: Recipe, gpus: int) -> int:
    """Returns the bytes of weights; sharded ones are gathered for two blocks, and for embedding and head."""
    precision = recipe.precision
    if not recipe.spread.weights:
        return precision.weight * size.parameters + precision.copy * size.multiplying
    together = (2 * _block(size) + size.ends) * (precision.copy or precision.weight)
    return -(-precision.weight * size.parameters // gpus) + together


def _gradients(size: Size, recipe: Recipe, gpus: int, accumulation: int) -> int:
    """Returns the bytes of gradients; FSDP keeps them whole, in fp32, until the last micro-batch."""
    spread, each = recipe.spread, recipe.precision.gradient
    if not spread.gradients or (accumulation > 1 and not spread.steadily):
        return each * size.parameters
    return -(-each * size.parameters // gpus) + each * max(_block(size), size.ends)


def _optimizer(size: Size, recipe: Recipe, gpus: int) -> int:
    matrices, ends = STATES[recipe.optimizer]
    states = matrices * (size.parameters - size.ends) + ends * size.ends
    return -(-recipe.precision.state * states // (gpus if recipe.spread.optimizer else 1))


def _activations(size: Size, recipe: Recipe, tokens: int, logits: Estimate) -> Estimate:
    """Returns the bytes of activations. With recomputation each layer keeps its input, and one layer everything.

    In a layer's backward pass the logits are gone and its gradients come; an excess over the logits counts here."""
    shape, each = size.shape, recipe.precision.activation
    layer = _numbers(
        COMPILED if recipe.compiled else EAGER, "{} numbers per token, layer and unit of width"
    ) * (float(tokens) * shape.dim * each)
    if not recipe.flash:
        layer += 2.0 * each * tokens * shape.heads * shape.seq
    stored = layer * shape.depth
    if recipe.recompute:
        stored = layer + float(tokens) * shape.dim * each * shape.depth
    working = (2 * MLP_RATIO + 4) * tokens * shape.dim * each
    if size.shape_is_guessed:
        stored = stored * assumed(1, 0.8, 1.25, "a nanochat-style model")
    return stored + max(0.0, working - logits.value)


def _logits(size: Size, recipe: Recipe, tokens: int) -> Estimate:
    vocab, wide = size.shape.vocab, recipe.precision.activation / 2
    if recipe.loss == "full" or tokens * vocab <= CHUNK:
        each = LOGITS_COMPILED if recipe.compiled else LOGITS_EAGER
        return _numbers(each, "{} bytes per logit") * (float(tokens) * vocab * wide)
    chunk = (
        _numbers(CHUNK_COMPILED if recipe.compiled else CHUNK_EAGER, "{} bytes per logit of a chunk") * CHUNK
    )
    return chunk + 8.0 * vocab * size.shape.dim + recipe.precision.activation * tokens * size.shape.dim


def _reserve(machine: Cluster, per_micro_batch: float) -> Estimate:
    parts = [_numbers(CONTEXT_GIB, "{} GiB of context and libraries") * GIB]
    if machine.count > 1:
        parts.append(_numbers(NCCL_GIB, "{} GiB of NCCL") * GIB)
    parts.append(_numbers(FRAGMENTATION, "fragmentation {} of activations and logits") * per_micro_batch)
    return sum_of_independent(parts)


def _block(size: Size) -> int:
    return (size.parameters - size.ends) // size.shape.depth


def _numbers(constant: Constant, source: str) -> Estimate:
    """Makes an assumption whose source contains the numbers."""
    value, low, high = constant
    return assumed(value, low, high, source.format(f"{value:g} ({low:g} to {high:g})"))
