"""Kernels of attention: what a machine lacks is refused with the reason."""

from collections.abc import Iterator

import pytest
import torch
from torch.backends import cuda

from gputel.trainer.attention import SWITCHES, choose_attention
from gputel.trainer.errors import TrainerError

from .small_model import CPU

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def switches_as_before() -> Iterator[None]:
    yield
    for switch in SWITCHES.values():
        switch(True)


@pytest.mark.parametrize("kernel", ["cudnn", "efficient", "fa3"])
def test_kernel_of_a_gpu_is_refused_on_a_cpu(kernel: str) -> None:
    with pytest.raises(TrainerError, match=f"--attention {kernel}: there is no such kernel for a CPU"):
        choose_attention(kernel, CPU, 0.0)


def test_kernel_that_was_asked_for_is_the_only_one() -> None:
    choose_attention("math", CPU, 0.0)
    kernels = ("math", "flash", "cudnn", "mem_efficient")
    assert [getattr(cuda, f"{name}_sdp_enabled")() for name in kernels] == [True, False, False, False]


@pytest.mark.parametrize(
    ("capability", "dropout", "fault"),
    [
        ((8, 0), 0.0, "NVIDIA Foo does not run FlashAttention 3; it takes Hopper"),
        ((9, 0), 0.1, "does not drop out"),
        ((9, 0), 0.0, r"torch does not find its package .*; install flash_attn_interface"),
    ],
)
def test_flash_attention_3_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dropout: float, fault: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA Foo")
    with pytest.raises(TrainerError, match=fault):
        choose_attention("fa3", GPU, dropout)
