"""When to stop: facts about the run so far in, a reason or None out. No clock, no ranks: those belong to the loop.

`--stop-at` ends early and leaves the schedule alone; every other limit in steps shortens the schedule itself.
"""

from dataclasses import dataclass

# What a stop by itself decides is told apart from what was asked from outside, which is resumed later.
SIGNALS = {"SIGINT": 2, "SIGTERM": 15}


@dataclass(frozen=True)
class Budget:
    steps: int
    stop_at: int | None = None
    hours: float | None = None
    dollars: float | None = None
    dollars_per_gpu_hour: float | None = None
    gpus: int = 1
    patience: int | None = None
    max_skips: int = 10

    def reached(self, *, step: int, stale_evaluations: int, skips_in_a_row: int) -> str | None:
        """What every rank knows alike, between two steps."""
        if skips_in_a_row >= self.max_skips:
            return "non-finite loss"
        if step >= self.steps:
            return "steps"
        if self.stop_at is not None and step >= self.stop_at:
            return "stop-at"
        if self.patience is not None and stale_evaluations >= self.patience:
            return "early stop"
        return None

    def out_of_time(self, seconds: float) -> str | None:
        """What only a clock knows: the ranks vote on it, since their clocks differ."""
        if self.hours is not None and seconds >= self.hours * 3600:
            return "hours"
        if self.dollars is not None and self.cost(seconds) >= self.dollars:
            return "budget"
        return None

    def cost(self, seconds: float) -> float:
        return (self.dollars_per_gpu_hour or 0.0) * self.gpus * seconds / 3600


def exit_code(reason: str) -> int:
    """0 for a run that ended as it was told to; 128 and the signal's number, as a shell expects; else 1."""
    if reason in SIGNALS:
        return 128 + SIGNALS[reason]
    return 1 if reason == "non-finite loss" else 0
