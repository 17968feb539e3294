"""A size and a question -> Row: every figure by column name, and the fewest changes that would make it fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gputel.analysis import text
from gputel.analysis.plan import course, inputs, memory, pace
from gputel.analysis.plan.estimate import Estimate, Figures, assumed, computed
from gputel.analysis.plan.inputs import Size
from gputel.analysis.plan.memory import GIB, Memory, Recipe, gpu_memory
from gputel.analysis.plan.question import Question
from gputel.trainer.gpus import gpus

PER_STEP = "tokens per step / (batch x sequence x GPUs)"
ROUNDING = 0.01
NEAREST = "the nanochat-style model with about as many parameters"

MOST_SHOWN = 3
MORE_GPUS = (2, 4, 8, 16, 32, 64, 128)
ORDER = ("--device-batch-size", "--loss", "--shard", "--recompute", "--seq")
"""The settings that may change, cheapest first."""


@dataclass(frozen=True)
class Row:
    """A planned run. `fits` is "fits", "tight" (within the range) or "no"; `changes` would make it fit."""

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
    """Plans a size with the batch asked for, else the largest that fits, else the smallest."""
    candidates = [
        (recipe, memory_parts(question, size, recipe)) for recipe in question.recipes(size.shape.seq)
    ]
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


def memory_parts(question: Question, size: Size, recipe: Recipe) -> Memory:
    """Returns the parts of memory; activations and logits are as in the measured run, if there is one."""
    parts = gpu_memory(size, recipe, question.machine, question.micro_batches(size, recipe))
    moving = question.like.moving if question.like else None
    return moving.carried(parts) if moving else parts


def verdict(question: Question, parts: Memory) -> str:
    total, there = memory.total(parts), question.machine.gpu.memory_gib * GIB
    return "no" if total.value > there else "tight" if total.high > there else "fits"


@dataclass(frozen=True)
class Way:
    """A changed recipe; `changed` has the options that differ, with their new values."""

    changed: dict[str, str]
    size: Size
    question: Question

    @property
    def cost(self) -> tuple[int, list[int]]:
        return len(self.changed), [ORDER.index(name) for name in self.changed]

    @property
    def words(self) -> str:
        return " ".join(f"{name} {value}".strip() for name, value in self.changed.items())


def changes(question: Question, row: Row) -> tuple[str, ...]:
    """Returns the cheapest ways to fit; a superset of another way is left out."""
    enough = ("fits",) if row.fits == "tight" else ("fits", "tight")
    ways: list[Way] = []
    for way in sorted(_ways(question, row), key=lambda way: way.cost):
        if len(ways) < MOST_SHOWN and not any(
            cheaper.changed.keys() <= way.changed.keys() for cheaper in ways
        ):
            parts = memory_parts(way.question, way.size, way.question.recipe)
            if verdict(way.question, parts) in enough:
                ways.append(way)
    return tuple(_way_text(way) for way in ways) or _elsewhere(question, row)


def _shape(question: Question, size: Size, recipe: Recipe) -> Figures:
    shape = size.shape
    how = "parameters given: 6 FLOPs each" if size.shape_is_guessed else "the shape"
    dimensions = {"depth": shape.depth, "dim": shape.dim, "heads": shape.heads}

    def dimension(value: int) -> Estimate:
        return assumed(value, value, value, NEAREST) if size.shape_is_guessed else computed(value)

    return {
        **{name: dimension(value) for name, value in dimensions.items()},
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
    parts_gib = {f"{name}_gib": part / GIB for name, part in parts.items()}
    return parts_gib | {"memory_gib": total, "spare_gib": spare}


def _warnings(question: Question, size: Size, figures: Figures) -> Iterable[str]:
    shape, limit = size.shape, question.most_hours
    if size.shape_is_guessed:
        yield f"has no shape: memory and MFU are those of {shape.depth} layers of width {shape.dim:,}"
    if limit is not None and figures["hours"].value > limit * (1 + ROUNDING):
        cost = question.dollars(figures["hours"].value)
        paid = f" and {text.money(cost)}" if cost is not None else ""
        needed, allowed = (text.duration(3600 * hours) for hours in (figures["hours"].value, limit))
        yield f"takes {needed}{paid}; the limit is {allowed}"
    epochs = figures.get("epochs")
    if epochs and epochs.value > pace.MOST_EPOCHS:
        yield f"reads its data {epochs.value:.3g} times; more than {pace.MOST_EPOCHS} epochs help little"


def _way_text(way: Way) -> str:
    total = memory.total(memory_parts(way.question, way.size, way.question.recipe)).value / GIB
    return f"{way.words} ({total:.0f} GiB)"


def _ways(question: Question, row: Row) -> Iterator[Way]:
    """Yields every combination of settings, larger batches first."""
    recipe = row.recipe
    losses = ["full", "chunked"] if recipe.loss == "full" else ["chunked"]
    shards = ["none", "zero1", "fsdp", "zero3"] if _may_spread(question, row) else [recipe.shard]
    for batch, loss, shard, recompute in product(
        _batches(question, row), losses, shards, sorted({recipe.recompute, True})
    ):
        other = replace(recipe, device_batch=batch, loss=loss, shard=shard, recompute=recompute)  # type: ignore[arg-type]
        now = {ORDER[0]: batch, ORDER[1]: loss, ORDER[2]: shard, ORDER[3]: "" if recompute else None}
        was = {
            ORDER[0]: recipe.device_batch,
            ORDER[1]: recipe.loss,
            ORDER[2]: recipe.shard,
            ORDER[3]: "" if recipe.recompute else None,
        }
        changed = {name: str(value) for name, value in now.items() if value != was[name]}
        if changed:
            yield Way(changed, row.size, replace(question, recipe=other))
    seq = row.size.shape.seq // 2
    if seq and not question.tokens_per_step % (seq * recipe.device_batch * question.machine.count):
        yield Way(
            {"--seq": str(seq)},
            inputs.with_seq(row.size, seq),
            replace(question, recipe=recipe, device_batch=recipe.device_batch),
        )


def _may_spread(question: Question, row: Row) -> bool:
    return row.recipe.shard == "none" and question.machine.count > 1


def _batches(question: Question, row: Row) -> Sequence[int]:
    """Returns the current batch and its halves, as far as they divide a step."""
    at_once = row.size.shape.seq * question.machine.count
    halves = [row.recipe.device_batch >> n for n in range(row.recipe.device_batch.bit_length())]
    return [batch for batch in halves if not question.tokens_per_step % (batch * at_once)]


def _elsewhere(question: Question, row: Row) -> tuple[str, ...]:
    """Returns what would help if no recipe does: more GPUs, or the smallest GPU with enough memory."""
    options = []
    for times in MORE_GPUS:
        machine = replace(question.machine, count=question.machine.count * times)
        at_once = row.size.shape.seq * machine.count
        recipe = replace(row.recipe, device_batch=1, shard="zero3", recompute=True)
        if question.tokens_per_step % at_once:
            break
        more = replace(question, machine=machine, recipe=recipe)
        if verdict(more, memory_parts(more, row.size, recipe)) != "no":
            on = f"--on {machine.count}x{machine.gpu.name}"
            options.append(f"{on} --device-batch-size 1 --shard zero3 --recompute")
            break
    needed = row.figures["memory_gib"].value
    holding = [gpu for gpu in gpus() if gpu.memory_gib >= needed]
    if holding:
        best = min(holding, key=lambda gpu: gpu.memory_gib)
        options.append(f"a GPU such as {best.name}, of {best.memory_gib:.0f} GiB")
    return tuple(options)
