"""Which values of a line say where the training is: epoch, index, step, and how many there will be.

Names have been given before; here values decide. An index that starts again with each epoch is one within it, one
that grows by whole batches counts samples and is no step, and what only counts upwards is the step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gputel.analysis.logs.infer.dialects import MEASURE, SETS
from gputel.analysis.logs.infer.shapes import BAR, LineShape
from gputel.analysis.logs.infer.slots import Slot, counter, integers, is_samples
from gputel.analysis.logs.names import legal

PLACES = {"step": "total_steps", "iteration": "total_steps", "batch": "total_steps", "epoch": "epochs"}
_RATE = re.compile(r"(?:it|s|step|batch|example|sample|B)s?/(?:s|it)|^rate/")
_STEPS = ("step", "iteration", "batch")


@dataclass(frozen=True)
class Named:
    """One value with its column; None for a value that says nothing of the training."""

    slot: Slot
    column: str | None
    unit: str | None = None
    source: str = ""
    guessed: bool = False  # that it is a place was told from its values, not from its name

    @property
    def at(self) -> int:
        return self.slot.at


def find(found: list[Named], shape: LineShape) -> list[Named]:
    """The same values, those that are places named as such."""
    if shape.is_bar:
        return _totals(_in_bar(found, shape))
    moving = _without_standing(found, shape)
    return _counted(_totals(_pairs(_epochs(moving, shape), shape)), shape)


def is_place(one: Named) -> bool:
    return one.column in (*PLACES, *PLACES.values(), "index", "length", "count", "total")


def _without_standing(found: list[Named], shape: LineShape) -> list[Named]:
    """A number of steps that stays while another counts is a setting."""
    counts = [one for one in found if one.column in _STEPS]
    if len(shape.rows) < 3 or len(counts) < 2:
        return found
    standing = [one for one in counts if len(set(shape.column(one.at))) == 1]
    if len(standing) == len(counts):
        return found
    return [replace(one, column=legal(one.source)) if one in standing else one for one in found]


def _epochs(found: list[Named], shape: LineShape) -> list[Named]:
    """`[3, 2000] loss` and `Train: 3 [100/1251]` do not call their epoch one."""
    if any(one.column == "epoch" for one in found) or len(found) < 2:
        return found
    if _is_place_in_epoch(found, shape):
        return [replace(found[0], column="epoch", source="#"), *found[1:]]
    first, second = found[0], found[1]
    if integers(shape.column(0)) is None or integers(shape.column(1)) is None:
        return found
    between = shape.literals[1].strip()
    if (first.slot.key or "").lower() in SETS and between.endswith(b"["):
        return [replace(first, column="epoch"), *found[1:]]
    if between == b"," and first.column is second.column is None and first.slot.column is None:
        batch = replace(second, column="batch", source="#")
        return [replace(first, column="epoch", source="#"), batch, *found[2:]]
    return found


def _is_place_in_epoch(found: list[Named], shape: LineShape) -> bool:
    """`[14/300][250/1251]` and `1/3 ( 33%) [ 49/323 ( 15%)]` begin the line, behind any word."""
    first = [one for one in found if one.slot.column != "share"][:4]
    if [one.slot.column for one in first] != [None, "total", None, "total"]:
        return False
    bracketed = shape.words[0].rstrip().endswith(b"[") and first[0].column == legal(first[0].source)
    nameless = (bracketed or first[0].slot.key is None) and first[2].slot.key is None
    return nameless and all(integers(shape.column(one.at)) for one in first)


def _pairs(found: list[Named], shape: LineShape) -> list[Named]:
    """`12/100`: an index within the epoch that the line names, or the step and how many there will be."""
    epoch = next((one for one in found if one.column == "epoch" and integers(shape.column(one.at))), None)
    named = list(found)
    for at, (one, total) in enumerate(pairwise(found)):
        values, totals = integers(shape.column(one.at)), integers(shape.column(total.at))
        if total.slot.column != "total" or not values or not totals or one.column == "epoch":
            continue
        nameless = one.slot.key is None or _counts_unnamed(one, shape)
        if nameless and (total.unit or any(other.column in _STEPS for other in found)):
            continue
        if not nameless and not (one.column in _STEPS and epoch and _restarts(values, one, epoch, shape)):
            continue
        if values == totals and len(values) > 1:
            continue  # a count that was reached says nothing of where the training is
        if nameless and epoch and _runs_on(values, epoch, shape):
            named[at] = replace(one, column="step", source=one.source or "#", guessed=True)
            named[at + 1] = replace(total, column="total_steps", source=total.source or "#")
        elif nameless and is_samples(values, totals[0]):
            named[at] = replace(one, column="samples", source="#")
        else:
            place, whole = ("index", "length") if epoch else ("step", "total_steps")
            named[at] = replace(one, column=place, source=one.source or "#", guessed=nameless)
            named[at + 1] = replace(total, column=whole, source=total.source or "#")
    return named


def _counts_unnamed(one: Named, shape: LineShape) -> bool:
    """`Process 100/3161` at the beginning of a line; right answers of all may stand there, too."""
    unknown = one.column == legal(one.source) and not MEASURE.search(one.source)
    return one.at == 0 and unknown and len(shape.rows) > 2 and counter(shape, [one.slot]) is not None


def _runs_on(values: Sequence[int], epoch: Named, shape: LineShape) -> bool:
    """Whether a count goes on where a later epoch begins; where none does, it is one within the epoch."""
    epochs = integers(shape.column(epoch.at)) or []
    steps = [(b - a, f > e) for a, b, e, f in zip(values, values[1:], epochs, epochs[1:], strict=False)]
    turns = [step for step, turns in steps if turns]
    most = 2 * max((step for step, turns in steps if not turns), default=0)
    return bool(turns) and all(0 < turn <= most for turn in turns)


def _restarts(values: Sequence[int], one: Named, epoch: Named, shape: LineShape) -> bool:
    """Whether the index begins again with a new epoch; of batches and iterations in one epoch that is assumed."""
    epochs = integers(shape.column(epoch.at)) or []
    turns = [b <= a for a, b, e, f in zip(values, values[1:], epochs, epochs[1:], strict=False) if f > e]
    return sum(turns) >= 0.5 * len(turns) if turns else one.column != "step"


def _in_bar(found: list[Named], shape: LineShape) -> list[Named]:
    """A bar's own count and total; its clock and its rate say nothing of the record (docs/parse.md, rule 4)."""
    drawn = next(at for at, literal in enumerate(shape.literals) if BAR in literal)
    named = [replace(one, column=None) if _is_of_bar(one) else one for one in found]
    for at, (one, total) in enumerate(pairwise(found)):
        if total.slot.column == "total" and at + 1 >= drawn and one.slot.key is None:
            named[at] = replace(one, column="count", source="#")
            named[at + 1] = replace(total, column="total", source="#")
            break
    return named


