"""When a run saves: steps in, the number of checkpoints, what they weigh, and what an interruption loses out."""

from __future__ import annotations

from dataclasses import dataclass

from gputel.analysis.planning.estimate import Estimate
from gputel.analysis.planning.memory import STATES, Recipe
from gputel.analysis.planning.sizes import Size


@dataclass(frozen=True)
class Schedule:
    """`count` on the way, and one more at the end; `kept` of them stay on disk together."""

    every: int
    count: int
    kept: int
    weights_bytes: int
    checkpoint_bytes: int

    @property
    def disk_bytes(self) -> int:
        return self.kept * self.checkpoint_bytes


def schedule(size: Size, recipe: Recipe, steps: int, every: int, keep: int | None) -> Schedule:
    """`every` 0: only the last one. A checkpoint holds what a run goes on from: weights and the optimizer."""
    on_the_way = (steps - 1) // every if every else 0
    in_all = on_the_way + 1
    matrices, ends = STATES[recipe.optimizer]
    states = matrices * (size.parameters - size.ends) + ends * size.ends
    weights = recipe.precision.weight * size.parameters
    return Schedule(
        every,
        on_the_way,
        in_all if keep is None else min(keep, in_all),
        weights,
        weights + recipe.precision.state * states,
    )


def lost_s(made: Schedule, steps: int, step_s: Estimate, start_s: Estimate) -> Estimate:
    """Seconds that an interruption costs: half of what lies between two checkpoints (none, or all), and a start."""
    between = min(made.every or steps, steps)
    steps_lost = Estimate(between / 2, 0, between, "assumed", ("an interruption may come at any step",))
    return (steps_lost * step_s + start_s).by(steps_lost)
