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
        remaining = 1 - self._progress(step)
        if self.kind == "cosine":
            return self.floor + (1 - self.floor) * 0.5 * (1 - math.cos(math.pi * remaining))
        return self.floor + (1 - self.floor) * min(1.0, remaining / self.warmdown_ratio)

    def _progress(self, step: int) -> float:
        """0 at the end of the warm-up, 1 at the last step, which is steps - 1."""
        span = self.steps - 1 - self.warmup_steps
        return min(1.0, (step - self.warmup_steps) / span) if span > 0 else 1.0
