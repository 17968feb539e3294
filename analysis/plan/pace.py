"""What a run does besides its steps: start, evaluate, save; as seconds per step, and seconds once.

What GPUs send each other in a step, and how long that takes where the links are known.

When a run saves: steps in, the number of checkpoints, what they weigh, and what an interruption loses out.

How much text a run reads: tokens in, characters, nanochat's shards and epochs out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gputel.analysis.plan.estimate import Estimate, assumed, computed
from gputel.analysis.plan.inputs import Cluster, Size
from gputel.analysis.plan.memory import STATES, Recipe

FORWARD = 1 / 3  # of the work of a token that is trained on

USED_OF_LINK = 0.6  # TCP over several sockets, at worst; the line rate at best
BACKWARD = 2 / 3  # of a micro-batch's time; only the last one's can hide what travels

SHARD_CHARACTERS = 250_000_000
MOST_EPOCHS = 4
"""Past this many, repeated text teaches little more."""
# Characters per token of English web text, by vocabulary: bytes; GPT-2's and nanochat's tokenizers on FineWeb-Edu.
COMPRESSION = ((256, 1.0), (50_257, 4.65), (65_536, 4.8))
DOUBT = 0.1


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


def step_pace(
    step_s: Estimate, tokens_per_step: int, habits: Habits, checkpoint_bytes: int, save_every: int
) -> Pace:
    """`save_every` 0 saves once, at the end, which is not reckoned."""
    evaluating_s = step_s * habits.eval_work / (tokens_per_step * habits.eval_every)
    saving_s = float(checkpoint_bytes) / habits.disk_bytes_s / save_every if save_every else computed(0.0)
    return Pace(step_s, evaluating_s.by(habits.eval_work), saving_s, habits.start_s)


@dataclass(frozen=True)
class Traffic:
    """`bytes_per_node` leave each node (each GPU, where there is one node) in a step."""

    bytes_per_node: float
    seconds: Estimate


def between_nodes(
    size: Size, recipe: Recipe, machine: Cluster, accumulation: int, compute_s: Estimate
) -> Traffic | None:
    """Gradients between nodes; None where there is one node, whose links are part of any MFU that was measured.

    A ring sends 2 (n - 1) / n of the gradients from each node. The value is the time at line rate, nothing hidden.
    """
    if machine.nodes < 2 or machine.link_bytes_s is None:
        return None
    sent = _sent(size, recipe, machine.nodes, accumulation)
    seconds = sent / machine.link_bytes_s
    hidden = min(seconds, BACKWARD * compute_s.low / accumulation)
    source = (
        f"the links reach {USED_OF_LINK:.0%} to 100% of their rate, and hide behind the backward pass or not"
    )
    return Traffic(sent, assumed(seconds, seconds - hidden, seconds / USED_OF_LINK, source))


def gathering(
    size: Size, recipe: Recipe, machine: Cluster, accumulation: int, compute_s: Estimate
) -> Traffic | None:
    """Spread weights are gathered twice for every micro-batch; within a node, where computing does not hide it."""
    if not recipe.spread.weights or machine.nodes > 1 or machine.count < 2:
        return None
    sent = _sent(size, recipe, machine.count, accumulation)
    seconds = sent / machine.neighbour_bytes_s
    seen = max(0.0, seconds - compute_s.value)
    return Traffic(
        sent, assumed(seen, max(0.0, seconds - compute_s.high), seconds, "gathering hides behind computing")
    )


@dataclass(frozen=True)
class SaveSchedule:
    """`count` on the way, and one more at the end; `kept` of them stay on disk together."""

    every: int
    count: int
    kept: int
    weights_bytes: int
    checkpoint_bytes: int

    @property
    def disk_bytes(self) -> int:
        return self.kept * self.checkpoint_bytes


def schedule(size: Size, recipe: Recipe, steps: int, every: int, keep: int | None) -> SaveSchedule:
    """`every` 0: only the last one. A checkpoint holds what a run goes on from: weights and the optimizer."""
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
    """Seconds that an interruption costs: half of what lies between two checkpoints (none, or all), and a start."""
    between = min(made.every or steps, steps)
    steps_lost = Estimate(between / 2, 0, between, "assumed", ("an interruption may come at any step",))
    return (steps_lost * step_s + start_s).by(steps_lost)


@dataclass(frozen=True)
class DataNeed:
    """`epochs` is None where nobody said how much text there is."""

    shards: Estimate
    epochs: Estimate | None


def reading(tokens: int, vocab: int, data_tokens: int | None) -> DataNeed:
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
        return computed(1.0, "a byte or a letter a token")
    return assumed(
        value,
        value * (1 - DOUBT),
        value * (1 + DOUBT),
        f"{value:.2g} (±{DOUBT:.0%}) characters a token, 250M a shard",
    )


def _sent(size: Size, recipe: Recipe, pieces: int, accumulation: int) -> float:
    share, parameters = (pieces - 1) / pieces, size.parameters
    if not recipe.spread.weights:
        return 2 * share * recipe.precision.gradient * parameters
    moved = recipe.precision.copy or recipe.precision.weight
    reductions = accumulation if recipe.spread.steadily else 1
    return share * parameters * (2 * accumulation * moved + reductions * recipe.precision.gradient)
