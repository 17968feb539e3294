"""The values of a shape and their printed names: the words on the left, else the unit, else the words on the right.

`12/100` is a place and its total, `0.31 (0.35)` a value and its average; `806.66 avg loss,` has its name on the
right. A value without a name may still be the counter: see `counter`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs import values
from gputel.analysis.logs.infer import units
from gputel.analysis.logs.infer.counters import counts, goes_on, integers, recurs
from gputel.analysis.logs.infer.dialects import MEASURE, TOKEN_RATES
from gputel.analysis.logs.infer.named import SETTING, Slot
from gputel.analysis.logs.infer.shapes import COUNTED, UNIT, LineShape
from gputel.analysis.logs.infer.two_values import changed, named_together, numbered
from gputel.analysis.logs.infer.units import PLACE, PLACES
from gputel.analysis.logs.names import HELD_OUT, TRAINING
from gputel.analysis.logs.patterns import lazy_regex

_APART = lazy_regex(r"(?:^|\s)/\s")  # `STATE observe / ACTION 0.0 / EPSILON 0.1`
_STRIPPED = " \t'\"=:([{<|>~*@-"
_SHORT = r"(?<!\b[Vv]al)(?<!\bVAL)"  # `Val. Loss`
_OF_LOSS = r"(?:(?<!\bavg\.\s)(?<!\binst\.\s)(?<!\bcurr\.\s)|(?!loss))"  # `Avg. Loss`
_CUTS = lazy_regex(rf"(?i)[|,;~{{}}\[\t=•─-▟]|  |>>|->|\)\s|\]|(?<=\s)-\s|{_SHORT}\.\s{_OF_LOSS}")
_DRAWN = lazy_regex(r"\s*[=*#~_-]{2,}\s*$")  # behind `=== 3rd epoch ===`
_RIGHT_END = lazy_regex(r"[|,;)\]}~\t]|  |\s-\s|$")
_SOURCE = lazy_regex(r"[(\[][\w./]+:$")  # (trainer:732)
# `loss = tensor(2.5`, `loss: Float32(2.5`, `np.float64(2.5`
_WRAPPED = lazy_regex(
    r"\b(?:(?:np|jnp|numpy|torch)\.\w+|(?:\w+\.)*(?:[Tt]ensor|\w*[Aa]rray|param|[Pp]arameter|[Vv]ariable|[Ss]calar"
    r"|Tracked\w*|[Ff]loat\d*|[Dd]ouble|[fF]\d\d|[Ii]nt\d*))\(\[?$"
    r"|<tf\.\w+[^<>]* numpy=$"
)
# `loss(x, y) = 2.5`: what a function was called with is no part of its name
_CALLED = lazy_regex(
    rf"(?<=\w)\((?!(?i:{TRAINING}|{HELD_OUT}|avg|mean|cur))"
    r"(?:[a-zA-Z_]\w*(?:, ?[a-zA-Z_]\w*)+|[xyzwXYZW])\)(?=\s*[=:]?\s*$)"
)
_FILE = lazy_regex(r"\.(?:py|cc|cpp|cu|rs|jl):$")
_VERB = lazy_regex(r"\s(?:is|was|are|equals|at|to|of)$")
_PER = lazy_regex(r"(?i)\bper [a-z]+\.\s+$")  # `200 iterations per epoch. 20000 in all`
_BETWEEN_COMMAS = lazy_regex(r"(?:\s*,\s*:?|\(:)(?P<key>[A-Za-z_][\w/.-]*),\s*")
_BEFORE_HYPHEN = lazy_regex(r" [A-Za-z]\w* - ")
# `Loss(val) 2.5`, `loss (train/val) 2.5/2.7`
_OF_SET = lazy_regex(
    r"(?i)[a-z](?:\((?:train|vali?|valid|eval|test|dev)\w*| ?\(train\w* ?/ ?(?:vali?|valid|eval|test|dev)\w*)\)\s*$"
)
_ARTICLE = lazy_regex(r"(?:and |with )?(?:the |an? )(?=[a-z])|and (?=[A-Za-z])")  # `and the loss is 2.5`
_NO_NAMES = {"is", "was", "are", "equals", "by"}
_OF_SET_APART = lazy_regex(rf"(?i)(?<![\w-])(?P<set>{TRAINING}|{HELD_OUT}) {{2,}}(?=[a-z])")  # `Val   Loss`
_SET_BELOW = lazy_regex(rf"(?i)(?:^|\s)(?P<what>[a-z]\w*):\s+(?P<set>{TRAINING}|{HELD_OUT})$")
_OF_TOTAL = lazy_regex(r"\s*/\s*$")
# `10/100 steps| 14071 tokens/s`: no name of the next value
_OF_TOTAL_BEHIND = lazy_regex(r"(?i)\s*(?:epoch|batch(?:e(?=s))?|iter(?:ation)?|step)s?(?=\s*[|,;)\]])")
_OF = lazy_regex(r"\s*(?:/|of|out of|\\)\s*")
_BEHIND_NAME = lazy_regex(r"%?\)?\s*(?:[:=]|is|was)?\s*")
_SETTING = lazy_regex(r"\((?P<what>[A-Za-z][\w ]*?) ?[=:@>] ?$")  # `accuracy (IoU=`
# `QuantileLoss[0.1]: 158.7`, `accuracy 1:0.5, 2:0.6`
_INDEXED = lazy_regex(r"(?P<measure>[A-Za-z]\w*)[\[ ]$")
_BEHIND_INDEX = {"[": lazy_regex(r"\][\"']?\s*[:=]\s*[\"']?"), " ": lazy_regex(":")}
_JOINED = lazy_regex(rb"[A-Za-z]\w*(?P<by>[-~])$")
_GOES_ON = lazy_regex(r"\][A-Za-z]\w*\s*[:=]\s*")
_SETS = {"train": "train", **dict.fromkeys("val valid validation eval test dev".split(), "val")}
_PARTS = {*_SETS, "training", "testing", "evaluation", "validating", "evaluating"}  # `Training [10/500]`
_AVERAGES = {"avg", "mean", "average", "smoothed", "median"}
_CURRENTS = {"cur", "curr", "current", "now", "last", "latest", "raw", "batch", "this batch", "instant"}
_AVERAGED = lazy_regex(r"(?:avg|average|mean|smoothed|running)[ _](.+)")
_A_STEP = lazy_regex(r"(?i)(?:step|iter|iteration|epoch|round|batch|update)s?$")
# `(50 iterations in`, `(51 effective words)`, `(20 iters)`
_COUNTS_WORDS = lazy_regex(
    r" [a-z]{3,}(?!\w)(?! *\))|(?: [a-z]{3,}){2}\)| (?:iter(?:ation)?|step|batche|sample|example|image|token)s\)"
)
_ORDINAL_PLACE = lazy_regex(r"(?i)(?:st|nd|rd|th) +(?P<place>epoch|step|iteration)\b")
# `0-epoch (4/500)`, `3rd epoch (4/500)`; in `3-epoch: 4` either may be the epoch
_PLACE_BEHIND = lazy_regex(
    r"(?i)(?:-|(?:st|nd|rd|th)[ -]+)(?P<place>epoch|step|iteration)\b(?!\s*[:=#]?\s*$)"
)
SECONDS = {"ms", "s", "sec", "secs", "second", "seconds"}
_PER_STEP = lazy_regex(r"(?:ms|us|s|sec|second)/(?:it|iter|step|batch|update)")
_LOSS_BEHIND = lazy_regex(rf"(?i) +(?P<loss>(?:[a-z]+[_ ])?loss),? +(?={PLACE} *[:=]?\s*$)")
_WORD_BEHIND = lazy_regex(r"\s+[A-Za-z]")
_COUNTED_FIRST = lazy_regex(rb"\s+%b\s.*[A-Za-z]" % COUNTED.pattern)


def find_slots(shape: LineShape) -> list[Slot]:
    """Every value of the shape, in order; one without a name has no key."""
    row: list[Slot] = []
    left = shape.english[0].decode(errors="replace")
    for at in range(shape.slots):
        right = shape.english[at + 1]
        if not shape.words[at + 1].isascii() and _COUNTED_FIRST.match(right):
            right = right.lstrip()  # `第 3 轮 损失: 2.5`
        counted = COUNTED.match(right)
        glued = at + 1 < shape.slots and UNIT.fullmatch(right)  # to the next value: `E01 B0010`
        has_none = counted or glued or units.is_none(_left_key(left, at > 0), shape, at)
        unit, scale, rest = (None, "", right) if has_none else units.behind(right)
        behind = rest.decode(errors="replace")
        key = None if row and left.endswith("(") and _COUNTS_WORDS.match(behind) else _left_key(left, at > 0)
        slot = Slot(at, _kind(shape.column(at)), key, unit, scale=scale)
        if counted:
            what, behind = counted.group().decode(), behind[counted.end() :]
            slot = replace(slot, key=what)
            if row and _OF.fullmatch(left) and _is_nameless(row[-1]):  # `第3/10轮`
                row[-1], slot = (
                    replace(row[-1], key=what),
                    replace(slot, key=f"{what} total", column="total"),
                )
        slot, behind = _by_place_behind(slot, behind, shape)
        slot, behind = _within_name(slot, left, behind)
        if row:
            row[-1], slot = changed(row[-1], slot, left)
        if row and left.rstrip() == "-":
            slot = slot if slot.key else replace(slot, key=row[-1].key)  # `Batch [0-100]`: the end counts
            row[-1] = replace(row[-1], key=None, column="range")
        elif slot.key is None and row:
            slot = _as_length(_beside(slot, row[-1], left, behind), row[-1], left, behind, shape)
            slot = _in_square_brackets(_as_aside(slot, shape), row[-1], left, behind, shape)
            row[-1], slot = named_together(row[-1], slot)
            slot = numbered(row[-1], slot, shape)
        if behind[:1] in (")", "]", "[") and _is_source(slot, left, shape):
            slot = replace(slot, key=None, column="source")
        if slot.key is None and slot.column is None:
            slot, behind = _by_name_behind(slot, behind, shape)
        row.append(slot)
        what_counts = _OF_TOTAL_BEHIND.match(behind) if slot.column == "total" else None
        left = behind[what_counts.end() :] if what_counts else behind
    return _neighbors(_named_with_settings(_named_by_numbers(row, shape), shape), shape)


def _by_place_behind(slot: Slot, behind: str, shape: LineShape) -> tuple[Slot, str]:
    """Names a value by the place that a hyphen or an ordinal joins to it, and returns what stands behind that."""
    place = _PLACE_BEHIND.match(behind) if slot.key is None else None
    if place and goes_on(integers(shape.column(slot.at)) or []):
        return replace(slot, key=place["place"]), behind[place.end() :]
    return slot, behind


def _within_name(slot: Slot, left: str, behind: str) -> tuple[Slot, str]:
    """Takes the number of `error[0]PerSample = 0.6` for a part of the name, which goes on behind it."""
    named = slot.key and left.endswith(f"{slot.key}[") and not PLACES.fullmatch(slot.key)
    if not named or not _GOES_ON.fullmatch(behind):
        return slot, behind
    return replace(slot, key=None, column="ordinal"), f"{slot.key}{behind[1:]}"


def _is_nameless(slot: Slot) -> bool:
    """Whether it has no name, or only that of a set in front of it: `(train) 3/10`."""
    return slot.column is None and (slot.key is None or slot.key.strip("()").lower() in _PARTS)


def _named_by_numbers(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Takes a number that a hyphen joins to a word for a part of the name: `BLEU-4 31.8`, `*Dec01-2035*`.

    `Val~20% 2.5` says of how much the figure is.

    A place may be written so, `Epoch-3`; it names the next value only where that stands right behind it.
    """
    named = list(row)
    for at, slot in enumerate(row):
        joined = _JOINED.search(shape.words[at])
        if not slot.key or not joined or _A_STEP.search(slot.key):
            continue
        numbers = set(shape.column(at))
        if len(numbers) > 1 or not next(iter(numbers)).isdigit():
            continue
        key = f"{slot.key}-{next(iter(numbers)).decode()}" if joined["by"] == b"-" else slot.key
        named[at] = replace(slot, key=None, column="ordinal")
        if (
            at + 1 < len(row)
            and row[at + 1].key is None
            and _BEHIND_NAME.fullmatch(words_before(shape, at + 1))
        ):
            named[at + 1] = replace(row[at + 1], key=key)
    return named


