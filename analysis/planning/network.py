"""What GPUs send each other in a step, and how long that takes where the links are known."""

from __future__ import annotations

from dataclasses import dataclass

from gputel.analysis.planning.estimate import Estimate, assumed
from gputel.analysis.planning.machine import Machine
from gputel.analysis.planning.memory import Recipe
from gputel.analysis.planning.sizes import Size

USED_OF_LINK = 0.6  # TCP over several sockets, at worst; the line rate at best
BACKWARD = 2 / 3  # of a micro-batch's time; only the last one's can hide what travels


@dataclass(frozen=True)
class Traffic:
    """`bytes_per_node` leave each node (each GPU, where there is one node) in a step."""

    bytes_per_node: float
    seconds: Estimate


def between_nodes(
    size: Size, recipe: Recipe, machine: Machine, accumulation: int, compute_s: Estimate
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
    size: Size, recipe: Recipe, machine: Machine, accumulation: int, compute_s: Estimate
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


def _sent(size: Size, recipe: Recipe, pieces: int, accumulation: int) -> float:
    share, parameters = (pieces - 1) / pieces, size.parameters
    if not recipe.spread.weights:
        return 2 * share * recipe.precision.gradient * parameters
    moved = recipe.precision.copy or recipe.precision.weight
    reductions = accumulation if recipe.spread.steadily else 1
    return share * parameters * (2 * accumulation * moved + reductions * recipe.precision.gradient)
