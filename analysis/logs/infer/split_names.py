"""Names of which a part stands apart from the value: the set, the measure, or the task.

`train: loss 1.2, acc 0.5 | val: loss 1.3, acc 0.4` names the set once for several values, `Validation loss at step
200: 1.3` the measure before the step, `accuracy: 2964/10042 = 0.2952` the score before its parts, and
`IoU: {0.9: 0.12, 0.8: 0.35}` the measure before its keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.infer.dialects import MEASURE, NAMED_AT, PARTS
from gputel.analysis.logs.infer.named import Slot
from gputel.analysis.logs.infer.sets_behind import named_by_sets
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.infer.slots import SECONDS, words_before
from gputel.analysis.logs.infer.units import PLACE, PLACES
from gputel.analysis.logs.names import EVALUATING, TRAINING
from gputel.analysis.logs.patterns import lazy_regex

_NAMED_APART = lazy_regex(r"\)?\s*(?:[:=]|is|was)\s*")
LONGEST_NAME = 80
_DICT = lazy_regex(rb"\{\s*['\"]?$")
_NEXT_KEY = lazy_regex(rb"\s*,\s*['\"]?")
_KEY_END = lazy_regex(rb"['\"]?\s*:\s*")
_SET = rf"(?:{TRAINING}|{EVALUATING})"
_MARKER = lazy_regex(rf"(?i)(?<![\w/.-])(?P<set>{_SET})(?: set)?['\"]?(?:\s*[\])}}:|>({{\[]|\s+-)")
_OF = "(?:on|for|over|de|da|du|di|del|des|der|sur|en|na|auf|на)"
_SET_BEHIND = lazy_regex(  # `Loss(val)`, `acc on the test set`, `loss de validation`, `accuracy validation`
    rf"(?i)(?P<what>[a-z].*?)(?:\s*[(\[]\s*| |[ _]{_OF}[ _](?:the |la |el |los )?)"
    rf"(?P<set>{_SET}|trn|vld|tst)(?: set| data)?[)\]]?"
)
_ABBREVIATED = lazy_regex(r"(?i)(?P<set>trn|vld|tst)[ _/.-](?P<what>\w.*)")
_ADDED = lazy_regex(
    r"\s*(?:[(\[](?P<part>[A-Za-z][\w -]*)[)\]]\s*)?(?P<sign>[+=])\s*(?:(?P<name>[A-Za-z]\w*(?: \w+)*)\s*:?\s*)?"
)
_LETTER = lazy_regex(rf"[LJ]_(?P<set>{_SET})")
_LOSSES = ("L", "J")
_SETS = {"trn": "train", "vld": "val", "tst": "test"}
_OWNER = lazy_regex(rf"(?i)^(?P<set>{_SET}(?:_\d+)?)'s ")  # `valid_1's auc`
_SET_FIRST = lazy_regex(rf"(?i)(?P<set>{_SET})[ _-](?=\w)")
_HELD_OUT_FIRST = lazy_regex(rf"(?i)^(?:{EVALUATING})(?= )")
_OWN = lazy_regex(rf"(?i)(?<![a-z]){_SET}(?![a-z])")
_NAME = r"[A-Za-z][\w@.-]*"
_NAMES = rf"{_NAME}(?: {_NAME}){{0,2}}"
# `IS, FID: `, `[avg loss, loss]: [` and, behind the name of what they are parts of, `f-score (p/r/f): (`
_LISTED = lazy_regex(
    rf"(?:(?:^|\s\s|[|;\]] |[\[(])(?P<names>{_NAMES}(?P<mark>, ){_NAMES}(?:, {_NAMES})*)"
    rf"|(?P<of>{_NAME}(?: {_NAME})?) ?\((?P<parts>{_NAME}(?:/{_NAME}){{2,}}))[\])]?\s?[:=]\s*[\[(]?$"
)
_LABEL = lazy_regex(rf"(?i)\W*(?:initial )?{_SET}")
_MEASURED_AT = lazy_regex(  # `loss at step 200: 2.5`, `loss (epoch 3): 2.5`
    rf"(?i)(?P<what>[a-z][^|,;:=]*?)(?:(?: *\([^()]*\))? +(?:at|after|for|in|@) +(?:the )?| ?\()"
    rf"(?P<place>{PLACE})\W*$"
)
_LOGGER = lazy_regex(r"\s-\s|\]\s")  # between a logger's name and its message
_COUNTED_APART = lazy_regex(rf"(?i)\s*(?P<place>{PLACE})\s*(?:[:=]|is|was)\s*")
# `mean test loss of 63 batches: 4.4`, `accuracy on the 500 test images: 40 %`
_ITEMS = lazy_regex(
    rf"(?i)\s*(?:(?P<set>{_SET}) )?(?:mini-?)?"
    r"(?:batches|samples|images|examples|sentences|episodes|videos|clips|items)\s*(?:[:=]|is)\s*"
)
# `f1-score (micro avg)  0.75`
_QUALIFIED = lazy_regex(
    r"(?:^|[-,|]\s|\s\s|\t)(?P<what>[A-Za-z][\w@.-]*(?: [A-Za-z]\w*)?) ?\((?P<of>[A-Za-z][A-Za-z -]*)\)"
    r"(?:\s*[:=]\s*|\s+)$"
)
_OVER = lazy_regex(
    r"(?i)(?P<what>(?!.*\b(?:total|sum)\b)[a-z][^|,;:=]*?) +(?:of|over|on|for|from|in)(?: the)? +$"
)
_LOSSES_OPEN = lazy_regex(r"(?i)(?<![a-z])loss(?:es)?['\"]?\s*[:=]?\s*\{['\"][^{}]*$")
_MANY = 5  # values without a name
_AFTER = lazy_regex(r"(?i)(?:\bthe )?(?P<what>[a-z][^|,;:=]*?) +(?:at|after) *$")


def complete(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Completes names of which a part stands further to the left; values within printed settings get none."""
    inside = setting_lines.within(shape.words)
    row = [replace(slot, key=None, column="setting") if slot.at in inside else slot for slot in row]
    row = [replace(slot, key=None, column="date") if slot.at in shape.dated else slot for slot in row]
    row = _of_losses(_keyed(row, shape), shape)
    row = [_qualified(slot, shape) for slot in _listed(_without_labels(row, shape), shape)]
    row = named_by_sets(_sums(_quotients(row, shape), shape), shape)
    return _of_sets(_before_the_step(row, shape), shape)


