"""A size and a question -> a row: every figure of one run that might be, by the name of its column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gputel.analysis import text
from gputel.analysis.planning import course, data, memory
from gputel.analysis.planning.estimate import Estimate, Figures, assumed, computed
from gputel.analysis.planning.memory import GIB, Memory, Recipe
from gputel.analysis.planning.question import Question
from gputel.analysis.planning.sizes import Size

PER_STEP = "tokens a step / (batch x sequence x GPUs)"
ROUNDING = 0.01
NEAREST = "the users' shape with about as many parameters"


@dataclass(frozen=True)
class Row:
    """`fits` is "fits", "tight" (within the range) or "no"; `changes` says what would make it fit."""

    size: Size
    recipe: Recipe
    figures: Figures
    fits: str
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.size.name


def row(question: Question, size: Size) -> Row:
    """With the largest batch that fits, where none was asked for; the smallest, where none does."""
    candidates = [(recipe, held(question, size, recipe)) for recipe in question.recipes(size.shape.seq)]
    verdicts = [verdict(question, parts) for _, parts in candidates]
    best = next((verdicts.index(word) for word in ("fits", "tight") if word in verdicts), -1)
    recipe, parts = candidates[best]
    figures = {
        **_shape(question, size, recipe),
        **course.figures(question, size, recipe),
        **_memory(question, parts),
    }
    warnings = tuple(_warnings(question, size, figures))
    return Row(size, recipe, figures, verdicts[best], warnings=warnings)


def held(question: Question, size: Size, recipe: Recipe) -> Memory:
    """The parts of memory; those that come and go as the run that was measured had them, where there is one."""
    parts = memory.of(size, recipe, question.machine, question.micro_batches(size, recipe))
    moving = question.like.moving if question.like else None
    return moving.carried(parts) if moving else parts


def verdict(question: Question, parts: Memory) -> str:
    total, there = memory.total(parts), question.machine.gpu.memory_gib * GIB
    return "no" if total.value > there else "tight" if total.high > there else "fits"


def _shape(question: Question, size: Size, recipe: Recipe) -> Figures:
    shape = size.shape
    how = "the parameters given: six FLOPs each" if size.shape_is_guessed else "the shape"
    dimensions = {"depth": shape.depth, "dim": shape.dim, "heads": shape.heads}

    def known(value: int) -> Estimate:
        return assumed(value, value, value, NEAREST) if size.shape_is_guessed else computed(value)

    return {
        **{name: known(value) for name, value in dimensions.items()},
        "vocab": computed(shape.vocab),
        "seq": computed(shape.seq),
        "parameters": computed(size.parameters, how),
        "flops_per_token": computed(size.flops_per_token, how),
        "tokens_per_step": computed(question.tokens_per_step),
        "device_batch": computed(recipe.device_batch),
        "accumulation": computed(question.micro_batches(size, recipe), PER_STEP),
    }


def _memory(question: Question, parts: Memory) -> Figures:
    total, there = memory.total(parts) / GIB, question.machine.gpu.memory_gib
    spare = replace(total, value=there - total.value, low=there - total.high, high=there - total.low)
    held_gib = {f"{name}_gib": part / GIB for name, part in parts.items()}
    return held_gib | {"memory_gib": total, "spare_gib": spare}


def _warnings(question: Question, size: Size, figures: Figures) -> Iterable[str]:
    shape, limit = size.shape, question.most_hours
    if size.shape_is_guessed:
        yield f"gives no shape: memory and MFU are those of {shape.depth} layers, {shape.dim:,} wide"
    if limit is not None and figures["hours"].value > limit * (1 + ROUNDING):
        cost = question.dollars(figures["hours"].value)
        paid = f" and {text.money(cost)}" if cost is not None else ""
        needed, allowed = (text.duration(3600 * hours) for hours in (figures["hours"].value, limit))
        yield f"takes {needed}{paid}; {allowed} are allowed"
    epochs = figures.get("epochs")
    if epochs and epochs.value > data.MOST_EPOCHS:
        yield f"reads its data {epochs.value:.3g} times; past {data.MOST_EPOCHS} it learns little more from them"
