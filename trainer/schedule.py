"""The learning rate of a step, as a pure function: nothing to save, nothing to forget on a resume."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A linear warm-up to 1, then a cosine, or a plateau with a linear warm-down, to `floor` at the last step."""

    kind: str
    steps: int
    warmup_steps: int
    warmdown_ratio: float
    floor: float

    def multiplier(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        span = self.steps - 1 - self.warmup_steps  # the last step, which has the floor, is steps - 1
        remaining = max(0.0, 1 - (step - self.warmup_steps) / span) if span > 0 else 0.0
        if self.kind == "cosine":
            height = 0.5 * (1 - math.cos(math.pi * remaining))
        else:
            height = min(1.0, remaining / self.warmdown_ratio)
        return self.floor + (1 - self.floor) * height
