"""Which weights are trained by what: a model in, one optimizer or two out, and the learning rate set from outside.

Fused AdamW can be told on the device to leave a step out, which spares a synchronisation; Muon cannot.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gputel.trainer.errors import TrainerError

BETAS = (0.9, 0.95)


@dataclass
class Optimizers:
    """All optimizers of a run as one; every group knows its peak rate, which `schedule` multiplies."""

    parts: list[torch.optim.Optimizer]
    peaks: list[float] = field(default_factory=list)
    skips_on_device: bool = False

    def set_multiplier(self, multiplier: float) -> None:
        for part, peak in zip(self.parts, self.peaks, strict=True):
            for group in part.param_groups:
                group["lr"] = peak * multiplier

    def step(self, bad: Tensor) -> None:
        """Apply the gradients, unless `bad` (a scalar on the device) says that they are not finite."""
        if self.skips_on_device:
            for part in self.parts:
                part.found_inf, part.grad_scale = bad.float(), None  # type: ignore[attr-defined]
        elif bool(bad.item()):
            return
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)


def optimizers(
    model: nn.Module, *, kind: str, lr: float, muon_lr: float, weight_decay: float, sharded: bool
) -> Optimizers:
    """AdamW for everything, or Muon for the matrices of the blocks and AdamW for embedding and head."""
    blocks = [weight for name, weight in model.named_parameters() if name.startswith("blocks.")]
    ends = [weight for name, weight in model.named_parameters() if not name.startswith("blocks.")]
    if kind == "muon":
        adamw = _adamw([{"params": ends, "weight_decay": 0.0}], lr)
        return Optimizers([adamw, _muon(blocks, muon_lr, weight_decay)], [lr, muon_lr])
    decayed = [{"params": blocks, "weight_decay": weight_decay}, {"params": ends, "weight_decay": 0.0}]
    return Optimizers([_adamw(decayed, lr)], [lr], skips_on_device=not sharded)


def _adamw(groups: list[dict[str, object]], lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS, fused=True)


def _muon(weights: list[nn.Parameter], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Muon"):
        raise TrainerError(
            "--optimizer muon", f"torch {torch.__version__} has no Muon", "install torch 2.9 or newer"
        )
    return torch.optim.Muon(weights, lr=lr, weight_decay=weight_decay)
