"""Loops that are no training: a line announces an evaluation, and the lines below it count to another total.

`12/46` beside records of `12/180` is a loop of its own. Where its lines have a shape of their own, they are left
out; where they look like the records, the line that announces them becomes a pattern, so that they are told apart
by their total while the log is read. `eval 12/46 loss 1.2` announces itself: its last line is the result, where no
other line gives one.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.drafts import TOTALS
from gputel.analysis.logs.infer.candidates import Candidate, as_evaluation
from gputel.analysis.logs.infer.line_tables import LineTable
from gputel.analysis.logs.infer.losses import numbers
from gputel.analysis.logs.infer.places import Named, is_place
from gputel.analysis.logs.infer.shapes import KEPT_ROWS, cut, masked
from gputel.analysis.logs.infer.slots import integers
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.line_kinds import STEPS
from gputel.analysis.logs.names import legal
from gputel.analysis.logs.patterns import lazy_regex

_MOST_SETS = 5  # of data that one evaluation may go through, with a line for each
_PASSES = 2  # of a loop, from which on it is known as one
_ABOVE = 4  # lines between the announcement and the first line of the loop
_ANNOUNCES = lazy_regex(rb"(?i)(?<![a-z])(?:eval\w*|val|valid\w*|test\w*|infer\w*|dev)(?![a-z])")
_FIGURE = lazy_regex(rb"[=:] *\d|\d\.\d")  # an evaluation that gives one is over
# whole numbers that an announcement may give
_SIZE = lazy_regex(
    rb"(?i)(?:samples?|images?|examples?|batches|sentences|size|epoch|step|iter(?:ation)?)\s*[=:]\s*\d+(?![\d.])"
)
_AVERAGE = lazy_regex(r"(?i)[ _](?:avg|mean|average)$|^(?:avg|mean|average)[ _]")
_STAMP = lazy_regex(rb"^(?:\[[\d.:/| -]+\]|[\d/-]*\d:\d\d[\d.:,]*(?=\s))\s*")  # one of an unknown form
_SUMS_UP = lazy_regex(rb"(?i)(?<![a-z])(?:summary|overall)(?![a-z])")
_EPOCH = lazy_regex(r"(?i)\bepoch\W*$")
_SET = lazy_regex(r"(?i)^(?:vali?|valid|validation|eval|evaluation|test|dev)[ _]")
_TRAIN = lazy_regex(r"(?i)^train(?:ing)?[ _]")
_TRAINS = lazy_regex(rb"(?i)\W*(?:start\w* |begin\w* )?(?:train\w*|epoch)\b")  # what stands above it is over
_ALONE = lazy_regex(rb"[\d/:.-]*\s*[A-Za-z][\w ]*[:=]\s*[-+\d.e]+%?\s*")  # one figure, behind a stamp
_BETTER = lazy_regex(rb"(?i)(?<![a-z])(?:better|best|improv\w+|sav(?:ed|ing))(?![a-z])")
_ITEM = lazy_regex(
    r"(?i)(?<![a-z])(?:sample|image|img|frame|example|item|batch|iter(?:ation)?|idx|index)s?\W*$"
)
_LONGEST = 200
_LETTERS = lazy_regex(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*")


def total(candidate: Candidate) -> int | None:
    """The total that most lines of the shape count to."""
    totals = _totals(candidate)
    return Counter(totals).most_common(1)[0][0] if totals else None


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
    totals = {total(c) for c in counting if c not in announced}
    loops = [c for c in announced if totals - {total(c)} or (totals and total(c) is None)]
    if any(c.role == "eval" for c in candidates):
        training = [c for c in candidates if c.role in ("train", "mixed") and c.loses]
        candidates = [part for c in candidates for part in _last_and_others(c, training, candidates, lines)]
    evals = [c for c in candidates if c.role == "eval"]
    loops += [c for c in evals if _is_running(c, candidates, lines)]
    batches = [c for c in evals if any(_is_mean(e, c) for e in evals)]
    return [_without_figures(c) if c in batches else c for c in candidates if c not in loops]


def _is_announced(candidate: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether a line above says that an evaluation begins, nearly each time that the count begins anew.

    Lines that count to no total must always be announced, and more than once.
    """
    begins = [candidate.shape.lines[row] for row in _beginnings(candidate)]
    announced = sum(_announcement(lines, number) is not None for number in begins)
    return announced >= 0.5 * len(begins) if total(candidate) is not None else announced == len(begins) > 1


