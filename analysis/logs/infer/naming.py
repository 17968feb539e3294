"""The values of a shape -> columns, under the names that all formats share.

`name` uses the words on the line itself, `name_as` those of a heading (see `tables`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from gputel.analysis.logs import values
from gputel.analysis.logs.infer import places, split_names
from gputel.analysis.logs.infer.bare_sets import with_bare_sets
from gputel.analysis.logs.infer.counters import (
    SAMPLES,
    declines,
    falls,
    goes_on,
    has_fractions,
    integers,
    is_text,
    numbers,
    rises,
)
from gputel.analysis.logs.infer.dialects import (
    ENTIRE,
    FOREIGN,
    LEFT,
    LONGER,
    LOSSES,
    MEASURE,
    RATES,
    SETS,
    SHARES,
    SPANS,
    TIMES,
    TOKEN_RATES,
)
from gputel.analysis.logs.infer.losses import (
    LASTS,
    normal_name,
    with_loss,
    without_foreign_mean,
)
from gputel.analysis.logs.infer.named import PLACES, Named, Slot, is_place
from gputel.analysis.logs.infer.names_beside import (
    distinct,
    global_step,
    held_out_loss,
    held_out_perplexity,
    of_weights,
    one_time,
    plain_loss,
    steps_of_episode,
)
from gputel.analysis.logs.infer.redraws import last_redraw
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.infer.slots import SECONDS, find_slots
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.names import HELD_OUT, Vocabulary, legal
from gputel.analysis.logs.patterns import Field
from gputel.analysis.logs.values import Scale

_SHORT_SETS = {"v_": "val_", "t_": "train_"}
SHORT = 5
_LARGEST_RATE = 10  # of learning, where the name is `rate` alone
SHORTENED = ("k", "K", "M", "B")  # behind a count; `G` and `T` are of memory
_SPLIT = {"loss", "return", "reward"}  # `AverageReturn`
_GLUED = re.compile(  # `learningRate`, `validloss`
    r"(?<=[a-z])(?=[A-Z][a-z])"
    r"|(?i:(?:(?<=^train)|(?<=^trn)|(?<=^tr)|(?<=^val)|(?<=^valid)|(?<=^va)|(?<=^test)|(?<=^te)|(?<=^eval)|(?<=^dev))"
    r"(?=(?:loss|acc|accuracy|ppl|err|error|f1|auc|roc)(?:_\d+)?$))"
)
_EVALUATED = re.compile(rf"(?i)(?:{HELD_OUT}|cv)_loss")  # says the set itself
_WHOLE = re.compile(r"(?i)(?:total|overall)_loss|loss_(?:total|overall)")  # of `mean loss/overall_loss`
_QUALIFIERS = frozenset("mean avg average running loss losses train training metrics batch".split())
_SIZES = frozenset({"depth", "heads", "nodes", "gpus"})  # of a model or a machine, whole numbers elsewhere
# `fps step`, a speed, and `Local Epoch` of a client, which begins again in each round
_NO_PLACE = re.compile(r"(?i)(?:(?:fps|sps|ips|speed|throughput)[\W_]|local[\W_]epochs?$)")
_OF_TIME = re.compile(r"(?i)\b(?:time|took|duration|elapsed)\b")
_BEFORE_PLACES = frozenset("at after current results metrics scores set".split())  # `Eval results step 500`
_LENGTH = re.compile(
    r"(?i)(?<![a-z])(?:rmse|mae|mse|err|error|ade|fde|dist|distance|range|position|height|altitude|radius)$"
)
_KNOWN = frozenset("step iteration batch epoch lr lrm grad_norm dt_ms tok_per_sec mfu tokens".split())


def name(shape: LineShape, words: Vocabulary) -> list[Named]:
    """Names every value of the shape, in order."""
    printed = last_redraw(split_names.complete(find_slots(shape), shape))
    printed = [replace(slot, unit=None) if _is_in_metres(slot) else slot for slot in printed]
    spelled = [replace(slot, key=split_names.set_first(slot.key)) if slot.key else slot for slot in printed]
    named = [_name(slot, shape, words) for slot in _spelled_out(spelled)]
    named = of_weights(named)
    named = without_foreign_mean(with_loss(global_step(steps_of_episode(named, shape), shape), shape), shape)
    named = held_out_perplexity(held_out_loss(with_bare_sets(named, shape)), shape)
    named = distinct(plain_loss(one_time(places.find(named, shape))))
    return [_as_printed(cell, slot) for cell, slot in zip(named, printed, strict=True)]


def _is_in_metres(slot: Slot) -> bool:
    """Whether `m` behind a value is no minute: an error or a distance has no time, `range error: 2.5 m`."""
    return slot.unit == "m" and _LENGTH.search(slot.key or "") is not None


def _as_printed(cell: Named, slot: Slot) -> Named:
    return replace(cell, source=slot.key or "") if cell.slot.key != slot.key else cell


def _spelled_out(row: Sequence[Slot]) -> list[Slot]:
    """Writes `val_` for `v_` where two measures are printed with and without it; a lone `v_loss` is of a value.

    Where `t_loss` stands for the one without it, a single pair is enough.
    """
    keys = {(slot.key or "").lower() for slot in row}
    validated = [key[2:] for key in keys if key[:2] == "v_"]
    if any(f"t_{measure}" in keys and measure not in keys for measure in validated):
        return [_with_set(slot, _SHORT_SETS) for slot in row]
    is_paired = sum(measure in keys for measure in validated) > 1
    return [_with_set(slot, {"v_": "val_"}) for slot in row] if is_paired else list(row)


def _with_set(slot: Slot, sets: dict[str, str]) -> Slot:
    key = slot.key or ""
    return replace(slot, key=sets[key[:2].lower()] + key[2:]) if key[:2].lower() in sets else slot


def name_as(shape: LineShape, keys: Sequence[str | None], words: Vocabulary) -> list[Named]:
    """Names the columns of a table by its heading.

    A key is None for a value that is no cell of its own, and empty for the number of a row.
    """
    named: list[Named] = []
    for slot, key in zip(find_slots(shape), keys, strict=True):
        word = "step" if key == "#" else key and split_names.set_first(english(key.encode()).decode().strip())
        total = "total" if slot.column == "total" and named and is_place(named[-1]) else "aside"
        what = replace(slot, key=word or None, column=None if word else "counted" if key == "" else total)
        named.append(_name(what, shape, words))
    placed = places.with_totals(_counted(steps_of_episode(named, shape), shape), shape)
    return distinct(_only_measure(with_bare_sets(with_loss(placed, shape), shape)))


def _counted(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the first column `step` beside a learning rate, where none is a place and it rises: `NumIters`."""
    trains = any(cell.column in ("lr", "grad_norm") for cell in cells)
    if not trains or any(map(is_place, cells)) or cells[0].column is None or shape.count < 3:
        return cells
    whole = integers([value.removesuffix(b".0") for value in shape.column(0)])
    counts = whole is not None and all(b > a for a, b in pairwise(whole))
    is_step = counts and not SAMPLES.search(cells[0].source)
    return [replace(cells[0], column="step", guessed=True), *cells[1:]] if is_step else cells


