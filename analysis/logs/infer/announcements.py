"""Lines that announce an evaluation: `Validation`, `Test epoch: 5`; what the lines of its loop count to.

Where the lines below look like the records, a pattern for the announcement goes into the format, and the total
tells them apart while the log is read.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.evaluation_loops import TOTALS
from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import integers
from gputel.analysis.logs.infer.line_tables import LineTable, compile_words, without_numbers
from gputel.analysis.logs.infer.named import Named
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.patterns import lazy_regex

_ABOVE = 4  # lines between the announcement and the first line of the loop
_ANNOUNCES = lazy_regex(rb"(?i)(?<![a-z])(?:eval\w*|val|valid\w*|test\w*|infer\w*|dev)(?![a-z])")
# of both sets: `Training | Validation` heads a table, and `train samples: 450, val samples: 50` are sizes
_BOTH_SETS = lazy_regex(rb"(?i)(?<![a-z])train(?:ing)?(?:\s*(?:\||\t|\s\s)|(?: \w+)? ?[=:] ?\d)")
_FIGURE = lazy_regex(rb"[=:] *\d|\d\.\d")  # an evaluation that gives one is over
# whole numbers that an announcement may give
SIZE = lazy_regex(
    rb"(?i)(?:samples?|images?|examples?|batches|sentences|size|epoch|step|iter(?:ation)?)\s*[=:]\s*\d+(?![\d.])"
)
_STAMP = lazy_regex(rb"^(?:\[[\d.:/| -]+\]|[\d/-]*\d:\d\d[\d.:,]*(?=\s))\s*")  # one of an unknown form
_TRAINS = lazy_regex(rb"(?i)\W*(?:start\w* |begin\w* )?(?:train\w*|epoch)\b")  # what stands above it is over
ALONE = lazy_regex(rb"[\d/:.-]*\s*[A-Za-z][\w ]*[:=]\s*[-+\d.e]+%?\s*")  # one figure, behind a stamp
_LONGEST = 200
_FINE = frozenset({"step", "iteration"})


def says_where(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether it says where the figures below it were measured, `Validation at step 500`, as the records count.

    Its step is that of the last record above it, of the next one, or one in between.
    """
    records = main if main.place else header
    if line.role != "place" or not (line.place and records and records.place) or line.place.guessed:
        return False
    column = line.place.column
    counts = next((cell for cell in records.named if cell.column == column), records.place)
    alike = counts.column == column or {column, counts.column} <= _FINE
    steps, named = _within_epochs(records, counts, line, line.place)
    if not (alike and steps and named and _ANNOUNCES.search(line.shape.spoken)):
        return False
    above = [bisect(records.shape.lines, number) for number in line.shape.lines]
    near = [steps[max(0, at - 1) : at + 1] for at in above]
    fits = [
        (min(around) <= step or at == 0) and (step <= max(around) or at == len(steps))
        for step, around, at in zip(named, near, above, strict=True)
    ]
    return sum(fits) >= 0.9 * len(fits)


