"""Sets that stand behind the values: `loss: 2.5 (train), 2.7 (val)`, `loss=2.5 on train`, `loss 2/3 (train/val)`.

They name the values where a line has the training set and a held-out one; the measure may stand in front of the
first value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.named import Slot
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.infer.slots import words_before
from gputel.analysis.logs.infer.units import PLACES
from gputel.analysis.logs.names import EVALUATING, TRAINING
from gputel.analysis.logs.patterns import lazy_regex

_SHORT = {"tr": "train", "trn": "train", "va": "val", "vld": "val", "te": "test", "tst": "test"}
_SET = rf"(?:{TRAINING}|{EVALUATING}|{'|'.join(_SHORT)})"
_BEHIND = lazy_regex(
    rf"(?i)\s*(?:[(\[](?P<set>{_SET})(?: set| data)?[)\]]|on (?:the )?(?P<on>{_SET})(?: set| data)?(?![\w-]))"
    r"[\s,;/|-]*(?P<key>[a-z]?)"
)
_OF_DATA = lazy_regex(r"(?i)on (?!\w+$)")  # no name of a measure: `2.5 on train data`
_BOTH_BEHIND = lazy_regex(rf"(?i)\s*[(\[](?P<first>{_SET}) ?/ ?(?P<second>{_SET})[)\]]")


def named_by_sets(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Puts the set that stands behind a value before its measure."""
    sets, keys = _sets(row, shape), list[str]()
    if not {True, False} <= {each.startswith("train") for each, _ in sets if each}:
        return row
    named, goes_on = list(row), False
    for at, (slot, (behind, is_over)) in enumerate(zip(row, sets, strict=True)):
        keys.append(keys[-1] if goes_on else slot.key or "")
        goes_on = is_over
        if behind and keys[-1] and not PLACES.fullmatch(keys[-1]):
            measure = "" if _OF_DATA.match(keys[-1]) else f" {keys[-1]}"
            named[at] = replace(slot, key=f"{behind}{measure}", column=None)
    return named


def _sets(row: Sequence[Slot], shape: LineShape) -> list[tuple[str, bool]]:
    """The set behind each value, or none, and whether the next value has no name of its own."""
    sets = list[tuple[str, bool]]()
    for slot in row:
        words = words_before(shape, slot.at + 1)
        found, both = _BEHIND.match(words), _BOTH_BEHIND.match(words)
        if both and sets and words_before(shape, slot.at).strip() == "/":
            sets[-1] = (_full(both["first"]), True)
            sets.append((_full(both["second"]), False))
        elif found:
            sets.append((_full(found["set"] or found["on"]), not found["key"]))
        else:
            sets.append(("", False))
    return sets


def _full(word: str) -> str:
    return _SHORT.get(word.lower(), word).lower()
