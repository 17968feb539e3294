"""Faster kernels, which a first reading can skip: FP8 products, and an attention kernel by name. Where the machine
lacks one it is refused before the first step, with the reason.

In FP8, activations and weights are e4m3 and gradients e5m2; each tensor's scale is computed at every product, so
there is no state. GPUs since Ada and Hopper multiply these; on a CPU the same rounding is emulated, which
proves the numerics and saves no time.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.backends import cuda
from torch.nn import attention

from gputel.trainer.say import TrainerError

FIRST_WITH_FP8, FP8_MULTIPLE = (8, 9), 16  # compute capability; sizes that torch._scaled_mm takes
FIRST_WITH_FA3 = (9, 0)
ON_A_CPU = {"auto", "flash", "math"}
SWITCHES = {
    "flash": cuda.enable_flash_sdp,
    "cudnn": cuda.enable_cudnn_sdp,
    "efficient": cuda.enable_mem_efficient_sdp,
    "math": cuda.enable_math_sdp,
}


class Fp8Linear(nn.Linear):
    """A linear layer without bias; its weight stays in fp32."""

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = _Fp8Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return made


def require_fp8(device: torch.device, dim: int, tokens: int) -> None:
    """Raise where eight bits would not be faster, or not be possible."""
    if device.type != "cuda":
        raise TrainerError("--fp8", "a CPU does not multiply in eight bits", "leave it out")
    capability = torch.cuda.get_device_capability(device)
    if capability < FIRST_WITH_FP8:
        name = torch.cuda.get_device_name(device)
        raise TrainerError(
            "--fp8", f"{name} does not multiply in eight bits", "it takes Ada, Hopper or later"
        )
    if dim % FP8_MULTIPLE or tokens % FP8_MULTIPLE:
        fault = f"needs multiples of {FP8_MULTIPLE}, dim is {dim} and a micro-batch {tokens} tokens"
        raise TrainerError("--fp8", fault, "see --dim and --device-batch-size")


class _Fp8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        x8, w8 = rounded(rows, torch.float8_e4m3fn), rounded(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(*x8, *w8)
        ctx.like = x.shape, x.dtype, weight.dtype
        return product(x8, (w8[0].T, w8[1]), x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        x, x_scale, weight, w_scale = ctx.saved_tensors
        shape, dtype, weight_dtype = ctx.like
        g, g_scale = rounded(grad_outputs[0].flatten(0, -2), torch.float8_e5m2)
        by_input = product((g, g_scale), (weight, w_scale), dtype)
        by_weight = product((g.T, g_scale), (x, x_scale), dtype)
        return by_input.view(shape), by_weight.to(weight_dtype)


def rounded(values: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Eight bits, and the scale that gives the values back: the largest of them is the largest that fits."""
    scale = values.detach().abs().amax().float().clamp(min=1e-12) / torch.finfo(kind).max
    return (values.float() / scale).to(kind), scale


def product(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """One matrix times the other; a GPU wants the first in rows and the second in columns."""
    (a, a_scale), (b, b_scale) = one, other
    if not a.is_cuda:
        return ((a.float() * a_scale) @ (b.float() * b_scale)).to(dtype)
    a, b = a.contiguous(), b.T.contiguous().T
    made: Tensor = torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16)
    return made.to(dtype)


def choose_attention(kernel: str, device: torch.device) -> None:
    """For the whole process; `auto` leaves torch's choice, which depends on the GPU and the sizes."""
    place = f"--attention {kernel}"
    if device.type != "cuda" and kernel not in ON_A_CPU:
        raise TrainerError(place, "there is no such kernel for a CPU", "leave it out")
    if kernel == "fa3":
        _activate_fa3(place, device)
    elif kernel != "auto":
        for name, switch in SWITCHES.items():
            switch(name == kernel)


def _activate_fa3(place: str, device: torch.device) -> None:
    if torch.cuda.get_device_capability(device) < FIRST_WITH_FA3:
        name = torch.cuda.get_device_name(device)
        raise TrainerError(place, f"{name} does not run FlashAttention 3", "it takes Hopper")
    try:
        attention.activate_flash_attention_impl("FA3")
    except ImportError as missing:
        hint = "install flash_attn_interface, FlashAttention's build for Hopper"
        raise TrainerError(place, f"torch does not find its package ({missing})", hint) from missing
