"""Which values of a line say where the training is: epoch, index, step, and their totals.

Names have been given before; here the values decide. An index that starts again with each epoch is an index within
it; one that grows by whole batches counts samples and is no step; a value that only counts upwards is the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.counters import NUMBERED, ROUND, counter, has_fractions, integers
from gputel.analysis.logs.infer.dialects import SETS
from gputel.analysis.logs.infer.named import PLACES, STEPS, Named, Slot, is_unknown
from gputel.analysis.logs.infer.pairs import name_pairs
from gputel.analysis.logs.infer.shapes import BAR, LineShape
from gputel.analysis.logs.names import legal
from gputel.analysis.logs.patterns import lazy_regex

KINDS = lazy_regex(
    r"(?i)(?:^|[\W_])(?<!per[\W_])"
    r"(?:class|label|category|layer|head|channel|rank|gpu|device|worker|client|agent|player)(?:s|[ _]?id)?$"
)
_SAVED = lazy_regex(r"(?i)\b(?:checkpoint|ckpt|snapshot)$")  # counts saves, and no steps
_OF_EPOCHS = lazy_regex(r"(?i)(?:^|[ _])epochs$")
_RATE = lazy_regex(r"(?:it|s|step|batch|example|sample|B)s?/(?:s|it)|^rate/")
_ITS_LENGTH = lazy_regex(
    rb"\s*(?:mini[- ]?)?(?:batche|step|iteration|iter|update|sample|example|image|token|minute|hour|second)s\b"
)
_NOT_BEGUN = lazy_regex(rb"<\?, *\?\w+/s\][A-Za-z]")


def find(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the values that are places."""
    if shape.is_bar:
        return _totals(_in_bar(_without_next(cells, shape), shape))
    apart = _without_lengths(_without_saves(cells), shape)
    moving = _in_fractions(_without_settings(_with_number_of_epochs(apart, shape), shape), shape)
    return _counted(_totals(name_pairs(_epochs(_passes(moving, shape), shape), shape)), shape)


