"""Time of a run beyond its steps, in seconds: start, evaluations, checkpoints, communication, data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gputel.analysis.plan.estimate import Estimate, assumed, computed
from gputel.analysis.plan.inputs import Cluster, Size
from gputel.analysis.plan.memory import STATES, Recipe

FORWARD = 1 / 3  # share of the work of a training token

USED_OF_LINK = 0.6  # worst case, TCP over several sockets; the best is the line rate
BACKWARD = 2 / 3  # share of a micro-batch's time; only that of the last one can overlap communication

SHARD_CHARACTERS = 250_000_000
MOST_EPOCHS = 4
"""Past this many, repeated text teaches little more."""
# Characters per token of English web text, by vocabulary: bytes; GPT-2's and nanochat's tokenizers on FineWeb-Edu.
COMPRESSION = ((256, 1.0), (50_257, 4.65), (65_536, 4.8))
DOUBT = 0.1


@dataclass(frozen=True)
class Habits:
    """How a run spends time besides steps. `eval_work`: an evaluation, in tokens trained in the same time."""

    start_s: Estimate
    eval_every: float
    eval_work: Estimate
    disk_bytes_s: Estimate


HABITS = Habits(
    start_s=assumed(120, 30, 600, "a start takes 0.5 to 10 min, mostly compiling and loading"),
    eval_every=250,
    eval_work=assumed(8e6 * FORWARD, 0, 20e6 * FORWARD, "8 million tokens evaluated every 250 steps"),
    disk_bytes_s=assumed(1e9, 0.3e9, 3e9, "a disk writes 0.3 to 3 GB/s"),
)


@dataclass(frozen=True)
class Pace:
    """Seconds per step, with those of checkpoints, and evaluations as a share of it; `start_s` is once per run."""

    step_s: Estimate
    evaluating: Estimate
    saving_s: Estimate
    start_s: Estimate

    @property
    def evaluating_s(self) -> Estimate:
        return (self.step_s * self.evaluating).by(self.evaluating)

    @property
    def with_all_s(self) -> Estimate:
        return self.step_s + self.evaluating_s + self.saving_s

    def seconds(self, steps: int) -> Estimate:
        return self.with_all_s * steps + self.start_s

    def steps_in(self, seconds: float) -> Estimate:
        """Returns how many steps fit into a time, at least one, so that there is always a row."""
        each, start = self.with_all_s, self.start_s
        ends = ((each.value, start.value), (each.high, start.high), (each.low, start.low))
        value, low, high = (max(1, int((seconds - before) / step)) for step, before in ends)
        return Estimate(value, low, high, each.origin, each.sources)


def step_pace(
    step_s: Estimate, tokens_per_step: int, habits: Habits, checkpoint_bytes: int, save_every: int
) -> Pace:
    """Returns the pace of a run; with `save_every` 0 the only checkpoint is at the end, and is not counted."""
    evaluating = (habits.eval_work / (tokens_per_step * habits.eval_every)).by(habits.eval_work)
    saving_s = float(checkpoint_bytes) / habits.disk_bytes_s / save_every if save_every else computed(0.0)
    return Pace(step_s, evaluating, saving_s, habits.start_s)


@dataclass(frozen=True)
class Traffic:
    """Communication per step; `bytes_per_node` are sent by each node, or by each GPU of a single node."""

    bytes_per_node: float
    seconds: Estimate


def between_nodes(
    size: Size, recipe: Recipe, machine: Cluster, accumulation: int, compute_s: Estimate
) -> Traffic | None:
    """Returns the traffic of gradients between nodes; None for one node, as any measured MFU includes its links.

    A ring sends 2 (n - 1) / n of the gradients from each node. The value is at line rate, without overlap.
    """
    if machine.nodes < 2 or machine.link_bytes_s is None:
        return None
    sent = _sent(size, recipe, machine.nodes, accumulation)
    seconds = sent / machine.link_bytes_s
    hidden = min(seconds, BACKWARD * compute_s.low / accumulation)
    source = f"links reach {USED_OF_LINK:.0%} to 100% of their rate, with or without overlap with the backward pass"
    return Traffic(sent, assumed(seconds, seconds - hidden, seconds / USED_OF_LINK, source))


def gathering(
    size: Size, recipe: Recipe, machine: Cluster, accumulation: int, compute_s: Estimate
) -> Traffic | None:
    """Returns the traffic of sharded weights within a node, gathered twice per micro-batch, minus the overlap."""
    if not recipe.spread.weights or machine.nodes > 1 or machine.count < 2:
        return None
    sent = _sent(size, recipe, machine.count, accumulation)
    seconds = sent / machine.neighbor_bytes_s
    seen = max(0.0, seconds - compute_s.value)
    return Traffic(
        sent,
        assumed(seen, max(0.0, seconds - compute_s.high), seconds, "gathering overlaps with computation"),
    )


@dataclass(frozen=True)
class SaveSchedule:
    """Checkpoints: `count` during the run and one at the end; `kept` of them are on disk together."""

    every: int
    count: int
    kept: int
    weights_bytes: int
    checkpoint_bytes: int

    @property
    def disk_bytes(self) -> int:
        return self.kept * self.checkpoint_bytes


def schedule(size: Size, recipe: Recipe, steps: int, every: int, keep: int | None) -> SaveSchedule:
    """Returns when a run saves; `every` 0: only at the end. A checkpoint has weights and optimizer state."""
    on_the_way = (steps - 1) // every if every else 0
    in_all = on_the_way + 1
    matrices, ends = STATES[recipe.optimizer]
    states = matrices * (size.parameters - size.ends) + ends * size.ends
    weights = recipe.precision.weight * size.parameters
    return SaveSchedule(
        every,
        on_the_way,
        in_all if keep is None else min(keep, in_all),
        weights,
        weights + recipe.precision.state * states,
    )


def lost_s(made: SaveSchedule, steps: int, step_s: Estimate, start_s: Estimate) -> Estimate:
    """Returns the seconds that an interruption costs: on average half a checkpoint interval, and a start."""
    between = min(made.every or steps, steps)
    steps_lost = Estimate(between / 2, 0, between, "assumed", ("an interruption may come at any step",))
    return (steps_lost * step_s + start_s).by(steps_lost)


@dataclass(frozen=True)
class DataNeed:
    """The data that a run reads; `epochs` is None if the size of the data set is unknown."""

    shards: Estimate
    epochs: Estimate | None


def reading(tokens: int, vocab: int, data_tokens: int | None) -> DataNeed:
    """Returns how many of nanochat's shards, and epochs of a data set, the tokens are."""
    each = characters_per_token(vocab)
    shards = each * tokens / SHARD_CHARACTERS
    whole = Estimate(
        math.ceil(shards.value), math.ceil(shards.low), math.ceil(shards.high), shards.origin, shards.sources
    )
    return DataNeed(whole, computed(tokens / data_tokens, "tokens / --data-tokens") if data_tokens else None)


def characters_per_token(vocab: int) -> Estimate:
    sizes, ratios = zip(*COMPRESSION, strict=True)
    value = float(np.interp(math.log(vocab), np.log(sizes), ratios))
    if vocab <= sizes[0]:
        return computed(1.0, "one character per token")
    return assumed(
        value,
        value * (1 - DOUBT),
        value * (1 + DOUBT),
        f"{value:.2g} (±{DOUBT:.0%}) characters per token, 250M per shard",
    )


def _sent(size: Size, recipe: Recipe, pieces: int, accumulation: int) -> float:
    share, parameters = (pieces - 1) / pieces, size.parameters
    if not recipe.spread.weights:
        return 2 * share * recipe.precision.gradient * parameters
    moved = recipe.precision.copy or recipe.precision.weight
    reductions = accumulation if recipe.spread.steadily else 1
    return share * parameters * (2 * accumulation * moved + reductions * recipe.precision.gradient)
