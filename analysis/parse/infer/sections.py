"""Names that stand apart from their value: of the set that a part of the line is about, or before the step.

`train: loss 1.2, acc 0.5 | val: loss 1.3, acc 0.4` says once for several values which set they are of, and
`Validation loss at step 200: 1.3` names what is measured before it says where.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.parse.infer.dialects import MEASURE
from gputel.analysis.parse.infer.shapes import Shape
from gputel.analysis.parse.infer.slots import Slot

LONGEST_NAME = 80
_SET = r"(?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)"
_MARKER = re.compile(rf"(?i)(?<![\w/.-])(?P<set>{_SET})(?: set)?(?:\s*[\])}}:|>({{\[]|\s+-)")
_OWN = re.compile(rf"(?i)(?<![a-z]){_SET}(?![a-z])")
_PLACE = r"(?:global[ _])?(?:step|iter(?:ation)?|epoch|(?:mini-?)?batch|update)(?:e?s)?"
_PLACES = re.compile(rf"(?i){_PLACE}")
_MEASURED_AT = re.compile(
    rf"(?i)(?P<what>[a-z][^|,;:=]*?)(?: *\([^()]*\))? +(?:at|after|for|in|@) +(?:the )?(?P<place>{_PLACE})\W*$"
)
_NAMED_APART = re.compile(r"\)?\s*(?:[:=]|is|was)\s*")


def find(found: list[Slot], shape: Shape) -> list[Slot]:
    """The same values, those that a word further to the left names with their whole name."""
    return _of_sets(_before_the_step(found, shape), shape)


def _before_the_step(found: list[Slot], shape: Shape) -> list[Slot]:
    named = list(found)
    for at, (place, value) in enumerate(pairwise(found)):
        if value.key is not None or not _NAMED_APART.fullmatch(_words(shape, value.at)):
            continue
        ranged = at > 0 and found[at - 1].column == "range"  # `for minibatches 40-49`
        said = _MEASURED_AT.search(_words(shape, place.at - ranged)[-LONGEST_NAME:])
        if said:
            named[at], named[at + 1] = (
                replace(place, key=said["place"]),
                replace(value, key=said["what"].strip()),
            )
    return named


def _of_sets(found: list[Slot], shape: Shape) -> list[Slot]:
    """Only where a line is about several sets: what is about one says so to whoever reads the whole line."""
    sets = [_set(_words(shape, slot.at)) for slot in found]
    if not any(sets[1:]):
        return found
    named: list[Slot] = []
    open_set, said = None, set[str]()
    for slot, begins in zip(found, sets, strict=True):
        open_set, key = begins or open_set, slot.key or ""
        measured = MEASURE.search(key) is not None or (key in said and not _PLACES.fullmatch(key))
        held_out = open_set is not None and not open_set.lower().startswith("train")
        apart = held_out and measured and not _OWN.search(key)
        named.append(replace(slot, key=f"{open_set} {key}") if apart else slot)
        said.add(key)
    return named


def _set(words: str) -> str | None:
    """The last set that is announced between two values, and is not itself the name of the second."""
    markers = [marker for marker in _MARKER.finditer(words) if re.search("[A-Za-z]", words[marker.end() :])]
    return markers[-1]["set"] if markers else None


def _words(shape: Shape, at: int) -> str:
    return shape.words[at].decode(errors="replace")
