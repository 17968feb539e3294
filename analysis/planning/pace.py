"""What a run does besides its steps: start, evaluate, save; as seconds per step, and seconds once."""

from __future__ import annotations

from dataclasses import dataclass

from gputel.analysis.planning.estimate import Estimate, assumed, computed

FORWARD = 1 / 3  # of the work of a token that is trained on


@dataclass(frozen=True)
class Habits:
    """`eval_work`: of an evaluation, in tokens trained on meanwhile. `disk_bytes_s`: how fast a checkpoint goes."""

    start_s: Estimate
    eval_every: float
    eval_work: Estimate
    disk_bytes_s: Estimate


HABITS = Habits(
    start_s=assumed(120, 30, 600, "a start takes half a minute to ten, mostly compiling and loading"),
    eval_every=250,
    eval_work=assumed(8e6 * FORWARD, 0, 20e6 * FORWARD, "8 million tokens evaluated every 250 steps"),
    disk_bytes_s=assumed(1e9, 0.3e9, 3e9, "a disk writes 0.3 to 3 GB/s"),
)


@dataclass(frozen=True)
class Pace:
    """Of a step: itself, its share of evaluations, its share of checkpoints. `start_s` comes once."""

    step_s: Estimate
    evaluating_s: Estimate
    saving_s: Estimate
    start_s: Estimate

    @property
    def with_all_s(self) -> Estimate:
        return self.step_s + self.evaluating_s + self.saving_s

    def seconds(self, steps: int) -> Estimate:
        return self.with_all_s * steps + self.start_s

    def steps_in(self, seconds: float) -> Estimate:
        """At least one: a run that is not given time for it is still a row."""
        each, start = self.with_all_s, self.start_s
        ends = ((each.value, start.value), (each.high, start.high), (each.low, start.low))
        value, low, high = (max(1, int((seconds - before) / step)) for step, before in ends)
        return Estimate(value, low, high, each.origin, each.sources)


def pace(
    step_s: Estimate, tokens_per_step: int, habits: Habits, checkpoint_bytes: int, save_every: int
) -> Pace:
    """`save_every` 0 saves once, at the end, which is not reckoned."""
    evaluating_s = step_s * habits.eval_work / (tokens_per_step * habits.eval_every)
    saving_s = float(checkpoint_bytes) / habits.disk_bytes_s / save_every if save_every else computed(0.0)
    return Pace(step_s, evaluating_s.by(habits.eval_work), saving_s, habits.start_s)
