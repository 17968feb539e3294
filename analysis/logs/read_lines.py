"""Lines that a pattern reads -> what they print and the pattern leaves.

Two values of a measure of which one was read, and losses, if no record has one. Some lines are kept, to look for
figures that the reading has nowhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from gputel.analysis.logs import line_figures
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES, PLACES
from gputel.analysis.logs.lines import Chunk, line_at
from gputel.analysis.logs.names import EVALUATING
from gputel.analysis.logs.patterns import MEASURES, EngineResult, Hits, Pattern, lazy_regex

SAMPLE = 50  # lines of a pattern that are looked at
KEPT = 1_000  # lines of a pattern whose figures are kept
LEAST = 3
FOREIGN = "损失 損失 ロス 손실".split()
_WORDS = rb"loss(?:es)?|nll|perplexity|" + "|".join(FOREIGN).encode()
PRINTED_LOSS = lazy_regex(
    rb"(?i)(?P<name>[\w./-]{0,40}(?:%b)(?![a-z]|[ _.-]?(?:scal|weight|coe|factor|clip|func))[\w./]{0,20})"
    rb"['\"]?[ )\]]{0,2}(?: ?(?:[:=]|is|->)|[ \t])\s{0,8}[-+(\[]{0,2}\d+\.\d"
    rb"|(?<![\w.])\d+\.\d+ (?P<behind>(?:[a-z]\w{0,20}[ _])?loss)(?=\W{0,2}$)" % _WORDS
)
# a measure of a record, to find one that its line prints twice
_MEASURE = lazy_regex(
    rb"(?i)(?<![\w/.-])(?P<name>\w*loss|lr|m?acc(?:uracy)?|auc|f1|m?iou|bleu|psnr|dice)['\"]?(?: ?[:=] ?| )"
    rb"(?P<value>-?\d+\.\d+(?:e[-+]?\d+)?)"
)
# scores at several ranks, or of several classes: `recall=[0.08, 0.16]`
_LISTED = lazy_regex(
    rb"(?i)(?<![\w/.-])(?P<name>\w*(?:recall|precision|hit|ndcg|mrr|map|dice|iou))['\"]?(?: ?[:=] ?| )"
    rb"\[(?P<values>\d+\.\d+(?:, *\d+\.\d+)+)\]"
)
# what tells two values of a measure apart: redraws, which print the time left, and sets
_TOLD_APART = lazy_regex(rb"(?i)(?<![a-z])(?:eta|%b)(?![a-z])" % EVALUATING.encode())

_RECORDS = ("train", "part")  # without bars, whose redraws are partial
_TIMES = {*PLACES, "dt_ms"}
_ASIDE = {*PLACES, *CIRCUMSTANCES}


class UnreadLine(NamedTuple):
    """A line, its number, and between which two records it stands."""

    between: int
    number: int
    line: bytes


class Taken(NamedTuple):
    """A line that a pattern reads, and its measures by their printed names, but for whole numbers."""

    number: int
    line: bytes
    figures: dict[str, float]


class ReadLines:
    """Looks at the first lines of each pattern that reads measures."""

    def __init__(self) -> None:
        self.twice: list[tuple[str, int]] = []  # measures that a line gives twice, one of them read; the line
        self._taken = defaultdict[Pattern, list[Taken]](list)
        self._loses = False  # whether any record gave a loss
        self._given = set[str]()  # what records gave, while none gave a loss
        self._records = 0  # records that were looked at, while none gave a loss
        self._passed = 0  # of these, lines that print a loss which was not read
        self._looked: Counter[Pattern] = Counter()

    def see(self, reading: EngineResult, chunk: Chunk) -> None:
        """Looks at lines that were read."""
        for hits in reading.hits:
            if hits.pattern.role in MEASURES:
                self._look(hits, chunk)
                self._take(hits, chunk)
                if not self._loses:
                    self._look_for_losses(hits, chunk)

    @property
    def are_passed_over(self) -> bool:
        """Whether the records print losses, and none was read: they are of another format."""
        return not self._loses and self._passed >= max(LEAST, 0.5 * self._records)

    @property
    def are_timed_alone(self) -> bool:
        """Whether all that records give are places and times."""
        return not self._loses and bool(self._given) and self._given <= _TIMES

    def kinds(self, looped: Collection[int]) -> list[list[UnreadLine]]:
        """Some lines that were read, those of one shape together, without those that are `looped`."""
        bars, others = list[UnreadLine](), list[UnreadLine]()
        for pattern, taken in self._taken.items():
            lines = bars if pattern.role == "bar" else others
            lines += [UnreadLine(n, n, line) for n, line, _ in taken[:SAMPLE] if n not in looped]
        kinds = [lines for lines in line_figures.alike(bars) if len(lines) >= LEAST]  # a redraw is no kind
        return [*line_figures.alike(others), *kinds]

    def taken(self, looped: Collection[int]) -> tuple[Taken, ...]:
        """Lines of records and evaluations, each of which gave a row, added to one or repeats one."""
        lines = (line for taken in self._taken.values() for line in taken)
        return tuple(line for line in lines if line.number not in looped)

    def _take(self, hits: Hits, chunk: Chunk) -> None:
        left = KEPT - len(self._taken[hits.pattern])
        measures = {what.source: each for what, each in hits.values.items() if what.column not in _ASIDE}
        measures = {name: each for name, each in measures.items() if not line_figures.ASIDE.search(name)}
        if left <= 0 or not measures or hits.pattern.role not in (*_RECORDS, "bar", "eval"):
            return
        numbers = chunk.number(hits.lines[:left]).tolist()
        for row, (number, line) in enumerate(zip(numbers, _lines(hits, chunk.data, left), strict=True)):
            figures = {name: each.numbers.item(row) for name, each in measures.items() if each.present[row]}
            fractions = {name: value for name, value in figures.items() if 0 < value % 1 < 1}
            self._taken[hits.pattern].append(Taken(number, line, fractions))

    def _look_for_losses(self, hits: Hits, chunk: Chunk) -> None:
        self._given |= {what.column for what in hits.values}
        self._loses = any("loss" in what.column.lower() for what in hits.values)
        for line in () if self._loses else _lines(hits, chunk.data):
            self._records += 1
            self._passed += PRINTED_LOSS.search(line) is not None

    def _look(self, hits: Hits, chunk: Chunk) -> None:
        """Looks for measures that a record gives twice."""
        left = SAMPLE - self._looked[hits.pattern]
        if left <= 0 or hits.pattern.role not in _RECORDS:
            return
        self._looked[hits.pattern] += len(hits.lines)
        for row, line in enumerate(_lines(hits, chunk.data, left)):
            read = {values.numbers.item(row) for values in hits.values.values()}
            for name, printed in _measures(line):
                if 0 < len(read.intersection(printed)) < len(printed):
                    self.twice.append((name, int(chunk.number(hits.lines[row : row + 1])[0])))


def _lines(hits: Hits, data: bytes, most: int = SAMPLE) -> Iterator[bytes]:
    for start in hits.starts[:most].tolist():
        yield line_at(data, start)


def _measures(line: bytes) -> Iterator[tuple[str, set[float]]]:
    """The measures of a line, each with all of its values."""
    printed: defaultdict[bytes, set[float]] = defaultdict(set)
    for found in () if _TOLD_APART.search(line) else _MEASURE.finditer(line):
        printed[found["name"].lower()].add(float(found["value"]))
    for found in _LISTED.finditer(line):
        printed[found["name"].lower()].update(map(float, found["values"].split(b",")))
    for name, values in printed.items():
        yield name.decode(errors="replace"), values