def _is_result(candidate: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether every one of its lines stands below a line that announces an evaluation, and none says a place."""
    announced = (_announcement(lines, number) is not None for number in candidate.shape.lines)
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
    trains = any("train" in cell.source.lower() for cell in candidate.metrics) or "lr" in candidate.columns
    return not trains


def _scored(candidate: Candidate, lines: Sequence[bytes]) -> Candidate:
    """An evaluation of a lone figure below `Test epoch: 5`, each time, with nothing but others in between."""
    metrics = candidate.metrics
    if candidate.role != "other" or candidate.place or len(metrics) != 1 or candidate.shape.count < 2:
        return candidate
    fractions = all(b"." in value for value in candidate.shape.column(metrics[0].at))
    above = [_announcement_of_block(lines, number) for number in candidate.shape.lines]
    sets = {_SET.match(text + " ") for text in above if text}
    if not fractions or None in above or None in sets or not _ALONE.fullmatch(candidate.shape.example):
        return candidate
    held_out = next(match for match in sets if match)
    column = legal(f"{held_out.group().strip(' _').lower()}_{metrics[0].source}")
    named = [replace(n, column=column) if n is metrics[0] else n for n in candidate.named]
    return replace(candidate, role="eval", named=tuple(named), is_result=True)


def _mirrors_training(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it is `Valid acc: 0.8 | loss: 2.5` beside `Train acc: 0.9 | loss: 2.0`, of one set throughout.

    So is a line with the words of the records whose loss is of the set, though the rate behind it is of none.
    """
    if candidate.role != "mixed":
        return False
    names = [_SET.sub("", cell.source.lower()) for cell in candidate.metrics]
    own = [_SET.search(cell.source) is not None for cell in candidate.metrics]
    alike = [other for other in candidates if other.role == "train" and _bare_names(other) == names]
    says_set = any(_TRAIN.match(other.metrics[0].source.lower()) for other in alike)
    return (own[0] and not any(own[1:]) and says_set) or (not candidate.loses and any(o.loses for o in alike))


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
    return all(_announcement(lines, candidate.shape.lines[row]) is not None for row in begins)


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
    if candidate.role != "eval":
        return [candidate]
    if _counts_items(candidate):
        return _settled_and_others(candidate, records, lines)
    size, index = total(candidate), next((c for c in candidate.named if c.column in STEPS), None)
    if index is None or size in {None, *map(total, records)}:
        return [candidate]
    ends = _ends(candidate, index, records)
    if len(ends) < _PASSES or (size or 0) <= _MOST_SETS:
        return [candidate]
    others = _without_figures(candidate)
    if any(_gives_result(other, candidate, len(ends)) for other in candidates):
        return [others]
    if len({*ends}) > 1 or ends[0] < (size or 0) - 1:
        return [candidate]
    named = [
        replace(cell, column=None, only=str(ends[0]) if cell is index else "")
        if is_place(cell) and cell.column != "epoch"
        else cell
        for cell in candidate.named
    ]
    return [replace(candidate, named=tuple(named)), others]


def _without_figures(candidate: Candidate) -> Candidate:
    """The lines of a loop that say how far it is and give no result."""
    named = [replace(cell, column=cell.column if is_place(cell) else None) for cell in candidate.named]
    return replace(candidate, role="running", named=tuple(named))


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
    above = _announcement(lines, candidate.shape.lines[0])
    size = _SIZE.search(above.encode()) if above and last == KEPT_ROWS else None
    return int(re.findall(rb"\d+", size[0])[0]) if size else 0


def _ends(candidate: Candidate, index: Named, records: Sequence[Candidate]) -> list[int]:
    """The last count of each pass; none where one has a single line, or records between its lines."""
    shape = candidate.shape
    trained = sorted(number for record in records for number in record.shape.lines)
    counts = (integers(shape.column(index.at)) or [])[:KEPT_ROWS]
    turns = [row for row, (before, count) in enumerate(pairwise(counts), start=1) if count <= before]
    passes = [*pairwise([0, *turns, len(counts)])] if counts else []
    for first, end in passes:
        begin, last = shape.lines[first], shape.lines[end - 1]
        if end - first < 2 or bisect(trained, last) > bisect(trained, begin):
            return []
    return [counts[end - 1] for _, end in passes]


def _gives_result(line: Candidate, running: Candidate, passes: int) -> bool:
    """Whether it gives, about once for each pass, one of the same measures without a count."""
    if line.role != "eval" or line.is_fine or not 0.5 * passes <= line.shape.count <= 1.5 * passes:
        return False
    return not {*line.columns}.isdisjoint(cell.column for cell in running.metrics)


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


def announcements(
    main: Candidate, lines: Sequence[bytes], opening: Sequence[Candidate] = ()
) -> list[LineTable]:
    """A pattern for each line that announces a loop whose lines look like the records.

    `opening` are the lines that only say where the records below them stand.
    """
    totals = _totals(main)
    usual = _trained_total(main, totals, lines)
    texts: dict[str, None] = {} if totals else _announced_apart(main, lines, opening)
    for row in range(len(totals)):
        if totals[row] != usual and (totals[row - 1] == usual or row == 0):
            text = _announcement(lines, main.shape.lines[row])
            if text is not None:
                texts[re.sub(r"\d+", "0", text)] = None
    return [table for at, text in enumerate(texts) for table in _pattern(text, at)]


def _trained_total(main: Candidate, totals: Sequence[int], lines: Sequence[bytes]) -> int | None:
    """The total that most records count to, but for those of loops that a line above announces."""
    begins = [row for row in range(len(totals)) if row == 0 or totals[row] != totals[row - 1]]
    announced = {row: _announcement(lines, main.shape.lines[row]) is not None for row in begins}
    loops = {totals[row] for row in begins} - {totals[row] for row in begins if not announced[row]}
    trained = Counter(each for each in totals if each not in loops) or Counter(totals)
    return trained.most_common(1)[0][0] if trained else None


def _announced_apart(
    main: Candidate, lines: Sequence[bytes], opening: Sequence[Candidate]
) -> dict[str, None]:
    """The announcements above records that count to no total; above all others a line says where they stand."""
    begins = {number for line in opening for number in line.shape.lines}
    if main.place or not begins:
        return {}
    texts: dict[str, None] = {}
    for before, number in pairwise((-1, *main.shape.lines)):
        above = max(begins.intersection(range(number - _ABOVE, number)), default=None)
        if above is not None and above > before:
            continue  # the first figures below such a line are its own
        first = max(0, number - _ABOVE) if above is None else above + 1
        text = _announcement(lines[first:number], number - first)
        if text is not None:
            texts[re.sub(r"\d+", "0", text)] = None
        elif above is None:
            return {}
    return texts


def _totals(candidate: Candidate) -> list[int]:
    at = next((cell.at for cell in candidate.named if cell.column in TOTALS), None)
    return [] if at is None else integers(candidate.shape.column(at)) or []


def _beginnings(candidate: Candidate) -> Iterator[int]:
    """The rows where the count begins anew."""
    counts = (integers(candidate.shape.column(candidate.place.at)) if candidate.place else None) or []
    yield 0
    yield from (row for row, (before, count) in enumerate(pairwise(counts), start=1) if count < before)


def _announcement(lines: Sequence[bytes], number: int) -> str | None:
    """The line above that says that an evaluation begins, and measures nothing itself."""
    for stamped in lines[max(0, number - _ABOVE) : number][::-1]:
        line = _STAMP.sub(b"", stamped)
        if _FIGURE.search(_SIZE.sub(b"", line)) or len(line) > _LONGEST:
            return None
        if _ANNOUNCES.search(english(line)):
            return line.decode(errors="replace").strip()
        if _TRAINS.match(line):
            return None
    return None


def _announcement_of_block(lines: Sequence[bytes], number: int) -> str | None:
    """The line above a block of lone figures that says that an evaluation begins."""
    first = number
    while first and number - first <= _ABOVE and _ALONE.fullmatch(lines[first - 1]):
        first -= 1
    heads = range(max(0, first - 1), number)  # `Test epoch: 5` looks like a figure itself
    found = (_announcement(lines[head : head + 1], 1) for head in heads)
    return next((text for text in found if text is not None), None)


def _pattern(text: str, at: int) -> Iterator[LineTable]:
    needle = max(_LETTERS.findall(text), key=len, default="")
    if needle and "�" not in text:
        first, *parts = [
            re.escape(part).replace("<", r"\x3c").replace(r"\-", "-") for part in text.split("0")
        ]
        epoch = "<epoch>" if _EPOCH.search(first) else r"\d+"
        line = first + (epoch + r"\d+".join(parts) if parts else "")
        name = "evaluates" if at == 0 else f"evaluates_{at + 1}"
        yield LineTable(name, "evaluates", line.replace(r"\ ", " "), needle)
