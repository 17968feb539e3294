"""Named values of a line -> the same, with names that depend on those beside them: one step, time and loss."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.counters import drops, integers, numbers
from gputel.analysis.logs.infer.dialects import OPPOSED
from gputel.analysis.logs.infer.losses import is_average, is_sum
from gputel.analysis.logs.infer.named import PLACES, Named
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES
from gputel.analysis.logs.names import BEGINS_HELD_OUT, is_evaluation, legal

_INITIAL = re.compile(r"(?i)^initial_")
_ENDS = re.compile(r"(?i)_loss$")
_HELD_OUT = re.compile(BEGINS_HELD_OUT, re.IGNORECASE)
_LANGUAGE = re.compile(r"(?i)(?:lm|language[ _]model|gpt)[ _]loss")
_PERPLEXITY = re.compile(r"(?i)ppl|perplexity")
_EPISODE = re.compile(r"(?i)(?:training )?(?:episodes?|ep)(?: ?(?:#|no\.?|number))?")
_MEANS = re.compile(r"(?i)_loss_(?:avg|aver|mean)$")
_DIGIT_FIRST = re.compile(r"\d{1,3}[A-Za-z]+_\w+")  # `2d_loss`
_PHASE = re.compile(  # `forward time`, `data_time`, beside another of them
    r"(?i)(?:^|[\W_])(?:data|load\w*|batching|forward|fwd|backward|bwd|optim\w*|update|sampl\w*|collect\w*|learn\w*|inference)"
    r"[ _-]*(?:time|took|duration|secs?|seconds)(?:$|[\W_])"
)


def of_weights(cells: list[Named]) -> list[Named]:
    """Leaves its own name to a `Norm` beside a bias: it is that of the weights."""
    if not any(cell.source.lower() in ("bias", "intercept") for cell in cells):
        return cells
    return [
        replace(cell, column=legal(cell.source)) if cell.source.lower() == "norm" else cell for cell in cells
    ]


def held_out_loss(cells: list[Named]) -> list[Named]:
    """Names the only loss of an evaluation `val_loss`, whatever the set is called: `validation.lst-loss`.

    One before the training, `Initial validation loss`, is one of them.
    """
    evaluated = [cell for cell in cells if cell.column and is_evaluation(_INITIAL.sub("", cell.column))]
    if any(OPPOSED.match(_HELD_OUT.sub("", cell.column or "")) for cell in evaluated):
        return cells
    losses = [cell for cell in evaluated if _ENDS.search(cell.column or "")]
    losses = losses or [cell for cell in evaluated if _MEANS.search(cell.column or "")]
    if any(is_average(cell.source) for cell in losses):
        losses = [cell for cell in losses if not is_sum(cell.source)]
    if len(losses) != 1:
        return cells
    return [replace(cell, column="val_loss") if cell in losses else cell for cell in cells]


def held_out_perplexity(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names `ppl` by the validation whose loss it is the exponential of: `train 2.5, val 2.75, ppl 15.64`."""
    losses = {cell.column: numbers(shape.column(cell.at)) for cell in cells}
    train, held_out = losses.get("loss"), losses.get("val_loss")
    if not train or not held_out:
        return cells
    return [
        replace(cell, column=f"val_{cell.column}")
        if cell.column
        and _PERPLEXITY.fullmatch(cell.column)
        and _are_exponentials(numbers(shape.column(cell.at)), held_out)
        and not _are_exponentials(numbers(shape.column(cell.at)), train)
        else cell
        for cell in cells
    ]


def _are_exponentials(values: list[float], losses: list[float]) -> bool:
    """Whether most are those of the losses, within the digits that are printed."""
    pairs = zip(values, losses, strict=False)
    near = sum(ppl > 0 and abs(math.log(ppl) - loss) < 0.01 for ppl, loss in pairs)
    return near > 0.9 * len(losses)


