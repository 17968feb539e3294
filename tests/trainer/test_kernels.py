"""Eight bits, emulated on a CPU; what a machine lacks is refused with the reason."""

import statistics
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.backends import cuda

from gputel.trainer.data import open_corpus
from gputel.trainer.kernels import (
    SWITCHES,
    Fp8Linear,
    choose_attention,
    require_fp8,
    rounded,
)
from gputel.trainer.model import Model
from gputel.trainer.optim import optimizer
from gputel.trainer.options import Options, settled
from gputel.trainer.ranks import World
from gputel.trainer.say import TrainerError

from .small_model import CPU

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def switches_as_before() -> Iterator[None]:
    yield
    for switch in SWITCHES.values():
        switch(True)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("kind", "error"), [(torch.float8_e4m3fn, 2**-4), (torch.float8_e5m2, 2**-3)], ids=["e4m3", "e5m2"]
)
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_rounding_keeps_the_largest_values_of_any_size(kind: torch.dtype, error: float, size: float) -> None:
    values = drawn(0, 64, 64) * size
    eight, scale = rounded(values, kind)
    back = eight.float() * scale
    large = values.abs() > values.abs().max() / 100
    assert ((back - values).abs() <= error * values.abs())[large].all() or size < 1e-12
    assert torch.isfinite(back).all()


def test_product_and_its_gradients_are_close_to_those_of_fp32() -> None:
    exact, eight = nn.Linear(64, 32, bias=False), Fp8Linear(64, 32, bias=False)
    eight.load_state_dict(exact.state_dict())
    results = []
    for layer in (exact, eight):
        x = drawn(1, 4, 16, 64).requires_grad_()
        y = layer(x)
        torch.autograd.backward(y, drawn(2, 4, 16, 32))
        assert x.grad is not None
        assert layer.weight.grad is not None
        results.append([y.detach(), x.grad, layer.weight.grad])
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        assert (one - other).norm() < 0.08 * one.norm()
        assert not torch.equal(one, other)


def test_cpu_is_refused_with_the_reason() -> None:
    with pytest.raises(TrainerError, match=r"--fp8: a CPU does not multiply in eight bits; leave it out"):
        require_fp8(CPU, 768, 1024)


def last_losses(fp8: bool, steps: int) -> float:
    """The mean loss of the last tenth of a small training."""
    torch.set_num_threads(1)
    corpus = open_corpus(None, "bytes")
    asked = Options(depth=2, dim=64, seq=64, steps=steps, device_batch_size=4)
    plan = settled(asked, World(0, 0, 1, CPU), corpus)
    model = Model(plan.shape, fp8=fp8)
    model.initialize(0)
    trains, rows = optimizer(model, plan, 0), corpus.training(64, 0)
    losses = list[float]()
    for step in range(steps):
        batch = torch.stack([torch.from_numpy(rows.row(4 * step + i).astype("int64")) for i in range(4)])
        loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        trains.step(step, plan.multiplier(step), ~torch.isfinite(loss))
        trains.zero_grad()
        losses.append(loss.item())
    return statistics.fmean(losses[-steps // 10 :])


@pytest.mark.long
def test_training_in_eight_bits_ends_within_1_percent_of_the_loss_of_fp32() -> None:
    exact, eight = last_losses(False, 300), last_losses(True, 300)
    assert exact < 2.6, "it has learned"
    assert eight == pytest.approx(exact, rel=0.01)
    assert eight != exact


@pytest.mark.parametrize("kernel", ["cudnn", "efficient", "fa3"])
def test_kernel_of_a_gpu_is_refused_on_a_cpu(kernel: str) -> None:
    with pytest.raises(TrainerError, match=f"--attention {kernel}: there is no such kernel for a CPU"):
        choose_attention(kernel, CPU)


def test_kernel_that_was_asked_for_is_the_only_one() -> None:
    choose_attention("math", CPU)
    names = ("math", "flash", "cudnn", "mem_efficient")
    assert [getattr(cuda, f"{name}_sdp_enabled")() for name in names] == [True, False, False, False]


@pytest.mark.parametrize(
    ("capability", "fault"),
    [
        ((8, 0), "NVIDIA Foo does not run FlashAttention 3; it takes Hopper"),
        ((9, 0), r"torch does not find its package .*; install flash_attn_interface"),
    ],
)
def test_flash_attention_3_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], fault: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA Foo")
    with pytest.raises(TrainerError, match=fault):
        choose_attention("fa3", GPU)
