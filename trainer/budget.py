"""How far a run is, and when it stops: no clock, no ranks, those belong to the loop.

`--stop-at` ends early and leaves the schedule alone; every other limit in steps shortens the schedule itself.
"""

from dataclasses import dataclass

from gputel.trainer.options import Options

# What a stop by itself decides is told apart from what was asked from outside, which is resumed later.
SIGNALS = {"SIGINT": 2, "SIGTERM": 15}


@dataclass
class Progress:
    """The few numbers that, with weights and optimizer, make a run go on as if never interrupted: finished steps,
    rows read by all ranks together, times over all attempts."""

    step: int = 0
    position: int = 0
    tokens: int = 0
    train_s: float = 0.0
    wall_s: float = 0.0
    skips: int = 0
    skips_in_a_row: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    stale_evaluations: int = 0
    evaluated_step: int | None = None


@dataclass(frozen=True)
class StopBudget:
    steps: int
    options: Options
    gpus: int = 1

    def reached(self, progress: Progress) -> str | None:
        """What every rank knows alike, between two steps."""
        limits = {
            "non-finite loss": (progress.skips_in_a_row, self.options.max_skips),
            "steps": (progress.step, self.steps),
            "stop-at": (progress.step, self.options.stop_at),
            "early stop": (progress.stale_evaluations, self.options.patience),
        }
        return next((why for why, (now, most) in limits.items() if most is not None and now >= most), None)

    def out_of_time(self, seconds: float) -> str | None:
        """What only a clock knows: the ranks vote on it, since their clocks differ."""
        hours, options = seconds / 3600, self.options
        if options.hours is not None and hours >= options.hours:
            return "hours"
        if options.budget is not None and (options.price or 0.0) * self.gpus * hours >= options.budget:
            return "budget"
        return None


def exit_code(reason: str) -> int:
    """0 for a run that ended as it was told to; 128 and the signal's number, as a shell expects; else 1."""
    if reason in SIGNALS:
        return 128 + SIGNALS[reason]
    return 1 if reason == "non-finite loss" else 0