def _only_measure(cells: list[Named]) -> list[Named]:
    """Calls the measure `loss` that is trained on, in a table that gives a place and nothing but measures."""
    if not cells or not is_place(cells[0]) or {"loss", "loss_avg"} & {cell.column for cell in cells}:
        return cells
    measures = [cell for cell in cells[1:] if cell.column and not is_place(cell)]
    trained = [cell for cell in measures if f"trained_{normal_name(cell)}" in LOSSES]
    if len(trained) != 1 or len(measures) != len(cells) - 1 or not all(map(_is_measure, measures)):
        return cells
    return [replace(cell, column="loss") if cell is trained[0] else cell for cell in cells]


def _is_measure(cell: Named) -> bool:
    return MEASURE.search(cell.source) is not None or f"trained_{normal_name(cell)}" in LOSSES


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    return Vocabulary(FOREIGN)


def _name(slot: Slot, shape: LineShape, words: Vocabulary) -> Named:
    column = shape.column(slot.at)
    if slot.kind == "stamp" or slot.column or (is_text(column) and not _may_fail(slot, column)):
        return Named(slot, None, source=slot.key or "")
    pairs = shape.words[slot.at].rstrip().endswith(b"[(")  # `acc, val_acc=[(0.8, 0.7), (0.9, 0.8)]`
    if pairs or (slot.key or "").lower().endswith(" set"):  # `valid set 0` says which set it is
        return Named(slot, None, source=slot.key or "")
    if slot.key is None:
        time = slot.unit in ("ms", "s", "sec", "seconds") and not rises(column)
        return Named(slot, "dt_ms" if time else None, slot.unit, slot.unit or "")
    if slot.key.lower() in SETS and (
        slot.unit in SECONDS
        or integers([value.rstrip(b".") for value in column]) is not None
        or _lists_sets(shape.english[slot.at])
        or _is_of_report(slot, shape)
    ):
        # `train=113 val=29` are sizes, `train:val = 0.9:0.1` shares, `valid (3.22 sec)` is a time, and
        # `train  0.96  0.92  0.94  2136` a class of a report
        return Named(slot, None, source=slot.key)
    counts_on = slot.key.lower() == "total steps" and rises(column)  # of an agent, that are done
    if slot.key.lower() in ENTIRE and (slot.unit or integers(column) is not None) and not counts_on:
        return Named(replace(slot, column="total"), None, source=slot.key)
    named = _known(slot, column, words)
    if named.column in _SIZES and has_fractions(column):
        return replace(named, column=f"{named.column}_")  # `depth: 0.53`, a measure
    if named.column == "total_steps" and _is_done(column):
        return replace(named, column="step")  # `total/steps`, which counts those that are done
    if named.column == "loss" and _is_list(slot, shape):
        return replace(named, column="losses")
    named_here = re.search(rb"[A-Za-z]", shape.words[slot.at]) is not None  # and not by a heading
    figures = is_place(named) or MEASURE.search(slot.key) or slot.key.lower() in SETS
    if named_here and figures and _is_list(slot, shape):
        return replace(named, column=None)
    is_ordinal = shape.literals[slot.at].endswith(b"#") and not is_place(named)
    is_product = slot.at > 0 and shape.words[slot.at - 1].endswith(b"(* ")
    return replace(named, column=None) if is_ordinal or is_product else named  # `Test net output #1`


