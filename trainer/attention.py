"""Which kernel computes attention: torch's own choice, one of its kernels, or FlashAttention 3 by torch's switch.

What this machine lacks is refused with the reason before the first step.
"""

import torch
from torch.backends import cuda
from torch.nn import attention

from gputel.trainer.errors import TrainerError

SWITCHES = {
    "flash": cuda.enable_flash_sdp,
    "cudnn": cuda.enable_cudnn_sdp,
    "efficient": cuda.enable_mem_efficient_sdp,
    "math": cuda.enable_math_sdp,
}
ON_A_CPU = {"auto", "flash", "math"}
FIRST_WITH_FA3 = (9, 0)


def choose_attention(kernel: str, device: torch.device, dropout: float) -> None:
    """For the whole process; `auto` leaves torch's choice, which depends on the GPU and the sizes."""
    place = f"--attention {kernel}"
    if device.type != "cuda" and kernel not in ON_A_CPU:
        raise TrainerError(place, "there is no such kernel for a CPU", "leave it out")
    if kernel == "fa3":
        _activate_fa3(place, device, dropout)
    elif kernel != "auto":
        for name, switch in SWITCHES.items():
            switch(name == kernel)


def _activate_fa3(place: str, device: torch.device, dropout: float) -> None:
    if torch.cuda.get_device_capability(device) < FIRST_WITH_FA3:
        name = torch.cuda.get_device_name(device)
        raise TrainerError(place, f"{name} does not run FlashAttention 3", "it takes Hopper")
    if dropout:
        raise TrainerError(place, "does not drop out", "leave out --dropout, or take --attention flash")
    activate = getattr(attention, "activate_flash_attention_impl", None)
    if activate is None:
        raise TrainerError(
            place, f"torch {torch.__version__} has no switch for it", "take torch 2.10 or later"
        )
    try:
        activate("FA3")
    except ImportError as missing:
        hint = "install flash_attn_interface, FlashAttention's build for Hopper"
        raise TrainerError(place, f"torch does not find its package ({missing})", hint) from missing