def _named_with_settings(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Takes what stands in brackets behind a name for a part of it: `accuracy (IoU=0.7): 0.31`, `Loss[0.1]: 2.5`.

    One that is always another was chosen, such as a threshold, and does not name the measure.
    """
    named = list(row)
    for at, slot in enumerate(row[:-1]):
        what = _setting(shape, at) if row[at + 1].key is None else None
        if what:
            chosen = {value.decode() for value in shape.column(at)}
            named[at] = replace(slot, key=None, column=SETTING)
            measure, setting = what
            key = f"{measure} {setting}".strip() if recurs(shape.column(at)) else measure
            key = f"{key} {chosen.pop()}" if len(chosen) == 1 else key
            named[at + 1] = replace(row[at + 1], key=key, column=None)
    return named


def _setting(shape: LineShape, at: int) -> tuple[str, str] | None:
    """The measure and the setting whose value stands in brackets before the figure; an index has no name."""
    before, behind = words_before(shape, at), words_before(shape, at + 1)
    indexed = _INDEXED.search(before)
    if indexed:
        is_name = _BEHIND_INDEX[before[-1]].fullmatch(behind) and not PLACES.fullmatch(indexed["measure"])
        return (indexed["measure"], "") if is_name else None
    setting = _SETTING.search(before)
    measure = setting and _left_key(before[: setting.start()], at > 0)
    return (measure, setting["what"]) if setting and measure and _BEHIND_NAME.fullmatch(behind) else None


def _is_source(slot: Slot, left: str, shape: LineShape) -> bool:
    """Whether it is the line number of `(trainer:732)`, and not the figure of `[loss:0.23] [step:10]`."""
    named = _FILE.search(left) or (_SOURCE.search(left) and not PLACES.fullmatch(slot.key or ""))
    return bool(named) and integers(shape.column(slot.at)) is not None


def _kind(column: Sequence[bytes]) -> str:
    example = column[0]
    if values.NUMBER.fullmatch(example) or example in (b"N/A", b"n/a", b"None", b"null", b"-"):
        return "number"
    is_clock = values.CLOCK.fullmatch(example) or values.DURATION.fullmatch(example)
    return "clock" if is_clock else "stamp"


def _left_key(left: str, after_value: bool) -> str | None:
    apart = _BETWEEN_COMMAS.fullmatch(left)  # `step 10, loss_train, 0.838`, `(:step, 10, :loss, 0.838)`
    if apart:
        return apart["key"]
    text = _CALLED.sub("", _WRAPPED.sub("", _OF_SET_APART.sub(r"\g<set> ", left))).rstrip(_STRIPPED)
    if not any(c.isalpha() for c in text) or text.endswith((",", ";", "/", "]")):
        return None
    if _PER.search(left) or (left.rstrip().endswith(")") and after_value and not _OF_SET.search(left)):
        return None
    chunk = _CUTS.split(text if not text.endswith((")", "]")) else text + "\0")[-1].rstrip("\0")
    headed = _SET_BELOW.search(chunk)  # `loss: train 2.5 val 2.6`
    if headed and MEASURE.search(headed["what"]):
        return f"{headed['set']} {headed['what']}"
    chunk = _VERB.sub("", re.split(r":\s", chunk)[-1].strip()).strip(" \t'\"([{<|:*#>-.")
    phrase = _APART.split(chunk)[-1]
    article = _ARTICLE.match(phrase)
    words = phrase[article.end() if article else 0 :].split()
    if not words or not any(c.isalpha() for c in chunk) or chunk in _NO_NAMES:
        return None
    return " ".join(words if len(words) <= 5 else words[-2:])


def _beside(slot: Slot, before: Slot, left: str, behind: str) -> Slot:
    """Names a value by the one before it: as its total, its average or a share.

    `norm 0.13 (50 iterations in 0.9s)` and `80 words (51 effective words)` give no average: a word says what it is.
    """
    if _OF_TOTAL.match(behind) and PLACES.fullmatch(before.key or ""):
        return slot  # `Epoch 3 (4/500)`
    if before.column == "total" and slot.unit == "%":
        return replace(slot, column="share")
    if _OF.fullmatch(left):
        return replace(slot, key=f"{before.key or ''} total".strip(), column="total")
    apart = slot.unit in SECONDS and before.unit is None  # `ITERATION 14 (165.40s)`
    counted = _COUNTS_WORDS.match(behind) is not None
    if left.strip() == "(" and before.key and not ((slot.unit and "/" in slot.unit) or apart or counted):
        return replace(slot, key=f"{before.key}()")
    return slot


def _as_length(slot: Slot, before: Slot, left: str, behind: str, shape: LineShape) -> Slot:
    """Takes the second number of `[ 100:391]` and `iter = [100|391]` for a total: the first counts up to it."""
    encloses = (
        left in (":", "|") and behind[:1] == "]" and words_before(shape, before.at).rstrip().endswith("[")
    )
    counts, lengths = integers(shape.column(before.at)), integers(shape.column(slot.at))
    strange = before.key is not None and PLACES.fullmatch(before.key) is None
    if not (encloses and counts and lengths) or strange or len({*lengths}) > 1 or len({*counts}) == 1:
        return slot
    return replace(slot, key="total", column="total") if max(counts) <= lengths[0] else slot


def _in_square_brackets(slot: Slot, loss: Slot, left: str, behind: str, shape: LineShape) -> Slot:
    """Takes `loss: 1.23 [1.30]` for an average where it is always near the loss, and no lowest one so far."""
    if (
        slot.key
        or slot.column
        or left.strip() != "["
        or behind[:1] != "]"
        or "loss" not in (loss.key or "").lower()
    ):
        return slot
    pairs = [*zip(*(map(_float, shape.column(each.at)) for each in (loss, slot)), strict=True)]
    near = sum(0 < loss / 2 <= mean <= 2 * loss for loss, mean in pairs)
    is_mean = near >= 0.9 * len(pairs) and any(mean > loss for loss, mean in pairs)
    return replace(slot, key=f"{loss.key}()") if is_mean and integers(shape.column(slot.at)) is None else slot


def _float(value: bytes) -> float:
    return float(value) if values.NUMBER.fullmatch(value) and b"," not in value else float("nan")


def _as_aside(slot: Slot, shape: LineShape) -> Slot:
    """No average is a change, `2.93 (+0.10)`, or the step of the best figure, `best: 0.31 (120)`."""
    column, key = shape.column(slot.at), slot.key or ""
    signed = all(value[:1] in (b"+", b"-") for value in column)
    is_place = key.lower().startswith("best") and integers(column) is not None
    return replace(slot, key=None, column="aside") if key.endswith("()") and (signed or is_place) else slot


def _by_name_behind(slot: Slot, behind: str, shape: LineShape) -> tuple[Slot, str]:
    """Names a value by its unit or the words behind it, and returns those that may be the name of the next one.

    They are its name in `0 10 loss - 7.2`, where nothing stands behind the last value.
    """
    more = slot.at + 1 < shape.slots
    lost = _LOSS_BEHIND.match(behind) if more and not slot.unit else None
    if lost:  # `0.52 val_loss STEP=20`
        return replace(slot, key=lost["loss"]), behind[lost.end() :]
    names_next = not shape.words[-1].strip() and _BEFORE_HYPHEN.fullmatch(behind)
    named = _by_unit_or_right(slot, "" if names_next else behind, more)
    name, bar, rest = behind.partition("|")
    is_parted = more and bar and not rest.strip() and name.strip() == named.key
    is_parted = is_parted and _WORD_BEHIND.match(words_before(shape, slot.at + 2)) is not None
    return named, rest if is_parted else behind  # `2.5 train loss | 2.7 val loss`


def _by_unit_or_right(slot: Slot, behind: str, more: bool) -> Slot:
    if slot.unit:
        if _PER_STEP.fullmatch(slot.unit):
            return replace(slot, key="step_time", unit=slot.unit.split("/")[0])
        if "/" in slot.unit:
            name = f"rate{slot.unit}" if slot.unit[0] == "/" else slot.unit
            return replace(slot, key="tok/s" if name.lower() in TOKEN_RATES else name, unit=None)
    ordinal = _ORDINAL_PLACE.match(behind)
    if ordinal:
        return replace(slot, key=ordinal["place"])  # `7th epoch finished, val loss: 2.5`
    end = _RIGHT_END.search(behind)
    words = _DRAWN.sub("", behind[: end.start() if end else 0]).strip(" \t'\":")
    names_next = behind[: end.start() if end else 0].rstrip().endswith((":", "="))  # `1 train loss:  2.3`
    closed = end is not None and (end.group() != "" or not more) and not (more and names_next)
    if closed and words and words[0].isalpha() and len(words.split()) <= 3 and "=" not in words:
        return replace(slot, key=words)
    return replace(slot, column="share") if slot.unit == "%" else slot


def _neighbors(row: list[Slot], shape: LineShape) -> list[Slot]:
    """Corrects names that two values share, or that stand beside the wrong one."""
    for at in range(1, len(row)):
        before, slot = row[at - 1], row[at]
        if slot.column == "total" and (before.key or "").lower() in _PARTS:
            row[at - 1], row[at] = replace(before, key=None), replace(slot, key=None)
        elif before.key and slot.key:
            row[at] = replace(slot, key=_shared(before.key, slot, shape))
        elif before.key and not _A_STEP.search(before.key) and _is_counter_first(slot, shape):
            row[at - 1], row[at] = replace(before, key=None), replace(slot, key=before.key, column=None)
        elif (
            slot.key
            and at > 1
            and before.column is None
            and integers(shape.column(at - 1)) is None
            and words_before(shape, at)[:1] not in ("]", ")")
        ):
            average = _AVERAGED.fullmatch(slot.key)
            bare = slot.key in _AVERAGES
            row[at - 1] = replace(before, key="loss" if bare else average[1] if average else None)
            row[at] = replace(slot, key="loss()") if bare else slot
    return row


def _shared(before: str, slot: Slot, shape: LineShape) -> str:
    """The second name in `loss train: 1.2, val: 1.3` and `nll 1.2 (avg 1.3)`, which print the measure once."""
    key = slot.key or ""
    if key.lower() in _AVERAGES:
        return f"{before}()"
    averaged = _AVERAGED.fullmatch(before.lower().replace(".", ""))
    inside = words_before(shape, slot.at).strip()[:1] in ("(", "[")
    if averaged and inside and key.lower() in _CURRENTS and integers(shape.column(slot.at)) is None:
        return f"current {averaged[1]}"  # `avg loss: 2.7 (cur 2.5)`
    words = before.split()
    measure = [word for word in words if word.lower() not in _SETS]
    another = key.lower() in _SETS and key.lower() not in map(str.lower, words)
    if another and 0 < len(measure) < len(words) and not measure[0].isdigit():
        held_out = key if words[0] == "val" else _SETS[key.lower()]
        return f"{held_out} {' '.join(measure)}"
    return key


def _is_counter_first(slot: Slot, shape: LineShape) -> bool:
    """Whether the name belongs to the second value, as in `Train loss 120 0.512`."""
    apart = shape.literals[slot.at].strip() in (b"", b":", b"=") and slot.key is None
    counting = counts(integers(shape.column(slot.at - 1)) or [])
    return apart and counting and integers(shape.column(slot.at)) is None


def words_before(shape: LineShape, at: int) -> str:
    """The words that stand before a value."""
    return shape.english[at].decode(errors="replace")