def _is_done(column: Sequence[bytes]) -> bool:
    """Whether a number of steps counts those that are done, perhaps in several runs."""
    changes = sum(a != b for a, b in pairwise(column))
    done = integers(column) or []
    return 2 * changes >= len(column) and (rises(column) or (len(done) > 3 and goes_on(done)))


def _is_list(slot: Slot, shape: LineShape) -> bool:
    """Whether one name has three values in brackets, or in cells: parts, of which the first is no total."""
    inner = b"".join(words.strip() for words in shape.words[slot.at + 1 : min(slot.at + 3, shape.slots)])
    before = shape.words[slot.at].decode(errors="replace").strip()
    labels = before.endswith("|") and before.strip("| ") == slot.key
    return inner == b"||" if labels else before.endswith("[") and inner == b",,"


def _lists_sets(words: bytes) -> bool:
    """Whether several sets stand in a row before a figure, or it is a share of one."""
    named = re.findall(rb"[a-z]+", words.lower())
    return sum(word.decode() in SETS for word in named) > 1 or not SHARES.isdisjoint(named)


def _is_of_report(slot: Slot, shape: LineShape) -> bool:
    """Whether precision, recall, a score and a count stand behind the name, with blanks between them."""
    row = range(slot.at, slot.at + 4)
    if row[-1] >= shape.slots or any(shape.words[at].strip() for at in row[1:]):
        return False
    *shares, counts = (shape.column(at) for at in row)
    return integers(counts) is not None and all(has_fractions(c) and max(numbers(c)) <= 1 for c in shares)


def _known(slot: Slot, column: Sequence[bytes], words: Vocabulary) -> Named:
    """The longest end of the printed name that the vocabulary knows, else the name itself."""
    key, unit = slot.key or "", "clock" if slot.kind == "clock" else slot.scale or slot.unit or ""
    for end in _ends(key):
        foreign = end in FOREIGN or end.lower() in RATES
        if end != key and foreign and (len(end) <= SHORT or end in SETS):
            continue  # `Win Rate` is no learning rate, `accuracy validation` no loss
        what = words.field(end.encode(), unit.encode())
        if key.lower() in SPANS and unit:
            break  # `took 0.25s`: before a value with a unit it is no name
        if end != key and end.lower() in PLACES and _NO_PLACE.match(key):
            continue
        own = (legal(end), f"{legal(end)}_", _with_unit(end, unit))
        if what and (what.column not in own or what.column in _KNOWN):
            return _sane(Named(slot, what.column, unit or _assumed_unit(what), key), column)
    *_, last_word = spoken = key.lower().split()
    if not LEFT.isdisjoint(spoken) and (slot.kind == "clock" or LASTS.fullmatch(slot.unit or "")):
        return Named(slot, "eta_min", unit, key)
    if (slot.unit or "").lower() in TOKEN_RATES and last_word in RATES:
        return Named(slot, "tok_per_sec", slot.scale or None, key)
    if (
        (last_word.strip("()") in TIMES or (key.lower() in SPANS and slot.unit))
        and not LONGER.search(key)
        and _is_span(slot, column)
        and not rises(column)
    ):
        return Named(slot, "dt_ms", unit or "s", key)
    return _own_name(slot, key, unit, words)


def _with_unit(name: str, unit: str) -> str:
    """The column of an unknown name: `TrainAcc_pct`."""
    return f"{legal(name)}_{values.ending(unit)}" if unit else legal(name)


