"""`12/100`: a value with its total is an index within the epoch, a step, a count of samples, or a quotient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.counters import SAMPLES, counter, integers, is_samples
from gputel.analysis.logs.infer.dialects import MEASURE
from gputel.analysis.logs.infer.named import STEPS, Named, is_place, is_unknown
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.infer.slots import SECONDS
from gputel.analysis.logs.names import legal
from gputel.analysis.logs.patterns import lazy_regex

_OF_SAMPLES = lazy_regex(rb"(?i)\W{0,3}(?:samples?|images?|tokens?|examples?|sentences?|frames?|words?)\b")
_THOUSANDS = ("k", "K", "M")


def name_pairs(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names `12/100`: an index within the epoch that the line names, or the step and how many there will be."""
    epoch = next((cell for cell in cells if cell.column == "epoch" and integers(shape.column(cell.at))), None)
    counted = any(cell.column in STEPS for cell in cells)
    named = list(cells)
    scores = [shape.column(cell.at) for cell in cells if MEASURE.search(cell.source)]
    for at, (cell, total) in enumerate(pairwise(cells)):
        if total.slot.column == "total" and any(_is_share(cell, total, score, shape) for score in scores):
            named[at : at + 2] = (
                replace(value, column=None, slot=replace(value.slot, column="counted"), guessed=False)
                for value in (cell, total)
            )
        elif total.slot.column == "total" and cell.column != "epoch":
            named[at : at + 2] = _pair(cell, total, epoch, shape, counted=counted) or named[at : at + 2]
    return named


def _pair(
    cell: Named, total: Named, epoch: Named | None, shape: LineShape, *, counted: bool
) -> tuple[Named, Named] | None:
    """A value and its total as places, else None; `counted` says that the line names a step already."""
    if cell.slot.column == "aside":
        return None
    if cell.slot.unit in _THOUSANDS and total.slot.unit in _THOUSANDS:
        return _rounded_pair(cell, total, epoch, shape, counted=counted)
    values, totals = integers(shape.column(cell.at)), integers(shape.column(total.at))
    is_nameless = cell.slot.key is None or _counts_unnamed(cell, shape)
    if not values or not totals:
        return None
    was_reached = values == totals and len(values) > 1 and not (epoch and cell.column in STEPS)
    if was_reached or (epoch and _counts_trainings(values, epoch, shape)):
        return None
    if is_nameless and (total.unit or counted or total.slot.unit in SECONDS):
        return None
    if is_nameless and epoch and len(values) > 1 and values == integers(shape.column(epoch.at)):
        return replace(cell, column=None), replace(total, column="epochs")  # `3/10 * Epoch 3`
    within = epoch and (cell.column in STEPS or _counts_within(cell, shape))
    if not is_nameless and not (epoch and within and _restarts(values, cell, epoch, shape)):
        return None
    counts_samples = _OF_SAMPLES.match(shape.words[total.at + 1]) is not None
    if is_nameless and epoch and not counts_samples and _runs_on(values, epoch, shape):
        return _as_places(cell, total, "step", "total_steps", guessed=True)
    if is_nameless and (counts_samples or is_samples(values, totals[0])):
        return replace(cell, column="samples", source="#"), total
    place, whole = ("index", "length") if epoch else ("step", "total_steps")
    return _as_places(cell, total, place, whole, guessed=is_nameless)


def _is_share(cell: Named, total: Named, score: Sequence[bytes], shape: LineShape) -> bool:
    """Whether a score is the quotient of both in each line: `accuracy: 20.78%, (512570/2466133)` counts hits."""
    hits, totals = integers(shape.column(cell.at)), integers(shape.column(total.at))
    if cell.slot.key or not hits or not totals or len(hits) < 2 or 0 in totals:
        return False
    return all(_is_rounded(part / whole, text) for part, whole, text in zip(hits, totals, score, strict=True))


def _is_rounded(share: float, text: bytes) -> bool:
    """Whether a text is the share, or its percentage, to the digits that it has."""
    if not re.fullmatch(rb"\d+\.\d+", text):
        return False
    digits = len(text.partition(b".")[2])
    return any(abs(float(text) - scale * share) <= 0.51 * 10**-digits for scale in (1, 100))


def _rounded_pair(
    cell: Named, total: Named, epoch: Named | None, shape: LineShape, *, counted: bool
) -> tuple[Named, Named] | None:
    """`[2.5k/75.0k]`: a step that never falls and its total, unless the line has an epoch or a step already."""
    known = cell.column in STEPS
    counts = [float(value) for value in shape.column(cell.at)]
    scales = {cell.slot.unit, total.slot.unit}
    if (counted and not known) or epoch or not (known or cell.slot.key is None):
        return None
    if len(counts) < 2 or any(b < a for a, b in pairwise(counts)) or "" in scales:
        return None
    place = cell.column if known else "step"
    return (
        replace(cell, column=place, unit=cell.slot.unit, source=cell.source or "#", guessed=not known),
        replace(total, column="total_steps", unit=total.slot.unit, source=total.source or "#"),
    )


def _as_places(cell: Named, total: Named, place: str, whole: str, *, guessed: bool) -> tuple[Named, Named]:
    return (
        replace(cell, column=place, source=cell.source or "#", guessed=guessed),
        replace(total, column=whole, source=total.source or "#"),
    )


def _counts_unnamed(cell: Named, shape: LineShape) -> bool:
    """Whether the line begins like `Process 100/3161`, and the value counts; `Correct 81/100` does not."""
    unknown = cell.column == legal(cell.source) and not (is_place(cell) or MEASURE.search(cell.source))
    return cell.at == 0 and unknown and len(shape.rows) > 2 and counter(shape, [cell.slot]) is not None


def _counts_within(cell: Named, shape: LineShape) -> bool:
    """Whether a name that no place has, `j=3/30`, is that of a counter; `correct=97/100` counts no batches."""
    measures = MEASURE.search(cell.source) or SAMPLES.search(cell.source)
    return is_unknown(cell) and not measures and counter(shape, [cell.slot]) is not None


def _counts_trainings(values: Sequence[int], epoch: Named, shape: LineShape) -> bool:
    """Whether it changes only where the epochs begin again: `Run 2/8, Epoch 1/50`."""
    epochs = integers(shape.column(epoch.at)) or []
    changes = [f < e for (a, b), (e, f) in zip(pairwise(values), pairwise(epochs), strict=False) if a != b]
    return bool(changes) and all(changes)


def _runs_on(values: Sequence[int], epoch: Named, shape: LineShape) -> bool:
    """Whether a count goes on where a later epoch begins; False where no later epoch begins."""
    epochs = integers(shape.column(epoch.at)) or []
    steps = [(b - a, f > e) for a, b, e, f in zip(values, values[1:], epochs, epochs[1:], strict=False)]
    turns = [step for step, turns in steps if turns]
    most = 2 * max((step for step, turns in steps if not turns), default=0)
    return bool(turns) and all(0 < turn <= most for turn in turns)


def _restarts(values: Sequence[int], cell: Named, epoch: Named, shape: LineShape) -> bool:
    """Whether the index begins again with a new epoch.

    Where there is one epoch, batches and iterations are assumed to, and a step does if it is lower than the steps
    that the epochs before would have had.
    """
    epochs = integers(shape.column(epoch.at)) or []
    turns = [b <= a for a, b, e, f in zip(values, values[1:], epochs, epochs[1:], strict=False) if f > e]
    if turns:
        return sum(turns) >= 0.5 * len(turns)
    before = (epochs[0] - 1) * (max(values) - min(values)) if epochs else 0
    return cell.column != "step" or min(values) < before