def _is_of_bar(one: Named) -> bool:
    timed = one.slot.key is None or one.column in ("index", "dt_ms")
    return timed or any(_RATE.search(text) for text in (one.slot.unit or "", one.source))


def _totals(found: list[Named]) -> list[Named]:
    """What follows a place as its total."""
    named = list(found)
    for at, one in enumerate(found):
        before = named[at - 1] if at else None
        if one.slot.column == "total" and one.column is None and before and before.column in PLACES:
            named[at] = replace(one, column=PLACES[before.column])
    return named


def _batch_beside(found: list[Named], shape: LineShape) -> list[Named]:
    """Where the epoch is the only place, and stays, what counts right behind it is the batch."""
    places = [one for one in found if one.column in (*PLACES, "index")]
    epochs = shape.column(places[0].at)
    if [one.column for one in places] != ["epoch"] or len(epochs) < 4 or len(set(epochs)) > len(epochs) / 2:
        return found
    behind = places[0].at + 1
    behind += behind < len(found) and found[behind].column == "epochs"
    unknown = [one for one in found[behind : behind + 1] if one.column == legal(one.source)]
    at = counter(shape, [one.slot for one in unknown])
    return [replace(one, column="batch", guessed=True) if at and one.slot == at else one for one in found]


def _counted(found: list[Named], shape: LineShape) -> list[Named]:
    """Where nothing is called a place, a nameless number that counts upwards is the step, or a strange first."""
    if shape.slots < 2:
        return found
    if any(one.column in (*PLACES, "index") for one in found):
        return _batch_beside(found, shape)
    strange = [
        one for one in found if one.column is None or (one.at == 0 and one.column == legal(one.source))
    ]
    at = counter(shape, [one.slot for one in strange])
    return [
        replace(one, column="step", guessed=True, source=one.source or "#") if one.slot == at else one
        for one in found
    ]