def _own_name(slot: Slot, key: str, unit: str, words: Vocabulary) -> Named:
    """A column of the value's own printed name; `validloss` is split where a set is glued to the measure."""
    split = _GLUED.sub(" ", key)
    words_of = split.lower().split(" ")
    printed = split if words_of[0] in SETS or not _SPLIT.isdisjoint(words_of) else key
    what = words.field(printed.encode(), unit.encode())
    return Named(slot, what.column if what and what.kind == "number" else None, unit or None, key)


def _ends(key: str) -> list[str]:
    """Ends of a name, such as `grad_norm` of `optim/grad_norm`; none with `loss`, which may be a part of it.

    A `Feature norm` is none of gradients.
    """
    key = key.removesuffix(" so far")
    ends = [key, _GLUED.sub(" ", key)]
    parts = re.split(r"[/ .:-]*[/ .:]+", key.removesuffix("()"))
    if parts[0].lower() in ("train", "training") and key[len(parts[0]) :][:1] == " ":
        ends.append(key[len(parts[0]) + 1 :])
    if _EVALUATED.fullmatch(parts[-1]) or (
        _WHOLE.fullmatch(parts[-1]) and _QUALIFIERS.issuperset(parts[:-1])
    ):
        ends.append(parts[-1])
    if parts[-1].lower() in ("s", "sec"):  # a rate is not what it counts
        return [key]
    if key.endswith("()") or parts[0].lower() in SETS - {"train", "training"}:
        at = parts[-1].lower()  # `Valid Epoch: 3`, `Validation at step 500`
        names_place = len(parts) == 2 or (len(parts) > 2 and parts[-2].lower() in _BEFORE_PLACES)
        return [*ends, at] if names_place and at in PLACES and " " in key else ends
    shorter = ["_".join(parts[start:]) for start in range(1, len(parts))]
    return [*ends, *(end for end in shorter if end and "loss" not in end.lower() and end.lower() != "norm")]


def _assumed_unit(what: Field) -> str | None:
    """The unit that the vocabulary assumes where no unit is printed."""
    scale = Scale(what.shift, what.times, what.over)
    table = values.CANONICAL.get(what.column.removesuffix("_avg").rpartition("_")[2], {})
    return next((unit for unit, factor in table.items() if factor == scale and scale != values.KEPT), None)


def _sane(cell: Named, column: Sequence[bytes]) -> Named:
    """Corrects a column by its values: `iter: 0.31` is a step time, `1.2e5` or `line search step: 0.5` no step."""
    if cell.column in PLACES and (cell.unit or "") in SHORTENED:
        return cell
    if cell.column in ("step", "iteration", "batch") and integers(column) is None:
        fractions = any(b"." in value[:-1] for value in column)  # but not in `at step 10...`
        if fractions and (len(cell.source) == 1 or " " in cell.source):
            return replace(cell, column=legal(cell.source))  # `S: 0.926` is a measure
        return replace(cell, column="dt_ms" if fractions else None, unit=cell.unit or "s")
    if cell.column == "step" and cell.source.lower().endswith("steps") and falls(column):
        return replace(cell, column=legal(cell.source))  # counted within each episode
    if cell.column == "epoch" and cell.source.lower() == "e" and declines(column):
        return replace(cell, column=legal(cell.source))  # a share of random actions
    if cell.column == "epoch" and _OF_TIME.search(cell.source) and has_fractions(column):
        return replace(cell, column=legal(cell.source))  # `Time taken for epoch: 0.27 mins`
    if cell.column == "lr" and ("/" in (cell.unit or "") or _is_speed(cell, column)):
        return replace(cell, column=legal(cell.source))
    if cell.column in PLACES and cell.unit not in (None, "s"):
        return replace(cell, column=None)
    return cell


def _is_speed(cell: Named, column: Sequence[bytes]) -> bool:
    """Whether a `rate` is larger than any learning rate: of samples, or of frames."""
    return cell.source.lower() == "rate" and max(numbers(column), default=0) > _LARGEST_RATE


def _may_fail(slot: Slot, column: Sequence[bytes]) -> bool:
    """Whether words stand for its numbers: those of a loss, or `nan` each time for a measure."""
    key = slot.key or ""
    fails = all(value.lower() == b"nan" for value in column)
    return "loss" in key.lower() or (fails and MEASURE.search(key) is not None)


def _is_span(slot: Slot, column: Sequence[bytes]) -> bool:
    """Whether a time is a duration: seconds, or `1h 2m`. A clock with colons may be a time of day."""
    if slot.kind == "clock":
        return not any(b":" in value for value in column)
    return slot.kind == "number" and slot.unit in (None, "ms", "s", "sec", "secs", "seconds", "us")
