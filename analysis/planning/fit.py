"""What would make a size fit: a row that does not go in, the fewest changes to its recipe that would out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gputel.analysis.planning import memory, sizes
from gputel.analysis.planning.memory import GIB
from gputel.analysis.planning.question import Question
from gputel.analysis.planning.rows import Row, held, verdict
from gputel.analysis.planning.sizes import Size
from gputel.trainer.gpus import gpus

MOST_SHOWN = 3
MORE_GPUS = (2, 4, 8, 16, 32, 64, 128)
ORDER = ("--device-batch-size", "--loss", "--shard", "--recompute", "--seq")
"""The settings that may change; those first that cost least."""


@dataclass(frozen=True)
class Way:
    """`changed` holds the options that differ, with their new words."""

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
    """The cheapest ways first; one that changes all that another does, and more, is left out."""
    enough = ("fits",) if row.fits == "tight" else ("fits", "tight")
    found: list[Way] = []
    for way in sorted(_ways(question, row), key=lambda way: way.cost):
        if len(found) < MOST_SHOWN and not any(known.changed.keys() <= way.changed.keys() for known in found):
            parts = held(way.question, way.size, way.question.recipe)
            if verdict(way.question, parts) in enough:
                found.append(way)
    return tuple(_told(way) for way in found) or _elsewhere(question, row)


def _told(way: Way) -> str:
    total = memory.total(held(way.question, way.size, way.question.recipe)).value / GIB
    return f"{way.words} ({total:.0f} GiB)"


def _ways(question: Question, row: Row) -> Iterator[Way]:
    """Every combination of settings; of several batches the largest comes first, so that the least is given up."""
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
            sizes.with_seq(row.size, seq),
            replace(question, recipe=recipe, device_batch=recipe.device_batch),
        )


def _may_spread(question: Question, row: Row) -> bool:
    return row.recipe.shard == "none" and question.machine.count > 1


def _batches(question: Question, row: Row) -> Sequence[int]:
    """The one at hand, and its halves as far as they divide a step."""
    at_once = row.size.shape.seq * question.machine.count
    halves = [row.recipe.device_batch >> n for n in range(row.recipe.device_batch.bit_length())]
    return [batch for batch in halves if not question.tokens_per_step % (batch * at_once)]


def _elsewhere(question: Question, row: Row) -> tuple[str, ...]:
    """No recipe helps on these GPUs: how many of them would, and the smallest GPU that holds it as it was asked."""
    found = []
    for times in MORE_GPUS:
        machine = replace(question.machine, count=question.machine.count * times)
        at_once = row.size.shape.seq * machine.count
        recipe = replace(row.recipe, device_batch=1, shard="zero3", recompute=True)
        if question.tokens_per_step % at_once:
            break
        more = replace(question, machine=machine, recipe=recipe)
        if verdict(more, held(more, row.size, recipe)) != "no":
            on = f"--on {machine.count}x{machine.gpu.name}"
            found.append(f"{on} --device-batch-size 1 --shard zero3 --recompute")
            break
    needed = row.figures["memory_gib"].value
    holding = [gpu for gpu in gpus() if gpu.memory_gib >= needed]
    if holding:
        best = min(holding, key=lambda gpu: gpu.memory_gib)
        found.append(f"a GPU such as {best.name}, of {best.memory_gib:.0f} GiB")
    return tuple(found)
