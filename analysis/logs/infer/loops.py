"""Loops that are no training: a line announces an evaluation, and the lines below it count to another total.

`12/46` beside records of `12/180` is a loop of its own. Where its lines have a shape of their own, they give no
figures; where they look like the records, see `announcements`. `eval 12/46 loss 1.2` announces itself, also where
it counts as far as the training does: its last line is the result, where no other line gives one.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.announcements import (
    ALONE,
    SIZE,
    announcement,
    announcement_of_block,
    total,
    totals_of,
)
from gputel.analysis.logs.infer.both_sets import measures_both
from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import integers, numbers
from gputel.analysis.logs.infer.named import Named, is_place, places_alone
from gputel.analysis.logs.infer.shape_roles import as_evaluation
from gputel.analysis.logs.infer.shapes import KEPT_ROWS, cut, masked
from gputel.analysis.logs.line_kinds import STEPS
from gputel.analysis.logs.names import HELD_OUT, TRAINING, is_evaluation, legal
from gputel.analysis.logs.patterns import lazy_regex

_MOST_SETS = 5  # of data that one evaluation may go through, with a line for each
_PASSES = 2  # of a loop, from which on it is known as one
_AVERAGE = lazy_regex(r"(?i)[ _](?:avg|mean|average)$|^(?:avg|mean|average)[ _]")
_SUMS_UP = lazy_regex(rb"(?i)(?<![a-z])(?:summary|overall)(?![a-z])")
_SET = lazy_regex(rf"(?i)^(?:{HELD_OUT})[ _]")
_TRAIN = lazy_regex(rf"(?i)^{TRAINING}[ _]")
_AS_LOSS = lazy_regex(r"(?i)(?<![a-z])(?:ppl|perplexity|elbo|nll|bpc|bpb|log[_ -]?likelihood)(?![a-z])")
_BETTER = lazy_regex(rb"(?i)(?<![a-z])(?:better|best|improv\w+|sav(?:ed|ing))(?![a-z])")
_ITEM = lazy_regex(
    r"(?i)(?<![a-z])(?:sample|image|img|frame|example|item|batch|iter(?:ation)?|idx|index)s?\W*$"
)


def without_evaluations(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> list[Candidate]:
    """Leaves out shapes whose lines an evaluation announces, where others that are not announced are the records.

    So are running figures of an evaluation that ends with a line of its own: `Sample: 7, pixAcc: 0.4`. A loss
    without a place below a line that speaks of a test, each time, is its result.
    """
    candidates = [
        as_evaluation(c)
        if _is_result(c, lines) or _ends_loop(c, candidates, lines) or _mirrors_training(c, candidates)
        else replace(as_evaluation(c), is_result=True)
        if _decides(c, candidates)
        else _scored(c, lines)
        for c in candidates
    ]
    counting = [c for c in candidates if c.role in ("train", "mixed") and c.loses]
    announced = [c for c in counting if "epoch" not in c.columns and _is_announced(c, lines)]
    totals = {total(c) for c in counting if c not in announced and c.shape.count > 1}
    loops = [c for c in announced if totals - {total(c)} or (totals and total(c) is None)]
    if any(c.role == "eval" for c in candidates):
        training = [c for c in candidates if c.role in ("train", "mixed") and c.loses]
        candidates = [part for c in candidates for part in _last_and_others(c, training, candidates, lines)]
    evals = [c for c in candidates if c.role == "eval"]
    running = [c for c in evals if _is_running(c, candidates, lines) or _are_batches(c)]
    loops += [c for c in evals if c in running or any(_is_mean(e, c) for e in evals)]
    return [_without_figures(c) if c in loops else c for c in candidates if c.place or c not in loops]


def _is_announced(candidate: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether a line above says that an evaluation begins, nearly each time that the count begins anew.

    Lines that count to no total must always be announced, and more than once. Where those that count to one of two
    totals never are, they are the records.
    """
    rows = [*_beginnings(candidate)]
    announced = [announcement(lines, candidate.shape.lines[row]) is not None for row in rows]
    if total(candidate) is None:
        return all(announced) and len(rows) > 1
    totals = totals_of(candidate)
    never = {totals[row] for row in rows} - {
        totals[row] for row, is_ in zip(rows, announced, strict=True) if is_
    }
    return sum(announced) >= 0.5 * len(rows) and not never


