"""Muon and AdamW: what a step does, what a step that is not finite leaves alone, and that nothing waits for the
device.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gputel.trainer import optim
from gputel.trainer.model import Model
from gputel.trainer.optim import Group, Optimizer, momentum, orthogonal
from gputel.trainer.shape import shape_of

FINE, BAD = torch.tensor(False), torch.tensor(True)


class ReadsOfTheDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts how often a tensor's value is asked for."""

    count = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)
        return func(*args, **(kwargs or {}))


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def trained(kind: str) -> tuple[Model, Optimizer]:
    """A small model with gradients, and one step made."""
    torch.set_num_threads(1)
    model = Model(shape_of(2, vocab=256, seq=16, dim=32, heads=2)).on(torch.device("cpu"))
    model.initialize(0)
    weights = dict(model.named_parameters())
    blocks = {name: weight for name, weight in weights.items() if name.startswith("blocks.")}
    ends = {name: weight for name, weight in weights.items() if name not in blocks}
    made = Optimizer([Group(ends, 0.01), Group(blocks, 0.02, decay=0.1, muon=kind == "muon")])
    for seed, weight in enumerate(weights.values()):
        weight.grad = drawn(seed, *weight.shape)
    made.step(0, 1.0, FINE)
    return model, made


@pytest.mark.parametrize("shape", [(16, 16), (64, 16), (16, 64), (3, 2, 16, 48)])
def test_orthogonal_brings_all_singular_values_near_1(shape: tuple[int, ...]) -> None:
    made = orthogonal(drawn(0, *shape))
    assert made.shape == shape
    values = torch.linalg.svdvals(made)
    assert values.min() > 0.85
    assert values.max() < 1.2


def test_long_matrix_is_made_orthogonal_by_its_square_as_by_itself() -> None:
    x = drawn(0, 3, 16, 64) / 32
    x[0, 3] = x[0, 4]  # one without full rank
    torch.testing.assert_close(optim._by_squares(x), optim._by_products(x), atol=1e-4, rtol=1e-4)


def test_q_k_and_v_are_made_orthogonal_one_by_one() -> None:
    """A gradient of q that is a hundred times larger changes nothing for k and v."""

    def stepped(factor: float) -> Tensor:
        weight = torch.nn.Parameter(torch.zeros(24, 8))
        weight.grad = drawn(0, 24, 8)
        weight.grad[:8] *= factor
        Optimizer([Group({"blocks.0.attention.qkv.weight": weight}, 1.0, muon=True)]).step(0, 1.0, FINE)
        return weight.detach()

    assert torch.equal(stepped(1.0)[8:], stepped(100.0)[8:])


@pytest.mark.parametrize("kind", ["muon", "adamw"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_step_that_is_not_finite_leaves_weights_and_state_alone(kind: str, wrong: float) -> None:
    model, made = trained(kind)

    def everything() -> dict[str, Tensor]:
        return {name: t.detach().clone() for name, t in (*model.named_parameters(), *made.tensors())}

    before = everything()
    for weight in model.parameters():
        assert weight.grad is not None
        weight.grad.fill_(wrong)
    made.step(1, 1.0, BAD)
    after = everything()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_step_never_waits_for_the_device(kind: str) -> None:
    _, made = trained(kind)
    with ReadsOfTheDevice() as reads:  # type: ignore[no-untyped-call]
        made.step(1, 1.0, FINE)
    assert reads.count == 0


def test_state_has_the_names_of_the_weights_and_less_of_it_with_muon() -> None:
    model, muon = trained("muon")
    names = dict(muon.tensors())
    assert {name.rpartition("/")[0] for name in names} == set(dict(model.named_parameters()))
    assert "blocks.0.up.weight/momentum" in names
    assert {"mean", "square", "steps"} == set(muon.state["head.weight"])


def test_momentum_warms_up() -> None:
    assert (momentum(0), momentum(300), momentum(10_000)) == (0.85, 0.95, 0.95)
    assert momentum(150) == pytest.approx(0.9)
