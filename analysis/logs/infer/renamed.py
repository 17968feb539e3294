"""Columns that have another name than their line alone would give them, by what other lines of the log say."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.candidates import OFTEN, Candidate
from gputel.analysis.logs.infer.counters import ROUND, counts, integers, numbers
from gputel.analysis.logs.infer.dialects import GLUED, LOSS, OPPOSED, PART_LOSS, PARTS, SCORED, TRAINED
from gputel.analysis.logs.infer.named import Named, is_place
from gputel.analysis.logs.names import is_evaluation
from gputel.analysis.logs.patterns import RECORDS

LOSSES = ("loss", "loss_avg")
_OF_EPOCHS = {"step": "epoch", "total_steps": "epochs"}
_WITHIN_EPOCH = {"total_steps": "length", **dict.fromkeys(("step", "iteration", "batch"), "index")}


def of_epoch(line: Candidate, main: Candidate) -> Candidate:
    """Calls `[3/5]` the epoch in `Valid: [3/5] F1 0.2`, where the records have as many epochs, and batches."""
    epochs, ended = _whole(main, "epochs"), _whole(line, "total_steps")
    guessed = line.place is not None and line.place.guessed
    is_epoch = line is not main and epochs is not None and epochs == ended and guessed and main.is_fine
    return line.renamed(_OF_EPOCHS) if is_epoch else line


def of_pass(line: Candidate, main: Candidate) -> Candidate:
    """Calls `[1/4]` alone the epoch, where the records count anew below each, and their losses go on from above."""
    is_alone = line.role == "place" and line.place is not None and line.place.slot.key is None
    if not is_alone or line.shape.slots != 2 or "epoch" in main.columns or not (main.falls and main.loses):
        return line
    epochs = integers(line.shape.column(0)) or []
    counts = integers(main.shape.column(main.place.at)) if main.place else None
    losses = next(numbers(main.shape.column(cell.at)) for cell in main.metrics if cell.column in LOSSES)
    within = [bisect(line.shape.lines, number) for number in main.shape.lines]
    rows = [*zip(within, counts or (), losses, strict=False)]
    begins = [(a, b) for a, b in pairwise(rows) if b[0] > a[0]]
    anew = [a[1] > b[1] for a, b in pairwise(rows)] == [a[0] < b[0] for a, b in pairwise(rows)]
    goes_on = [abs(b[2] - a[2]) < abs(b[2] - losses[0]) for a, b in begins]
    rises = epochs == [*range(epochs[0], epochs[0] + len(epochs))] and within[0] == 1
    is_epoch = rises and len(begins) == len(epochs) - 1 and anew and 2 * sum(goes_on) > len(goes_on)
    return replace(line.renamed(_OF_EPOCHS), role="epoch") if is_epoch else line


def of_round(line: Candidate, main: Candidate) -> Candidate:
    """Calls the round an epoch in `Round 3/10` or `Round number: 3` above the lines of all clients, without it."""
    place = line.place or _lone_count(line)
    beside = [cell for cell in line.metrics if cell is not place]
    is_round = place is not None and ROUND.fullmatch(place.source) and line.is_terse and not beside
    if not is_round or line.shape.first > main.shape.first or line.shape.count < 2:
        return line
    own = {place.column: "epoch"} if place and place.column and not is_place(place) else {}
    return replace(line.renamed(_OF_EPOCHS | own), role="epoch")


def _lone_count(line: Candidate) -> Named | None:
    """The only value of a line, if it counts from line to line."""
    values = integers(line.shape.column(0)) if line.shape.slots == 1 else None
    return line.named[0] if values and counts(values) else None


def of_evaluated(main: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Calls a count without a name the epoch where an evaluation stands below each record: `[3] loss: 2.5`."""
    counted = main.place is not None and main.place.guessed and main.place.slot.key is None
    steps = integers(main.shape.column(main.place.at)) if counted and main.place else None
    by_one = steps and steps[0] in (0, 1) and all(b in (a + 1, steps[0]) for a, b in pairwise(steps))
    evaluated = any(line.role == "eval" and _stands_below_each(line, main) for line in candidates)
    return main.renamed(_OF_EPOCHS) if by_one and evaluated and "epoch" not in main.columns else main