def _keyed(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Names the values of `IoU: {0.9: 0.12, 0.8: 0.35}` by the measure and by their keys, which are no values."""
    named, measure, next_key = list(row), None, -1
    for slot, value in pairwise(row):
        keys = {*shape.column(slot.at)}
        begins = _DICT.search(shape.words[slot.at]) is not None
        follows = slot.at == next_key and _NEXT_KEY.fullmatch(shape.words[slot.at]) is not None
        if not (begins or follows) or not _KEY_END.fullmatch(shape.words[value.at]) or len(keys) > 1:
            continue
        measure, next_key = slot.key if begins else measure, value.at + 1
        name = f"{measure} {next(iter(keys)).decode(errors='replace')}" if measure else None
        named[slot.at] = replace(slot, key=None, column="ordinal")
        named[value.at] = replace(value, key=name)
    return named


def _of_losses(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Names the values of `Losses {'ner': 20.5, 'parser': 3.5}` as the losses that they are."""
    named, inside = [], False
    for slot in row:
        words = words_before(shape, slot.at)
        inside = _LOSSES_OPEN.search(words) is not None or (inside and "}" not in words)
        is_part = inside and slot.key is not None and "loss" not in slot.key.lower()
        named.append(replace(slot, key=f"{slot.key} loss") if is_part else slot)
    return named


def set_first(key: str) -> str:
    """The name with its set in front and spelled out: `val loss` for `Loss(val)`, `vld_loss`, `val's loss`."""
    key = _OWNER.sub(r"\g<set> ", _SETS.get(key.lower(), key))
    letter = _LETTER.fullmatch(key)
    if letter:
        return f"{letter['set']} loss"
    named = _SET_BEHIND.fullmatch(key) or _ABBREVIATED.fullmatch(key)
    is_measure = named is not None and (named["what"] in _LOSSES or MEASURE.search(named["what"]))
    if named is None or not is_measure:
        return key
    what = "loss" if named["what"] in _LOSSES else named["what"]
    return f"{_SETS.get(named['set'].lower(), named['set'])} {what}"


def _without_labels(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Takes the set in front of many bare numbers for the label of a table's row: it names none of them.

    In `train: 4.5=2.5 + 2` it names a sum.
    """
    if sum(slot.key is slot.column is None for slot in row) < _MANY:
        return row
    return [
        replace(slot, key=None)
        if _LABEL.fullmatch(slot.key or "") and shape.words[slot.at + 1].strip() != b"="
        else slot
        for slot in row
    ]


def _listed(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Names the values of `IS, FID: 1.67, 341.4` in the order of the names, where there are as many.

    Brackets may stand around both, `(loss, acc): (2.5, 0.4)`. A held-out set in front of the first name is that of
    all.
    """
    named = list(row)
    for slot in row:
        words = words_before(shape, slot.at)
        listed = _LISTED.search(words, max(0, len(words) - LONGEST_NAME))
        if listed is None:
            continue
        mark = listed["mark"] or "/"
        first, *others = (listed["names"] or listed["parts"]).split(mark)
        of = listed["of"] or next(iter(_HELD_OUT_FIRST.findall(first)), "")
        keys = [f"{of} {first}" if listed["of"] else first, *(f"{of} {key}".strip() for key in others)]
        values = row[slot.at : slot.at + len(keys)]
        apart = {words_before(shape, value.at) for value in values[1:]}
        own = any(value.key for value in values[1:] if value.column != "total")
        if len(values) == len(keys) and apart == {mark} and not own:
            named[slot.at : slot.at + len(keys)] = [
                replace(value, key=key, column=None) for value, key in zip(values, keys, strict=True)
            ]
    return named


def _qualified(slot: Slot, shape: LineShape) -> Slot:
    """Names a value by a measure and the word in brackets behind it."""
    named = _QUALIFIED.search(words_before(shape, slot.at)) if slot.key is slot.column is None else None
    measures = named is not None and MEASURE.search(named["what"]) is not None
    return replace(slot, key=f"{named['what']} {named['of']}") if named and measures else slot


def _quotients(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Gives the name of a score to its quotient: `accuracy: 2964/10042 = 0.2952`."""
    named = list(row)
    for at, (part, whole, quotient) in enumerate(zip(row, row[1:], row[2:], strict=False)):
        divided = whole.column == "total" and words_before(shape, quotient.at).strip() == "="
        if divided and part.key and quotient.key is None and MEASURE.search(part.key):
            counted = [replace(part, key=None, column="counted"), replace(whole, key=None, column="counted")]
            named[at : at + 3] = [*counted, replace(quotient, key=part.key)]
    return named


def _sums(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Gives the name to the sum, `loss: 1.2 (rec) + 0.3 (kl) = 1.5`; its parts have the names beside them, or none.

    Nor is the first part in `loss: 1.5 (1.2 + 0.3)` an average. In `loss 1.2 + kl 0.3 = total 1.5` all are named.
    """
    behind = [*(_ADDED.fullmatch(words_before(shape, slot.at)) for slot in row[1:]), None]
    named, parts = list(row), list[int]()
    for at, sign in enumerate(behind):
        parts.append(at)
        if sign and sign["sign"] == "+":
            continue
        first = row[parts[0]].key
        if len(parts) > 1 and (sign or (first or "").endswith("()")):
            own = [
                first if sign and sign["name"] else None,
                *(added and added["name"] for added in behind[parts[0] : at]),
            ]
            for part, name in zip(parts, own, strict=True):
                added = behind[part]
                key = (added["part"] if added else None) or name
                named[part] = replace(row[part], key=key, column=None if key else "part")
            if sign:
                named[at + 1] = replace(row[at + 1], key=sign["name"] or first, column=None)
        parts = []
    return named


def _before_the_step(row: list[Slot], shape: LineShape) -> list[Slot]:
    named = list(row)
    for at, (place, value) in enumerate(pairwise(row)):
        counted = _COUNTED_APART.fullmatch(words_before(shape, value.at))
        lead = _AFTER.search(words_before(shape, place.at)) if counted else None
        if counted and lead:  # `the loss after 3 epochs is 2.5`
            named[at], named[at + 1] = replace(place, key=counted["place"]), replace(value, key=lead["what"])
            continue
        over = _OVER.search(words_before(shape, place.at))
        items = _ITEMS.fullmatch(words_before(shape, value.at)) if over else None
        if over and items and value.at == place.at + 1:
            named[at] = replace(place, key=None, column="counted")
            named[at + 1] = replace(value, key=f"{items['set'] or ''} {over['what']}".strip())
            continue
        if _scored_at(place, value, shape):
            score = f"{place.key} {value.key}"
            named[at], named[at + 1] = replace(place, key="step"), replace(value, key=score)
            continue
        if value.key is not None or not _NAMED_APART.fullmatch(words_before(shape, value.at)):
            continue
        if words_before(shape, place.at).rstrip().endswith("@") and place.key and value.at == place.at + 1:
            named[at], named[at + 1] = replace(place, key="step"), replace(value, key=place.key)
            continue  # `validation @10: 3.4`
        ranged = at > 0 and row[at - 1].column == "range"  # `for minibatches 40-49`
        title = _MEASURED_AT.search(words_before(shape, place.at - ranged)[-LONGEST_NAME:])
        if title:
            what = _LOGGER.split(title["what"])[-1].strip()
            measured_at = f"{what} at {title['place']}"
            what = measured_at if measured_at.lower() in NAMED_AT else what
            named[at], named[at + 1] = replace(place, key=title["place"]), replace(value, key=what)
    return named


def _scored_at(place: Slot, value: Slot, shape: LineShape) -> bool:
    """Whether a task's name stands before the step, and that of its score behind: `hellaswag @ 10: acc 0.3`."""
    if not (place.key and value.key and MEASURE.search(value.key)) or _OWN.search(place.key):
        return False
    named = PLACES.fullmatch(place.key) is not None
    return not named and words_before(shape, place.at).rstrip().endswith("@") and value.at == place.at + 1


def _of_sets(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Puts the set before the name (`val loss`), in lines that are about several sets."""
    sets = [_set(words_before(shape, slot.at)) or _begun_by(slot, row) for slot in row]
    if not any(sets[1:]):
        return row
    named: list[Slot] = []
    open_set, keys = None, set[str]()
    for slot, begins in zip(row, sets, strict=True):
        open_set, key = begins or open_set, slot.key or ""
        measured = any(regex.search(key) for regex in (MEASURE, PARTS))
        measured = measured or (key in keys and not PLACES.fullmatch(key))
        held_out = open_set is not None and not open_set.lower().startswith("train")
        apart = held_out and measured and not _OWN.search(key)
        named.append(replace(slot, key=f"{open_set} {key}") if apart else slot)
        keys.add(key)
    return named


def _set(words: str) -> str | None:
    """The last set that is announced between two values and is not the name of the second."""
    markers = [marker for marker in _MARKER.finditer(words) if re.search("[A-Za-z]", words[marker.end() :])]
    return markers[-1]["set"] if markers else None


def _begun_by(slot: Slot, row: Sequence[Slot]) -> str | None:
    """The set of `Val Loss: 2.1 | Acc: 0.4` behind `Train Loss: 2.0 | Acc: 0.5`: the names below it recur.

    `valid (3.2 sec): loss 2.1` begins one, too.
    """
    if slot.unit in SECONDS and _OWN.fullmatch(slot.key or ""):
        return slot.key
    named = _SET_FIRST.match(slot.key or "")
    if named is None:
        return None
    keys = [other.key for other in row[: slot.at] if other.key]
    behind = [other.key for other in row[slot.at + 1 :] if other.key]
    recurs = any(key in keys and MEASURE.search(key) for key in behind)
    return named["set"] if recurs and slot.key not in keys else None
