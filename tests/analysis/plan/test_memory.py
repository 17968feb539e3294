"""Memory: laws that hold for any recipe, and the trainer's own tensors against the formula."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.plan import inputs, memory
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import GIB, PARTS, Recipe, gpu_memory

GPUS = machine("8xH100")
D16 = inputs.of_depth(16)


def total(recipe: Recipe, size: inputs.Size = D16, accumulation: int = 4) -> float:
    return memory.total(gpu_memory(size, recipe, GPUS, accumulation)).value


def test_adamw_under_autocast_holds_eighteen_bytes_a_parameter_that_multiplies() -> None:
    """Weights in fp32 with a copy in bf16, gradients, and two states; the embedding is not copied."""
    parts = gpu_memory(D16, Recipe(8), GPUS, 4)
    embedding = 65_536 * 1024
    assert parts["weights"].value == 4 * D16.parameters + 2 * (D16.parameters - embedding)
    assert parts["gradients"].value == 4 * D16.parameters
    assert parts["optimizer"].value == 8 * D16.parameters


def test_muon_keeps_one_state_for_the_matrices_of_the_blocks() -> None:
    parts = gpu_memory(D16, Recipe(8, optimizer="muon"), GPUS, 4)
    ends = 2 * 65_536 * 1024
    assert parts["optimizer"].value == 4 * (D16.parameters - ends) + 8 * ends


@given(st.integers(1, 96), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from(sorted(memory.SHARDS)))
def test_more_layers_and_larger_batches_never_take_less(depth: int, batch: int, shard: str) -> None:
    recipe = Recipe(batch, shard=shard)
    size, deeper = inputs.of_depth(depth), inputs.of_depth(depth + 1)
    assert total(recipe, size) < total(recipe, deeper)
    assert total(recipe, size) < total(replace(recipe, device_batch=2 * batch), size)


@given(st.integers(8, 96), st.sampled_from(["adamw", "muon", "sgd"]))
def test_gpu_keeps_less_the_more_is_sharded(depth: int, optimizer: str) -> None:
    """Weights and states alone: a small model loses more to weights that are put together than it saves."""
    size = inputs.of_depth(depth)
    kept = []
    for shard in ("none", "zero1", "fsdp", "zero3"):
        parts = gpu_memory(size, Recipe(1, shard=shard, optimizer=optimizer), GPUS, 4)
        kept.append(sum(parts[name].value for name in ("weights", "gradients", "optimizer")))
    assert kept == sorted(kept, reverse=True)


def test_gradients_stay_whole_while_micro_batches_are_accumulated_unless_they_are_reduced_each_time() -> None:
    size = inputs.of_depth(64, vocab=32)
    whole = 4 * size.parameters

    def gradients(shard: str, accumulation: int) -> float:
        return gpu_memory(size, Recipe(1, shard=shard), GPUS, accumulation)["gradients"].value

    assert gradients("fsdp", 4) == whole
    assert gradients("fsdp", 1) < whole / 4
    assert gradients("zero3", 4) < whole / 4


@pytest.mark.parametrize(
    "less",
    [
        Recipe(8, loss="chunked"),
        Recipe(8, recompute=True),
        Recipe(8, shard="zero1"),
        Recipe(4),
    ],
    ids=["chunked loss", "recomputed", "sharded optimizer", "half the batch"],
)
def test_each_change_that_a_plan_proposes_saves_memory(less: Recipe) -> None:
    assert total(less) < total(Recipe(8))


def test_scores_that_are_kept_and_code_that_is_not_compiled_take_more() -> None:
    assert total(Recipe(8, flash=False)) > total(Recipe(8))
    assert total(Recipe(8, compiled=False)) > total(Recipe(8))
    assert total(Recipe(8, dtype="fp32")) > total(Recipe(8)) > total(Recipe(8, dtype="pure-bf16"))


def test_framework_does_not_see_the_reserve() -> None:
    parts = gpu_memory(D16, Recipe(8), GPUS, 4)
    assert tuple(parts) == PARTS
    seen = memory.allocated(parts).value
    assert memory.total(parts).value - seen == pytest.approx(parts["reserve"].value)
    assert parts["reserve"].value > GIB


def test_one_gpu_needs_no_buffers_to_talk() -> None:
    alone, together = (gpu_memory(D16, Recipe(8), machine(on), 4)["reserve"] for on in ("H100", "2xH100"))
    assert alone.value < together.value


@pytest.mark.long
def test_activations_of_the_trainer_lie_in_the_range() -> None:
    """Counted by torch's hooks on code that is not compiled, from the difference of two depths."""
    width, tokens, bytes_each = 256, 4 * 128, 2
    kept = (bytes_kept(2) - bytes_kept(1)) / (bytes_each * width * tokens)
    _, least, most = memory.EAGER
    assert least <= kept <= most


def bytes_kept(depth: int) -> int:
    """Of all tensors that a forward pass leaves behind, but for weights and their copies in 16 bits."""
    import torch

    from gputel.trainer.model import Model
    from gputel.trainer.shape import shape_of

    model = Model(shape_of(depth, vocab=32, seq=128, dim=256), dtype=torch.bfloat16)
    model.initialize(0)
    matrices = {tuple(sorted(weight.shape)) for weight in model.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tuple(sorted(tensor.shape)) not in matrices:
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(32, (4, 128))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(ids, ids)
    assert loss.isfinite()
    return sum(seen.values())
