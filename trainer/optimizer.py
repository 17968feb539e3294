"""Which weights are trained by what: a model in, one optimizer or two out, and the learning rate set from outside.

Fused AdamW can be ordered on the device to leave a step out, which spares a synchronization; Muon cannot.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gputel.trainer.errors import TrainerError
from gputel.trainer.options import Options

BETAS = (0.9, 0.95)


@dataclass
class Optimizers:
    """All optimizers of a run as one, each with its peak rate, which `schedule` multiplies."""

    parts: list[torch.optim.Optimizer]
    peaks: list[float]
    skips_on_device: bool = False

    def set_multiplier(self, multiplier: float) -> None:
        for part, peak in zip(self.parts, self.peaks, strict=True):
            for group in part.param_groups:
                group["lr"] = peak * multiplier

    def step(self, bad: Tensor) -> None:
        """Apply the gradients, unless `bad` (a scalar on the device) says that they are not finite."""
        if not self.skips_on_device and bad.item():
            return
        for part in self.parts:
            if self.skips_on_device:
                part.found_inf, part.grad_scale = bad.float(), None  # type: ignore[attr-defined]
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def of(self, weight: Tensor) -> torch.optim.Optimizer:
        """The one that trains this weight."""
        owners = (p for p in self.parts if any(weight is w for g in p.param_groups for w in g["params"]))
        return next(owners)


def optimizers(model: nn.Module, options: Options, lr: float) -> Optimizers:
    """AdamW for everything, or Muon for the matrices of the blocks and AdamW for embedding and head."""
    blocks = [weight for name, weight in model.named_parameters() if name.startswith("blocks.")]
    ends = [weight for name, weight in model.named_parameters() if not name.startswith("blocks.")]
    groups: list[dict[str, Any]] = [{"params": ends, "weight_decay": 0.0}]
    if options.optimizer == "muon":
        return Optimizers([_adamw(groups, lr), _muon(blocks, options)], [lr, options.muon_lr])
    groups.append({"params": blocks, "weight_decay": options.weight_decay})
    return Optimizers([_adamw(groups, lr)], [lr], skips_on_device=options.shard == "none")


def _adamw(groups: list[dict[str, Any]], lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS, fused=True)


def _muon(weights: list[nn.Parameter], options: Options) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Muon"):
        fault = f"torch {torch.__version__} has no Muon"
        raise TrainerError("--optimizer muon", fault, "install torch 2.9 or newer")
    return torch.optim.Muon(weights, lr=options.muon_lr, weight_decay=options.weight_decay)