def _is_result(candidate: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether every one of its lines stands below a line that announces an evaluation, and none says a place."""
    announced = (announcement(lines, number) is not None for number in candidate.shape.lines)
    return _is_bare_loss(candidate) and all(announced)


def _ends_loop(candidate: Candidate, candidates: Sequence[Candidate], lines: Sequence[bytes]) -> bool:
    """Whether each of its lines, ` * Loss 1.5`, stands right below one such as `Test: [45/46] Loss 1.9 (1.5)`."""
    loops = {c.shape.literals for c in candidates if c.role == "eval" and total(c) is not None}
    above = (masked(cut(lines[number - 1])[0]) for number in candidate.shape.lines)
    return bool(loops) and _is_bare_loss(candidate) and all(literals in loops for literals in above)


def _decides(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it is `loss: 0.38, better, saving the model` beside `train loss: 0.34`: that of the held-out data."""
    if not _is_bare_loss(candidate) or not _BETTER.search(candidate.shape.spoken):
        return False
    trains = [other for other in candidates if other is not candidate and other.loses and not other.place]
    return bool(trains) and all(_TRAIN.match(cell.source) for other in trains for cell in other.metrics)


def _is_bare_loss(candidate: Candidate) -> bool:
    """Whether it gives a loss without a place, and does not say that it trains."""
    if candidate.role != "train" or candidate.place or candidate.shape.count < 2 or not candidate.loses:
        return False
    return not (candidate.names_training or "lr" in candidate.columns)


def _scored(candidate: Candidate, lines: Sequence[bytes]) -> Candidate:
    """An evaluation of a lone figure below `Test epoch: 5`, each time, with nothing but others in between."""
    metrics = candidate.metrics
    if candidate.role != "other" or candidate.place or len(metrics) != 1 or candidate.shape.count < 2:
        return candidate
    fractions = all(b"." in value for value in candidate.shape.column(metrics[0].at))
    above = [announcement_of_block(lines, number) for number in candidate.shape.lines]
    sets = {_SET.match(text + " ") for text in above if text}
    if not fractions or None in above or None in sets or not ALONE.fullmatch(candidate.shape.example):
        return candidate
    held_out = next(match for match in sets if match)
    column = legal(f"{held_out.group().strip(' _').lower()}_{metrics[0].source}")
    named = [replace(n, column=column) if n is metrics[0] else n for n in candidate.named]
    return replace(candidate, role="eval", named=tuple(named), is_result=True)


def _mirrors_training(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it is `Valid acc: 0.8 | loss: 2.5` beside `Train acc: 0.9 | loss: 2.0`, of one set throughout.

    So is a line with the words of the records whose loss is of the set, though the rate behind it is of none, and
    `epoch: 3, 0/46, eval_acc: 0.8, loss: 2.5`, which counts to another total than they do.
    """
    if candidate.role != "mixed":
        return False
    names = [_SET.sub("", cell.source.lower()) for cell in candidate.metrics]
    own = [_SET.search(cell.source) is not None for cell in candidate.metrics]
    alike = [other for other in candidates if other.role == "train" and _bare_names(other) == names]
    says_set = any(_TRAIN.match(other.metrics[0].source.lower()) for other in alike)
    apart = bool(alike) and total(candidate) not in {None, *map(total, alike)}
    first_alone = own[0] and not any(own[1:]) and (says_set or apart)
    return first_alone or (not candidate.loses and any(o.loses for o in alike))


def _bare_names(candidate: Candidate) -> list[str]:
    return [_TRAIN.sub("", cell.source.lower()) for cell in candidate.metrics]


def _is_running(candidate: Candidate, candidates: Sequence[Candidate], lines: Sequence[bytes]) -> bool:
    """Whether its lines count from 1 within each evaluation, which another line with the same measures ends."""
    if "epoch" in candidate.columns:
        return False
    measures = {cell.source.split()[-1] for cell in candidate.metrics if cell.source}
    ends = [
        other
        for other in candidates
        if other.role == "eval"
        and 1 < other.shape.count <= candidate.shape.count / 5
        and not measures.isdisjoint(cell.source.split()[-1] for cell in other.metrics if cell.source)
    ]
    counts = integers(candidate.shape.column(0)) or []
    begins = [row for row, count in enumerate(counts) if count in (0, 1)]
    rises = [b == a + 1 for a, b in pairwise(counts) if b > a]
    if not ends or not begins or not all(rises) or len(rises) + len(begins) != len(counts):
        return False
    return all(announcement(lines, candidate.shape.lines[row]) is not None for row in begins)


def _are_batches(candidate: Candidate) -> bool:
    """Whether its lines stand in long rows, with averages so far and no count: `Test: Loss 1.5 (1.4) Acc 4 (3)`."""
    means = sum(cell.source.endswith("()") for cell in candidate.metrics)
    rows = 1 + sum(after > before + 1 for before, after in pairwise(candidate.shape.lines))
    counted = candidate.place is not None or total(candidate) is not None
    return means > 1 and not counted and candidate.shape.count > _MOST_SETS * rows


def _last_and_others(
    candidate: Candidate,
    records: Sequence[Candidate],
    candidates: Sequence[Candidate],
    lines: Sequence[bytes],
) -> list[Candidate]:
    """The lines of a loop that say themselves that they evaluate: the last one of each pass, and the others.

    The others give no figure; nor does the last where another line gives the result. A loop that is not seen to
    come to its end, or that may count a few sets of data, is left as it is.
    """
    if candidate.role != "eval" or measures_both(candidate):
        return [candidate]
    if _counts_items(candidate):
        return _settled_and_others(candidate, records, lines)
    size, index = total(candidate), next((c for c in candidate.named if c.column in STEPS), None)
    if index is None or (size in {None, *map(total, records)} and not _is_between(candidate, index, records)):
        return [candidate]
    ends = _ends(candidate, index, records)
    is_apart = size is not None and None not in map(total, records)  # it counts to a total of its own
    size = ends[0] if size is None and ends else size
    passes = max(1, candidate.shape.count // (size or 1)) if len(ends) == 1 else len(ends)  # not all are kept
    if passes < (1 if is_apart else _PASSES) or (size or 0) <= _MOST_SETS:
        return [candidate]
    others = _without_figures(candidate)
    if any(_gives_result(other, candidate, passes) for other in candidates):
        return [others]
    if len({*ends}) > 1 or ends[0] < (size or 0) - _stride(candidate, index):
        return [candidate]
    named = [
        replace(cell, column=None, only=str(ends[0]) if cell is index else "")
        if is_place(cell) and cell.column != "epoch"
        else cell
        for cell in candidate.named
    ]
    return [replace(candidate, named=tuple(named)), others]


def _stride(candidate: Candidate, index: Named) -> int:
    """How far the count goes from line to line, as far as that is always the same."""
    counts = (integers(candidate.shape.column(index.at)) or [])[:KEPT_ROWS]
    rises = {after - before for before, after in pairwise(counts) if after > before}
    return max(1, rises.pop()) if len(rises) == 1 else 1


def _without_figures(candidate: Candidate) -> Candidate:
    """The lines of a loop that say how far it is and give no result."""
    return replace(candidate, role="running", named=places_alone(candidate.named))


def _counts_items(candidate: Candidate) -> bool:
    """Whether its figures follow a count of what is evaluated, without a total: `Sample: 7, pixAcc: 0.4`."""
    if not candidate.metrics:
        return False
    first, *others = candidate.named
    counts = first.column is None and _ITEM.search(first.source) is not None
    return counts and not any(is_place(cell) for cell in others)


def _settled_and_others(
    candidate: Candidate, records: Sequence[Candidate], lines: Sequence[bytes]
) -> list[Candidate]:
    """The last line of each pass through all items, where the figures are those of all items so far.

    Figures of each item by itself give no evaluation; where the figures are words, the lines are left as they are.
    """
    index = candidate.named[0]
    size = _items(candidate, index, records, lines)
    kept = min(size, KEPT_ROWS)
    figures = numbers(candidate.shape.column(candidate.metrics[0].at)[:kept])
    counts_up = integers(candidate.shape.column(index.at)[:kept]) == [*range(1, kept + 1)]
    if size <= _MOST_SETS or not counts_up or not figures:
        return [candidate]
    others = _without_figures(candidate)
    if not _settles(figures):
        return [others]
    named = [replace(cell, only=str(size)) if cell is index else cell for cell in candidate.named]
    return [replace(candidate, named=tuple(named)), others]


def _settles(figures: Sequence[float]) -> bool:
    """Whether they change less and less, as those of all items so far do."""
    changes = [abs(after - before) for before, after in pairwise(filter(math.isfinite, figures))]
    half = len(changes) // 2
    return sum(changes[half:]) <= sum(changes[:half]) / 2


def _items(candidate: Candidate, index: Named, records: Sequence[Candidate], lines: Sequence[bytes]) -> int:
    """What each pass comes to, or what the line above the first one says where that is longer than what is kept."""
    *whole, last = _ends(candidate, index, records) or [0]
    if whole:
        return whole[0] if {*whole} == {whole[0]} and last <= whole[0] else 0
    above = announcement(lines, candidate.shape.lines[0])
    size = SIZE.search(above.encode()) if above and last == KEPT_ROWS else None
    return int(re.findall(rb"\d+", size[0])[0]) if size else 0


def _ends(candidate: Candidate, index: Named, records: Sequence[Candidate]) -> list[int]:
    """The last count of each pass; none where one has a single line, or records between its lines."""
    trained = _trained(records)
    passes = _passes(candidate, index)
    for first, end in passes:
        begin, last = candidate.shape.lines[first], candidate.shape.lines[end - 1]
        if end - first < 2 or bisect(trained, last) > bisect(trained, begin):
            return []
    counts = integers(candidate.shape.column(index.at)) or []
    return [counts[end - 1] for _, end in passes]


def _is_between(candidate: Candidate, index: Named, records: Sequence[Candidate]) -> bool:
    """Whether records stand between any two passes of a loop, and count within the epoch, too.

    If they did not, `val step 100`, `val step 200` could be evaluations of a training that prints nothing else.
    """
    trained = _trained(records)
    begins = [bisect(trained, candidate.shape.lines[first]) for first, _ in _passes(candidate, index)]
    return all(record.is_fine for record in records) and all(b > a for a, b in pairwise(begins))


def _trained(records: Sequence[Candidate]) -> list[int]:
    """The numbers of the lines that are records."""
    return sorted(number for record in records for number in record.shape.lines)


def _passes(candidate: Candidate, index: Named) -> list[tuple[int, int]]:
    """The rows of each pass of a loop: in each of them its count rises."""
    counts = (integers(candidate.shape.column(index.at)) or [])[:KEPT_ROWS]
    turns = [row for row, (before, count) in enumerate(pairwise(counts), start=1) if count <= before]
    return [*pairwise([0, *turns, len(counts)])] if counts else []


def _gives_result(line: Candidate, running: Candidate, passes: int) -> bool:
    """Whether it gives, about once a pass, one of the same measures without a count, or the loss as `PPL`."""
    if line.role not in ("eval", "mixed") or line.is_fine:
        return False
    given = {column for column in line.columns if line.role == "eval" or is_evaluation(column)}
    often = 0.5 * passes <= line.shape.count <= 1.5 * passes
    loses = "val_loss" in running.columns and any(_AS_LOSS.search(cell.source) for cell in line.metrics)
    return often and (loses or not given.isdisjoint(cell.column for cell in running.metrics))


def _is_mean(line: Candidate, running: Candidate) -> bool:
    """Whether it gives, for a whole epoch, the averages or a summary of what the other gives for its batches."""
    if not running.is_fine or line.is_fine or "epoch" not in set(running.columns).intersection(line.columns):
        return False
    averages = [cell for cell in line.metrics if _AVERAGE.search(cell.source)]
    averages = averages or [cell for cell in line.metrics if _SUMS_UP.search(line.shape.spoken)]
    measures = {_last_word(cell) for cell in averages}
    shared = sum(_last_word(cell) in measures for cell in running.metrics)
    return 1 < shared >= len(running.metrics) / 2 and line.shape.count <= running.shape.count


def _last_word(cell: Named) -> str:
    """`loss` of `val loss_avg` and of `avg loss`."""
    return _AVERAGE.sub("", cell.source).rpartition(" ")[2]


def _beginnings(candidate: Candidate) -> Iterator[int]:
    """The rows where the count begins anew."""
    counts = (integers(candidate.shape.column(candidate.place.at)) if candidate.place else None) or []
    yield 0
    yield from (row for row, (before, count) in enumerate(pairwise(counts), start=1) if count < before)