def _within_epochs(
    records: Candidate, counts: Named, line: Candidate, place: Named
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Where the records and the lines stand: the epoch, if both name it, and the count within it."""
    above, here = ([cell for cell in each.named if cell.column == "epoch"] for each in (records, line))
    both = bool(above and here) and place.column != "epoch"
    return _places(records, [*above[:both], counts]), _places(line, [*here[:both], place])


def _places(line: Candidate, cells: Sequence[Named]) -> list[tuple[int, ...]]:
    return [*zip(*(integers(line.shape.column(cell.at)) or () for cell in cells), strict=False)]


def total(candidate: Candidate) -> int | None:
    """The total that most lines of the shape count to."""
    totals = totals_of(candidate)
    return Counter(totals).most_common(1)[0][0] if totals else None


def patterns(
    main: Candidate,
    lines: Sequence[bytes],
    opening: Sequence[Candidate] = (),
    bars: Sequence[Candidate] = (),
) -> list[LineTable]:
    """A pattern for each line that announces a loop whose lines look like the records.

    `opening` are the lines that only say where the records below them stand. A bar may end in another shape.
    """
    counted = _counted([main, *(bar for bar in bars if bar.shape is not main.shape)])
    trained = _trained_totals(counted, lines)
    usual = trained.most_common(1)[0][0] if trained else None
    texts: dict[str, None] = {} if counted else _announced_apart(main, lines, opening)
    for (_, before), (number, size) in pairwise([(-1, usual), *counted]):
        if size != usual and before == usual:
            text = announcement(lines, number)
            if text is not None:
                texts[without_numbers(text)] = None
    only = usual if len(trained) == 1 else None
    names = ("evaluates", *(f"evaluates_{at}" for at in range(2, len(texts) + 1)))
    tables = (compile_words(name, "evaluates", text) for name, text in zip(names, texts, strict=False))
    return [replace(table, total=only) for table in tables if table]


def _counted(records: Sequence[Candidate]) -> list[tuple[int, int]]:
    """The number of each line of the records, and what it counts to."""
    return sorted(
        numbered for line in records for numbered in zip(line.shape.lines, totals_of(line), strict=False)
    )


def _trained_totals(counted: Sequence[tuple[int, int]], lines: Sequence[bytes]) -> Counter[int]:
    """The totals that records count to, but for those of loops that a line above announces."""
    begins = [line for before, line in pairwise([(-1, -1), *counted]) if line[1] != before[1]]
    trained = {size for number, size in begins if announcement(lines, number) is None}
    loops = {size for _, size in begins} - trained
    sizes = [size for _, size in counted]
    return Counter(size for size in sizes if size not in loops) or Counter(sizes)


def _announced_apart(
    main: Candidate, lines: Sequence[bytes], opening: Sequence[Candidate]
) -> dict[str, None]:
    """The announcements above records that count to no total; above all others a line says where they stand.

    What stands above all of them tells none apart.
    """
    begins = {number for line in opening for number in line.shape.lines}
    if main.place or not begins:
        return {}
    texts: dict[str, None] = {}
    trains = False
    for before, number in pairwise((-1, *main.shape.lines)):
        above = max(begins.intersection(range(number - _ABOVE, number)), default=None)
        if above is not None and above > before:
            trains = True  # the first figures below such a line are its own
            continue
        first = max(0, number - _ABOVE) if above is None else above + 1
        text = announcement(lines[first:number], number - first)
        if text is not None:
            texts[without_numbers(text)] = None
        elif above is None:
            return {}
        else:
            trains = True
    return texts if trains else {}


def totals_of(candidate: Candidate) -> list[int]:
    at = next((cell.at for cell in candidate.named if cell.column in TOTALS), None)
    return [] if at is None else integers(candidate.shape.column(at)) or []


def announcement(lines: Sequence[bytes], number: int) -> str | None:
    """The line above that says that an evaluation begins, and measures nothing itself."""
    for stamped in lines[max(0, number - _ABOVE) : number][::-1]:
        line = _STAMP.sub(b"", stamped)
        if _FIGURE.search(SIZE.sub(b"", line)) or len(line) > _LONGEST or _BOTH_SETS.search(line):
            return None
        if _ANNOUNCES.search(english(line)):
            return line.decode(errors="replace").strip()
        if _TRAINS.match(line):
            return None
    return None


def announcement_of_block(lines: Sequence[bytes], number: int) -> str | None:
    """The line above a block of lone figures that says that an evaluation begins."""
    first = number
    while first and number - first <= _ABOVE and ALONE.fullmatch(lines[first - 1]):
        first -= 1
    heads = range(max(0, first - 1), number)  # `Test epoch: 5` looks like a figure itself
    found = (announcement(lines[head : head + 1], 1) for head in heads)
    return next((text for text in found if text is not None), None)