def with_totals(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the totals behind values that are places by their names, as in a row `0/29 40/165 1.99`."""
    return _totals(name_pairs(cells, shape))


def _without_saves(cells: list[Named]) -> list[Named]:
    """Leaves out `Checkpoint [3]`, which counts saves: no step, and no measure of what stands behind it."""
    return [
        replace(cell, column=None, slot=replace(cell.slot, column="counted"))
        if _SAVED.search(cell.source) and is_unknown(cell)
        else cell
        for cell in cells
    ]


def _without_lengths(cells: list[Named], shape: LineShape) -> list[Named]:
    """Leaves out `1 epoch = 41 batches`, the length of an epoch and not its number."""
    return [
        replace(cell, column=None, slot=replace(cell.slot, column="counted"))
        if cell.column == "epoch" and cell is cells[-1] and _ITS_LENGTH.match(shape.literals[cell.at + 1])
        else cell
        for cell in cells
    ]


def _with_number_of_epochs(cells: list[Named], shape: LineShape) -> list[Named]:
    """Takes `epochs=12` or `Training epochs: 12`, which never changes and has no total, for how many there will be.

    A lone line with a loss may be the first of them.
    """
    ended = {a.at for a, b in pairwise(cells) if b.slot.column == "total"}
    epochs = [cell for cell in cells if cell.column == "epoch"]
    if len(epochs) > 1 or (shape.count == 1 and any("loss" in (cell.column or "") for cell in cells)):
        return cells
    return [
        replace(cell, column="epochs")
        if cell in epochs
        and _OF_EPOCHS.search(cell.source)
        and cell.at not in ended
        and len({*shape.column(cell.at)}) == 1
        else cell
        for cell in cells
    ]


def _in_fractions(cells: list[Named], shape: LineShape) -> list[Named]:
    """Keeps the finer of two epochs, `epoch 1 | ... | 1.5 epochs`; a fraction that stays the same is no place."""
    epochs = [cell for cell in cells if cell.column == "epoch"]
    fraction = next((cell for cell in epochs if has_fractions(shape.column(cell.at))), None)
    if fraction is None or len(epochs) < 2:
        return cells
    moves = len(set(shape.column(fraction.at))) > 1
    dropped = [cell for cell in epochs if (cell is not fraction) is moves]
    return [replace(cell, column=None) if cell in dropped else cell for cell in cells]


def _without_settings(cells: list[Named], shape: LineShape) -> list[Named]:
    """Takes a number of steps that stays the same, while another one counts, for a setting.

    So are `batch 64` and `Steps: 266` of lines with one epoch each.
    """
    counts = [cell for cell in cells if cell.column in STEPS]
    if len(counts) == 1 and _is_size(counts[0], cells, shape):
        return [replace(cell, column=None) if cell in counts else cell for cell in cells]
    if len(shape.rows) < 3 or len(counts) < 2:
        return cells
    standing = [cell for cell in counts if len(set(shape.column(cell.at))) == 1]
    if len(standing) == len(counts):
        return cells
    return [replace(cell, column=legal(cell.source)) if cell in standing else cell for cell in cells]


def _is_size(cell: Named, cells: Sequence[Named], shape: LineShape) -> bool:
    """Whether a batch, or a number of steps, prints no total and never changes while something else counts.

    That is an epoch that rises by one, or the first of a pair without a name: `[500/50000] ... batch 16`.
    """
    is_length = cell.column == "batch" or cell.source.endswith("s")
    if not is_length or len(set(sizes := shape.column(cell.at))) > 1 or sizes[0] in (b"0", b"1"):
        return False
    epochs = next((integers(shape.column(c.at)) for c in cells if c.column == "epoch"), None) or []
    is_bounded = any(c.at == cell.at + 1 and c.slot.column == "total" for c in cells)
    rises = len(epochs) > 2 and all(b == a + 1 for a, b in pairwise(epochs))
    return (rises or (not epochs and _has_nameless_count(cells, shape))) and not is_bounded


def _has_nameless_count(cells: Sequence[Named], shape: LineShape) -> bool:
    """Whether a whole number without a name rises from each line to the next, towards the total behind it."""
    pairs = [(a, b) for a, b in pairwise(cells) if b.slot.column == "total" and a.slot.key is None]
    counts = [integers(shape.column(a.at)) or [] for a, b in pairs if integers(shape.column(b.at))]
    return any(len(values) > 2 and all(b > a for a, b in pairwise(values)) for values in counts)


def _passes(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names an iteration `epoch` if the step with a total begins again each time that it rises."""
    outer = next((cell for cell in cells if cell.column == "iteration"), None)
    inner = next(
        (a for a, b in pairwise(cells) if a.column in ("step", "batch") and b.slot.column == "total"), None
    )
    if outer is None or inner is None or any(cell.column == "epoch" for cell in cells):
        return cells
    if not _turn_together(outer, inner, shape):
        return cells
    columns = {outer.at: "epoch", inner.at: "index", inner.at + 1: "length"}
    return [replace(cell, column=columns.get(cell.at, cell.column)) for cell in cells]


def _turn_together(outer: Named, inner: Named, shape: LineShape) -> bool:
    """Whether the outer count rises where the inner one begins again, but for a restart or two, and nowhere falls.

    Where a training is followed by another one, both begin anew.
    """
    passes, steps = integers(shape.column(outer.at)) or [], integers(shape.column(inner.at)) or []
    moves = [(b < a, e, f) for (a, b), (e, f) in zip(pairwise(steps), pairwise(passes), strict=False)]
    turns = [f > e for falls, e, f in moves if falls]
    anew = passes[:1]
    return 3 * sum(turns) >= 2 * len(turns) > 0 and all(
        f >= e or (falls and [f] == anew) for falls, e, f in moves
    )


def _epochs(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the epoch in `[3, 2000] loss` and `Train: 3 [100/1251]`, which have no word for it."""
    if any(cell.column == "epoch" for cell in cells) or len(cells) < 2:
        return cells
    if _is_place_in_epoch(cells, shape):
        return [replace(cells[0], column="epoch", source="#"), *cells[1:]]
    first, second = cells[0], cells[1]
    if integers(shape.column(0)) is None or integers(shape.column(1)) is None:
        return cells
    between = shape.literals[1].strip()
    if (first.slot.key or "").lower() in SETS and between.endswith(b"["):
        return [replace(first, column="epoch"), *cells[1:]]
    if between == b"," and first.column is second.column is None and first.slot.column is None:
        counted = len(cells) > 2 and cells[2].slot.column == "total"  # `[3, 200/2000]` is an index
        batch = second if counted else replace(second, column="batch", source="#")
        return [replace(first, column="epoch", source="#"), batch, *cells[2:]]
    nameless = between in (b"", b":") and first.slot.key is second.slot.key is None
    if (
        nameless and second.column is None and _turn_together(first, second, shape)
    ):  # `0 10 loss - 7.2`, `[0 : 100]`
        return [
            replace(cells[0], column="epoch", source="#"),
            replace(second, column="batch", source="#"),
            *cells[2:],
        ]
    return cells


def _is_place_in_epoch(cells: list[Named], shape: LineShape) -> bool:
    """Whether the line begins with `[14/300][250/1251]` or `1/3 ( 33%) [ 49/323 ( 15%)]`, after any word.

    In `[14/300] batch 250/1251` the first may be a rank: it must rise where the batches begin again.
    """
    first = [cell for cell in cells if cell.slot.column != "share"][:4]
    if [cell.slot.column for cell in first] != [None, "total", None, "total"]:
        return False
    if first[0].slot.key is None and first[2].column in STEPS:
        return _turn_together(first[0], first[2], shape)
    bracketed = shape.words[0].rstrip().endswith(b"[") and first[0].column == legal(first[0].source)
    nameless = (bracketed or first[0].slot.key is None) and first[2].slot.key is None
    return nameless and all(integers(shape.column(cell.at)) for cell in first)


def _in_bar(cells: list[Named], shape: LineShape) -> list[Named]:
    """A bar's own count and total; its clock and its rate say nothing of the record (docs/parse.md, rule 4).

    They stand behind what is drawn, or right before it: `3/10 [==>....] loss: 2.5`. Of two pairs the total of
    theirs stays: `Acc: 20.0% (64/320) 5/16`.
    """
    drawn = next(at for at, literal in enumerate(shape.literals) if BAR in literal)
    share = drawn - 1 if shape.literals[drawn].startswith(b"%") else None
    named = [replace(cell, column=None) if _is_of_bar(cell) or cell.at == share else cell for cell in cells]
    counts = [a.at for a, b in pairwise(cells) if b.slot.column == "total" and a.slot.key is None]
    behind = sorted((at for at in counts if at + 1 >= drawn), key=lambda at: len({*shape.column(at + 1)}))
    around = [at for at in counts if BAR in shape.literals[at] and BAR in shape.literals[at + 2]]
    for at in [*around, *behind, *(at for at in counts if at + 2 == drawn)][:1]:
        named[at] = replace(cells[at], column="count", source="#")
        named[at + 1] = replace(cells[at + 1], column="total", source="#")
    return named


def _without_next(cells: list[Named], shape: LineShape) -> list[Named]:
    """Takes the places from a bar that has not begun, `[00:00<?, ?it/s]Val Acc: 0.57`: it is of the next epoch."""
    end = next((at for at, words in enumerate(shape.words) if _NOT_BEGUN.match(words)), 0)
    return [
        replace(cell, column=None, slot=replace(cell.slot, column="aside")) if cell.at < end else cell
        for cell in cells
    ]


def _is_of_bar(cell: Named) -> bool:
    timed = cell.slot.key is None or cell.column in ("index", "dt_ms")
    return timed or any(_RATE.search(text) for text in (cell.slot.unit or "", cell.source))


def _totals(cells: list[Named]) -> list[Named]:
    """Names the total that follows a place."""
    named = list(cells)
    for at, cell in enumerate(cells):
        before = named[at - 1] if at else None
        if cell.slot.column == "total" and cell.column is None and before and before.column in PLACES:
            named[at] = replace(cell, column=PLACES[before.column])
    return named


def _batch_beside(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the batch beside an epoch that is the only place: a counter, if the epoch rarely changes."""
    places = [cell for cell in cells if cell.column in (*PLACES, "index")]
    epochs = shape.column(places[0].at)
    if [cell.column for cell in places] != ["epoch"] or len(epochs) < 4:
        return cells
    behind = places[0].at + 1
    behind += behind < len(cells) and cells[behind].column == "epochs"
    near = cells[behind : behind + 1]
    unknown = [cell for cell in near if is_unknown(cell) and not _is_number_of_other(cell)]
    unknown += filter(_is_of_set, cells[:1])
    counts = counter(shape, [cell.slot for cell in unknown])
    at = counts if len(set(epochs)) <= len(epochs) / 2 else None
    at = at or next((cell.slot for cell in near if _is_index(cell, places[0], shape)), None)
    return [
        replace(cell, column="batch", guessed=True, source=cell.source or "#") if cell.slot == at else cell
        for cell in cells
    ]


def _is_number_of_other(cell: Named) -> bool:
    """Whether it is that of a class, a worker, a fold or a seed, which say nothing of how far the training is."""
    return KINDS.search(cell.source) is not None or NUMBERED.fullmatch(cell.source) is not None


def _is_of_set(cell: Named) -> bool:
    """Whether it is the number in front of a line such as `train: 17 @ epoch:0`."""
    return cell.column is None and cell.at == 0 and (cell.slot.key or "").lower() in SETS


def _is_index(cell: Named, epoch: Named, shape: LineShape) -> bool:
    """Whether it is the second number of `Epoch: [3][50]`, which falls mostly where the epoch changes."""
    values, epochs = integers(shape.column(cell.at)), integers(shape.column(epoch.at))
    nameless = cell.slot.key is None and shape.literals[cell.at].strip() == b"]["
    if not nameless or not values or not epochs or len(set(values)) == 1:
        return False
    pairs = zip(pairwise(values), pairwise(epochs), strict=True)
    falls = [f != e for (a, b), (e, f) in pairs if b < a]
    return 2 * sum(falls) >= len(falls)


def _ordinal(cells: list[Named], shape: LineShape) -> Slot | None:
    """The whole number in front of a lone record that begins like `48101: 0.28, 0.29 avg, 0.001 rate`."""
    first = cells[0].slot
    lone = shape.count == 1 and {"loss", "lr"} <= {cell.column for cell in cells}
    leads = not shape.words[0].strip() and shape.words[1].strip() == b":"
    return first if lone and leads and integers(shape.column(0)) is not None else None


def _heads_object(shape: LineShape) -> bool:
    """Whether it is `3 {`, the number of an object that is printed below it."""
    return [word.strip() for word in shape.words] == [b"", b"{"]


def _counted(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the step where no value is a place: a counter without a name, or the first value if it counts."""
    if shape.slots < 2 and not _heads_object(shape):
        return cells
    if any(cell.column in (*PLACES, "index") for cell in cells):
        return _batch_beside(cells, shape)
    strange = [
        cell
        for cell in cells
        if (cell.column is None and cell.slot.column != "counted")
        or (is_unknown(cell) and ROUND.fullmatch(cell.source))
        or (cell.at == 0 and is_unknown(cell) and not KINDS.search(cell.source))
    ]
    at = counter(shape, [cell.slot for cell in strange]) or _ordinal(cells, shape)
    return [
        replace(cell, column="step", guessed=True, source=cell.source or "#") if cell.slot == at else cell
        for cell in cells
    ]
