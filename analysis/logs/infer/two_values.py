"""Two names in front of two values: `loss (train/val): 2.5/2.7`, `epoch/iter: 9/25`, `acc (loss): 0.5 (1.3)`.

One name may have several values, too, none of which is a total: `residuals: 0.25/0.5/0.125`. Of two with a change
between them, `loss went from 2.7 to 2.4`, the second is the present one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.counters import has_fractions, numbers
from gputel.analysis.logs.infer.dialects import MEASURE
from gputel.analysis.logs.infer.named import Slot
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.names import HELD_OUT, TRAINING
from gputel.analysis.logs.patterns import lazy_regex

_OF_TWO = rf"{TRAINING}|{HELD_OUT}|cur(?:r(?:ent)?)?|batch|raw|avg|average|mean|smoothed"
# `loss (cur/avg): 2.5/2.7`, `train/val loss: 2.5/2.7`
_LOSSES = lazy_regex(
    rf"(?i)(?:(?P<what>[a-z].*?)[ _]*[(\[ ] ?)?(?P<first>{_OF_TWO}) ?/ ?(?P<second>{_OF_TWO})"
    r"(?:[)\]]| (?P<behind>\w+))?"
)
_SCORE = r"acc(?:uracy)?|f1|auc|m?iou|dice|psnr|ppl|perplexity"
# `Accuracy (Loss): 0.5 (1.37)`; a loss in brackets behind a loss says which one it is
_MEASURES_IN_BRACKETS = lazy_regex(
    rf"(?i)(?P<of>.*?)(?P<first>{_SCORE}|loss) ?\((?P<second>(?!(?P=first)){_SCORE}|loss)\)?"
)
# `val loss/acc: 2.5/0.4`
_MEASURES_BY_SLASH = lazy_regex(
    rf"(?i)(?P<of>(?:\w+[ _])?)(?P<first>{_SCORE}|loss) ?/ ?(?P<second>{_SCORE}|loss)"
)
# `epoch/iter: 9/2579`
_PLACES = lazy_regex(r"(?i)(?P<first>epoch|ep)\s*/\s*(?P<second>\w*(?:step|iter|iteration|batch|update)s?)")
# `loss went from 2.7 to 2.4`, `loss dropped 2.7 -> 2.4`
_FROM = lazy_regex(
    r"(?i)(?:[ _](?:has |is |was )?(?:\w+ed|(?:de|in)creases?|went|goes|fell|falls|rose|rises|grew|shrank))?"
    r"[ _]from$"
    r"|[ _](?:(?:de|in)creased?|dropped|fell|rose|improved|reduced|changed|went)$"
)
_TO = lazy_regex(r"(?i)\s*to\s*")
_ARROW = lazy_regex(r"\s*(?:[-=]{1,2}>|→)\s*")
_NUMBER_BEHIND = lazy_regex(r" (?P<number>\d+)$")
_FEW = 3  # lines


def named_together(before: Slot, slot: Slot) -> tuple[Slot, Slot]:
    """Names both as the words in front of them do, where these name two."""
    if slot.column == "total":
        return _by_slash(before, slot)
    return _in_brackets(before, slot) if slot.key == f"{before.key}()" else (before, slot)


def changed(before: Slot, slot: Slot, left: str) -> tuple[Slot, Slot]:
    """Gives the name to the second of two values with a change between them: `2.7 to 2.4`, `40-49`."""
    origin = _FROM.search(before.key or "")
    if left == "-":
        key = slot.key or before.key
    elif before.key and (_ARROW.fullmatch(left) or (origin and _TO.fullmatch(left))):
        key = before.key[: origin.start()] if origin else before.key
    else:
        return before, slot
    return replace(before, key=None, column="range"), replace(slot, key=key)


def numbered(before: Slot, slot: Slot, shape: LineShape) -> Slot:
    """Numbers the next value of a measure with several; a total stays the same, or is never less than the value."""
    if slot.column != "total" or before.column == "total" or before.key is None or shape.count < _FEW:
        return slot
    number = _NUMBER_BEHIND.search(before.key)
    measures = MEASURE.search(before.key) is not None
    if not (number or _is_apart(shape.column(before.at), shape.column(slot.at), measures=measures)):
        return slot
    name = before.key[: number.start()] if number else before.key
    return replace(slot, key=f"{name} {int(number['number']) + 1 if number else 2}", column=None)


def _is_apart(values: Sequence[bytes], others: Sequence[bytes], *, measures: bool) -> bool:
    """Whether the second is a fraction that changes, and of a measure or sometimes less than the first.

    No total is, but `mem 3.2/5.6` may be what is used and reserved.
    """
    less = any(other < value for value, other in zip(numbers(values), numbers(others), strict=False))
    return (less or measures) and len({*others}) > 1 and has_fractions(others)


def _by_slash(before: Slot, slot: Slot) -> tuple[Slot, Slot]:
    """Names two values with a slash between them, and between their names; one with a total is no average."""
    words = before.key or ""
    if words.endswith("()"):
        return replace(before, key=None, column="aside"), slot  # `loss 2.5 (12/12 s)`
    if places := _PLACES.fullmatch(words):
        keys = [places["first"], places["second"]]
    elif measures := _MEASURES_BY_SLASH.fullmatch(words):
        keys = [measures["of"] + measures[each] for each in ("first", "second")]
    elif (sets := _LOSSES.fullmatch(words)) and sets["first"].lower() != sets["second"].lower():
        what = sets["what"] or sets["behind"]
        keys = [f"{sets[each]} {what}" for each in ("first", "second")] if what else []
    else:
        keys = []
    return (replace(before, key=keys[0]), replace(slot, key=keys[1], column=None)) if keys else (before, slot)


def _in_brackets(before: Slot, slot: Slot) -> tuple[Slot, Slot]:
    """Names two measures: the value in brackets is no average."""
    names = _MEASURES_IN_BRACKETS.fullmatch(before.key or "")
    if names is None or "loss" not in (names["first"] + names["second"]).lower():
        return before, slot
    return replace(before, key=names["of"] + names["first"]), replace(slot, key=names["of"] + names["second"])
