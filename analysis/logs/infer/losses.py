"""Which measure of a line is the loss, which its average, and which are parts of it or of something else."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.counters import numbers
from gputel.analysis.logs.infer.dialects import (
    AVERAGED,
    CURRENT,
    FULL_TOTALS,
    LOSSES,
    OBJECTIVES,
    OF,
    PART_LOSS,
    PARTS,
    SETS,
    TOTALS_OF_PARTS,
    TRAINED,
)
from gputel.analysis.logs.infer.named import PLACES, Named, is_place
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.names import is_evaluation, legal

LASTS = re.compile(r"(?i)(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)")
_RAW = re.compile(
    r"(?:train_)?(?:(?:raw|inst|instant\w*|curr|latest|last)_loss|loss_(?:raw|inst|instant\w*|cur|last))"
)
_FEW = 3  # losses, from which on they have a range
_TOTAL = re.compile(r"(?:total|overall)_loss|loss_(?:total|overall)")
_SUMMED = re.compile(r"(?i)(?<![a-z])(?:total|sum(?:med)?)(?![a-z])")
_GLUED_LOSS = re.compile(r"(?<=[^\W_])loss$")  # `SmoothL1Loss`
_BESIDE_LOSS = {"lr", "grad_norm", "dt_ms", "tok_per_sec", "val_loss"}
_BATCHES = {"index", "step", "iteration", "batch"}
_LAST_DIGITS = 2.5  # by which a sum of rounded figures may differ from the rounded sum


def with_loss(cells: list[Named], shape: LineShape) -> list[Named]:
    """Names the measure that is trained on `loss`, where no value is called so: nll, cross entropy, cost.

    An objective with negative values is a likelihood that rises, and no loss.
    """
    cells = _with_raw(cells)
    if {"loss", "loss_avg"} & {cell.column for cell in cells}:
        return _total_of_parts(cells, shape)
    normal = [normal_name(cell) for cell in cells]
    plain = _with_rate(cells, [_plain(word, alone=len(cells) == 1) for word in normal], shape)
    named = [_GLUED_LOSS.sub("_loss", word) for word in plain if not is_evaluation(word)]
    parts = {word.removesuffix("_loss") for word in named if PARTS.search(word)}
    trained = _total(cells, plain, shape) or _of_the_set(cells, plain)
    trained = trained or next((word for word in LOSSES if word in plain), None)
    is_part = trained is not None and PARTS.search(_GLUED_LOSS.sub("_loss", trained)) is not None
    is_part = is_part and not any(cell.source.lower() == "main/loss" for cell in cells)  # of the main model
    beside = parts | {word for word in named if PART_LOSS.search(word) and not word.startswith("best_")}
    if trained is None or (is_part and len({word.removesuffix("_loss") for word in beside}) > 1):
        return cells
    means = [is_mean for word, is_mean in zip(plain, map(_is_mean, normal), strict=True) if word == trained]
    renamed = [
        _as_loss(cell, word, trained, not all(means) and _is_mean(whole))
        for cell, word, whole in zip(cells, plain, normal, strict=True)
    ]
    values = [shape.column(cell.at) for cell, word in zip(cells, plain, strict=True) if word == trained]
    if trained in OBJECTIVES and all(value.startswith(b"-") for column in values for value in column):
        renamed = [column and re.sub(r"(?<![a-z])loss(?![a-z])", "objective", column) for column in renamed]
    return _once_named(cells, renamed)


def _with_raw(cells: list[Named]) -> list[Named]:
    """Names the loss of the current batch `loss`, beside an average: `smoothed loss: 2.7, raw loss: 2.5`."""
    columns = [cell.column for cell in cells]
    raw = next((cell for cell in cells if _RAW.fullmatch(_underscored(cell.source))), None)
    if "loss" in columns or "loss_avg" not in columns or raw is None:
        return cells
    return [replace(cell, column="loss") if cell is raw else cell for cell in cells]


def _total(cells: list[Named], plain: Sequence[str], shape: LineShape) -> str | None:
    """The name of the sum of parts, where such parts stand beside it; `all` may also be of all classes.

    It is a sum if a part is called a loss, or if the parts add up to it.
    """
    full = next((word for word in FULL_TOTALS if word in plain), None)
    word = full or next((word for word in TOTALS_OF_PARTS if word in plain), None)
    if word is None:
        return None
    beside = [
        (c, w) for c, w in zip(cells, plain, strict=True) if w not in (word, "") and not is_evaluation(w)
    ]
    losses = [c for c, w in beside if PART_LOSS.search(w)]
    if full and losses:
        return full
    parts = losses if len(losses) > 1 else [c for c, w in beside if PARTS.search(w)]
    whole = cells[plain.index(word)]
    if not parts:
        parts = [c for c, _ in beside if c.column not in _BESIDE_LOSS and "." in _text(c, shape)]
        return word if (_is_in_epoch(cells) and word == "total") or _adds_up(whole, parts, shape) else None
    if "loss" in word or word in ("total", "tot"):
        return word
    sums = _exceeds(whole, losses, shape) if losses else _adds_up(whole, parts, shape)
    return word if sums else None


def _of_the_set(cells: Sequence[Named], plain: Sequence[str]) -> str | None:
    """The bare name of the training set beside that of another, `Train=2.5 Val=2.7 MAE=0.3`: both are losses."""
    held_out = any(cell.column == "val_loss" and cell.source.lower() in SETS for cell in cells)
    return next((word for word in ("train", "training") if held_out and word in plain), None)


def _text(cell: Named, shape: LineShape) -> str:
    return shape.column(cell.at)[0].decode(errors="replace")


def _exceeds(whole: Named, parts: Sequence[Named], shape: LineShape) -> bool:
    """Whether a figure is larger than any of the parts, on nearly all lines."""
    rows = [*zip(*(numbers(shape.column(cell.at)) for cell in (whole, *parts)), strict=False)]
    larger = sum(row[0] >= max(row[1:]) for row in rows)
    return bool(rows) and larger >= 0.9 * len(rows)


def _total_of_parts(cells: list[Named], shape: LineShape) -> list[Named]:
    """Calls `total_loss` the loss if it is the sum of what is printed as `loss` and of the other parts.

    The parts may have a weight. A total that is none of this may be summed over the epoch.
    """
    loss = next((cell for cell in cells if cell.column == "loss"), None)
    total = next((cell for cell in cells if _TOTAL.fullmatch(_underscored(cell.source))), None)
    parts = [c for c in cells if c.column and c.column.endswith("loss") and c not in (loss, total)]
    parts = [cell for cell in parts if not is_evaluation(cell.column or "")]
    if loss is None or total in (None, loss) or not parts or not _adds_up(total, [loss, *parts], shape):
        return cells
    columns = {loss.at: f"{loss.column}_", total.at: loss.column}
    return [replace(cell, column=columns.get(cell.at, cell.column)) for cell in cells]


def _adds_up(total: Named, parts: Sequence[Named], shape: LineShape) -> bool:
    """Whether the total is the first part and a constant times the sum of the others, up to its last digits."""
    if len(parts) < 2:
        return False
    columns = [shape.column(cell.at) for cell in (parts[0], total, *parts[1:])]
    rows = [row for row in zip(*map(numbers, columns), strict=False) if all(map(math.isfinite, row))]
    if len(rows) < _FEW or all(row[0] == row[1] for row in rows):
        return False
    more = [(row[1] - row[0], sum(row[2:])) for row in rows]
    weight = sum(rest for rest, _ in more) / (sum(part for _, part in more) or math.inf)
    weight = round(weight) if math.isclose(weight, round(weight), rel_tol=0.1) else weight
    near = _LAST_DIGITS * 10 ** -max(map(_decimals, columns[1]))
    exact = sum(math.isclose(rest, weight * part, abs_tol=near) for rest, part in more)
    return weight > 0 and exact >= 0.9 * len(rows)


def _decimals(value: bytes) -> int:
    return len(value.partition(b".")[2]) if value.replace(b".", b"").isdigit() else 0


def without_foreign_mean(cells: list[Named], shape: LineShape) -> list[Named]:
    """Leaves its own name to a mean that is never within the range of the loss: it is of something else.

    `Smooth Loss: 5.4` beside `All Loss: 182.6` is a penalty for roughness.
    """
    losses = [value for cell in cells if cell.column == "loss" for value in numbers(shape.column(cell.at))]
    if len(losses) < _FEW or not all(map(math.isfinite, losses)):
        return cells
    return [
        replace(cell, column=legal(cell.source))
        if cell.column == "loss_avg" and not cell.source.endswith("()") and _is_outside(cell, shape, losses)
        else cell
        for cell in cells
    ]


def _is_outside(cell: Named, shape: LineShape, range_of: Sequence[float]) -> bool:
    means, low, high = numbers(shape.column(cell.at)), min(range_of), max(range_of)
    return bool(means) and not any(low <= value <= high for value in means)


def _is_in_epoch(cells: Sequence[Named]) -> bool:
    """Whether a line has an epoch, its index and one measure: `[epoch: 4/200, iter: 75/448] total: 1.4`."""
    columns = {cell.column for cell in cells}
    measures = [cell for cell in cells if cell.column and not is_place(cell)]
    return "epoch" in columns and not columns.isdisjoint(PLACES.keys() - {"epoch"}) and len(measures) == 1


def normal_name(cell: Named) -> str:
    """The name by which a measure may be the loss; empty for a percentage, for a time and for a place."""
    if cell.slot.unit == "%" or LASTS.fullmatch(cell.slot.unit or "") or is_place(cell) or not cell.column:
        return ""
    return _underscored(cell.source)


def _underscored(source: str) -> str:
    return re.sub(r"[\W_]+", "_", source.lower()).strip("_")


def _plain(word: str, *, alone: bool) -> str:
    """Drops words such as `mean` and `batch`, unless it is the only value: that may be a mean of anything."""
    bare = word if alone else CURRENT.sub("", AVERAGED.sub("", OF.sub("", word)).strip("_"))
    return TRAINED.sub("trained_", bare or word)


def _with_rate(cells: list[Named], plain: list[str], shape: LineShape) -> list[str]:
    """Calls the only measure the loss beside a figure of the training, the loss of a validation, or a batch.

    An error beside an accuracy is a share of wrong answers, unless it is larger than a share can be.
    """
    measures = [word for word in plain if f"trained_{word}" in LOSSES]
    columns = {cell.column for cell in cells}
    trains = not columns.isdisjoint(_BESIDE_LOSS) or ("epoch" in columns and not columns.isdisjoint(_BATCHES))
    loses = any("loss" in word and not (is_evaluation(word) or "best" in word) for word in plain)
    if len(measures) != 1 or not ("lr" in columns or (trains and not loses)):
        return plain
    if measures[0] in ("err", "error"):
        of_accuracy = [
            _largest(cell, shape) for cell, word in zip(cells, plain, strict=True) if "acc" in word
        ]
        of_error = _largest(cells[plain.index(measures[0])], shape)
        if of_accuracy and of_error <= (1 if max(of_accuracy) <= 1 else 100):
            return plain
    return [f"trained_{word}" if word in measures else word for word in plain]


def _largest(cell: Named, shape: LineShape) -> float:
    return max(numbers(shape.column(cell.at)), default=0.0)


def is_average(source: str) -> bool:
    """Whether a printed name says that it is a mean over steps: `Avg Loss`, `avg loss so far`."""
    return _is_mean(_underscored(source))


def is_sum(source: str) -> bool:
    """Whether a printed name says that it is summed over batches, where an average stands beside it."""
    return _SUMMED.search(source) is not None and not is_average(source)


def _is_mean(word: str) -> bool:
    """Whether a name says a mean over steps; `current batch average` is of one batch."""
    return AVERAGED.search(word) is not None and not CURRENT.match(word).group()  # type: ignore[union-attr]


def _as_loss(cell: Named, word: str, trained: str, is_mean: bool) -> str | None:
    """The column of the measure, of its average and of its evaluation."""
    if word == trained:
        return "loss_avg" if cell.source.endswith("()") or is_mean else "loss"
    kind, _, measure = word.rpartition("_")
    evaluated = kind.split("_")[0] in SETS - {"train", "training"}
    return "val_loss" if evaluated and measure == trained.split("_")[-1] else cell.column


def _once_named(cells: list[Named], columns: list[str | None]) -> list[Named]:
    named: list[Named] = []
    for cell, column in zip(cells, columns, strict=True):
        changed = column != cell.column and column not in [other.column for other in named]
        named.append(replace(cell, column=column, unit=cell.slot.unit) if changed else cell)
    return named