def _stands_below_each(line: Candidate, main: Candidate) -> bool:
    """Whether one of these lines, which name no place, stands between a record and the next, and below the last."""
    if line.place is not None or main.shape.count < OFTEN:
        return False
    in_turn = [number for both in zip(main.shape.lines, line.shape.lines, strict=False) for number in both]
    return line.shape.count == main.shape.count and in_turn == sorted(in_turn)


def within_epochs(chosen: list[Candidate]) -> list[Candidate]:
    """Makes `Batch 567/17168` an index within the epoch, where lines above it say the epoch."""
    if not any(line.role == "epoch" for line in chosen):
        return chosen
    return [
        line.renamed(_WITHIN_EPOCH)
        if line.role == "train" and "total_steps" in line.columns and "epoch" not in line.columns
        else line
        for line in chosen
    ]


def average_as_loss(chosen: list[Candidate]) -> list[Candidate]:
    """Calls an average, or the only loss by another name, the loss where the records print no other."""
    records = [line for line in chosen if line.role in RECORDS]
    columns = dict.fromkeys(cell.column for line in records for cell in line.metrics if cell.column)
    averages = [cell.column for line in records for cell in line.metrics if _is_average_loss(cell)]
    trained = [name for name in columns if not (name.endswith("_avg") or is_evaluation(name))]
    losses = [name for name in trained if LOSS.search(name)]
    others = [name for name in trained if name not in losses[:1] and not SCORED.search(name)]
    parts = any(regex.search(name) for name in others for regex in (PARTS, PART_LOSS, OPPOSED, GLUED))
    parts = parts or any(map(OPPOSED.search, losses))
    only = averages[:1] or (losses if len(losses) == 1 and not parts else _in_turn(records))
    if "loss" in columns or not only:
        return chosen
    names = {f"{name}{avg}": f"loss{avg}" for name in only for avg in ("", "_avg")}
    return [line.renamed(names) if line in records else line for line in chosen]


def counted(bar: Candidate) -> Candidate:
    """The bar of an evaluation whose own count has the name of a step: `Step: 3/8 |###  | val_loss: 0.5`."""
    if bar.place is None or bar.place.column not in ("step", "batch") or "total_steps" not in bar.columns:
        return bar
    return bar.renamed({bar.place.column: "count", "total_steps": "total"})


def besides(line: Candidate, main: Candidate) -> Candidate:
    """Drops the columns that the records have already, from a part that has a place."""
    return line.renamed(dict.fromkeys([*main.columns, "index", "length"])) if line.place else line


def _whole(line: Candidate, column: str) -> bytes | None:
    """The only value that a total has on all lines of a shape."""
    values = {value for cell in line.named if cell.column == column for value in line.shape.column(cell.at)}
    return values.pop() if len(values) == 1 else None


def _in_turn(records: Sequence[Candidate]) -> list[str]:
    """The only losses of records of which one kind follows the other: `Train MSE Loss`, then `Train MAE Loss`."""
    losses = [[c for c in line.columns if "loss" in c.lower() and not is_evaluation(c)] for line in records]
    spans = sorted((line.shape.first, line.shape.lines[-1]) for line in records)
    apart = all(last < first for (_, last), (first, _) in pairwise(spans))
    named = all(len(each) == 1 and _is_of_stage(each[0], len(losses)) for each in losses)
    return [name for each in losses for name in each] if apart and named else []


def _is_of_stage(name: str, kinds: int) -> bool:
    """Whether the only loss of one kind of record is that of a stage of the training."""
    return TRAINED.match(name.lower()) is not None or (kinds > 1 and not OPPOSED.search(name))


def _is_average_loss(cell: Named) -> bool:
    return cell.column == "loss_avg" and not cell.source.endswith("()")