def global_step(cells: list[Named], shape: LineShape) -> list[Named]:
    """Keeps the global step where a line has two; one that falls may count since the last report."""
    steps = [cell for cell in cells if cell.column == "step"]
    if len(steps) < 2:
        return cells
    counted = [cell for cell in steps if "global" in cell.source.lower()]
    best = next(iter(counted or [cell for cell in steps if not drops(shape.column(cell.at))]), None)
    return [
        replace(cell, column=None) if best and cell in steps and cell is not best else cell for cell in cells
    ]


def steps_of_episode(cells: list[Named], shape: LineShape) -> list[Named]:
    """Leaves its own name to `Steps: 200` if it counts within each episode: it stays the same, or falls."""
    episode = next((shape.column(c.at) for c in cells if _EPISODE.fullmatch(c.source)), [])
    if len({*episode}) < 2:
        return cells
    return [
        replace(cell, column=legal(cell.source))
        if cell.column == "step"
        and cell.source.lower().endswith("steps")
        and _is_length(shape.column(cell.at), episode)
        else cell
        for cell in cells
    ]


def _is_length(column: list[bytes], episode: list[bytes]) -> bool:
    """Whether it mostly stays the same, or falls though the episode rises."""
    stays = 2 * sum(a != b for a, b in pairwise(column)) < len(column) - 1
    steps, episodes = integers(column) or [], integers(episode) or []
    rows = [*zip(steps, episodes, strict=False)]
    return stays or any(
        step < before and rises > number for (before, number), (step, rises) in pairwise(rows)
    )


def one_time(cells: list[Named]) -> list[Named]:
    """Prefers a step time with a name to one that only has a unit; times of parts of a step keep their names."""
    phases = [cell for cell in cells if _PHASE.search(cell.source)]
    if len(phases) > 1 or (phases and any(cell.column == "dt_ms" and cell not in phases for cell in cells)):
        cells = [
            replace(cell, column=legal(cell.source)) if cell in phases and cell.column == "dt_ms" else cell
            for cell in cells
        ]
    times = [cell for cell in cells if cell.column == "dt_ms"]
    bare = [cell for cell in times if cell.slot.key is None]
    return [replace(cell, column=None) if len(times) > len(bare) and cell in bare else cell for cell in cells]


def plain_loss(cells: list[Named]) -> list[Named]:
    """Leaves its own name to `lm_loss` beside a value that is called `loss`."""
    if not any(cell.column == "loss" == cell.source.lower() for cell in cells):
        return cells
    return [
        replace(cell, column=legal(cell.source))
        if cell.column == "loss" and _LANGUAGE.fullmatch(cell.source)
        else cell
        for cell in cells
    ]


def distinct(cells: list[Named]) -> list[Named]:
    """Gives a column to the first of two values; the second keeps its own name, if that is free and of no place.

    Behind a validation's figure it is of that: `loss 2.5 (kl 0.1) val 2.7 (kl 0.2)`.
    """
    taken: dict[str, int] = {}
    named: list[Named] = []
    held_out = None  # where the last of a validation's figures with a name of its own stands
    for at, cell in enumerate(cells):
        column, is_again = cell.column, cell.column in taken
        if is_again and held_out is not None and _is_of_training(column, taken, held_out):
            column = f"val_{column}"
        elif is_again:
            column = legal(cell.source)
        elif column and is_evaluation(column):
            held_out = at
        is_free = column not in taken and not (is_again and column in PLACES)
        if column and not (is_free and (column[0].isalpha() or _DIGIT_FIRST.fullmatch(column))):
            column = None
        taken.setdefault(column or "", at)
        named.append(replace(cell, column=column))
    return named


def _is_of_training(column: str | None, taken: Mapping[str, int], held_out: int) -> bool:
    """Whether a measure of the training has this name before the validation's figure."""
    name = column or ""
    return taken[name] < held_out and not (name in PLACES or name in CIRCUMSTANCES or is_evaluation(name))
