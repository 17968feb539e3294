"""Lines that no pattern reads -> what they print: losses, lines of one shape that recur, epochs.

Records that came without any loss are looked at as well. Lines about the best model so far, averages and weights of
losses do not count: they repeat what is read elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import line_figures
from gputel.analysis.logs.line_kinds import PLACES
from gputel.analysis.logs.lines import Chunk, line_at
from gputel.analysis.logs.names import EVALUATING
from gputel.analysis.logs.patterns import MEASURES, EngineResult, Hits, Pattern, lazy_regex
from gputel.analysis.logs.signs import shortened

Integers = npt.NDArray[np.int64]
MOST = 8 << 20  # bytes that are looked at
SAMPLE = 50  # records of a pattern in one chunk that are looked at
LEAST = 3
LONGEST, MOST_LINES = 600, 10_000  # of the lines that are searched for shapes
MOST_SHAPES, MOST_KINDS, MOST_ALIKE = 500, 50, 100
_FOREIGN = "损失 損失 ロス 손실".split()
_NEEDLES = (b"loss", b"nll", b"perplexity", *(word.encode() for word in _FOREIGN))
_WORDS = rb"loss(?:es)?|nll|perplexity|" + "|".join(_FOREIGN).encode()
_LOSS = lazy_regex(
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
_AGAIN = (
    rb"best|improv|sav(?:ed|ing)|minim|maxim|lowest|highest|early stop|average|\bmean\b|\bavg|reduc|\bload"
    rb"|epoch \d+ (?:done|finished|summary)"
)
_REPEATS = lazy_regex(rb"(?i)" + _AGAIN)
_SUMS = lazy_regex(rb"(?i)\b(?:min|max|std|total|overall|final|higher|lower|macro|micro)\b|weighted")
_TIMES = {*PLACES, "dt_ms"}
_NO_FIGURES = lazy_regex(rb"(?i)%b|tensor\(|class|rewritten" % _AGAIN)
_COUNTS = lazy_regex(rb"(?i)(?:epoch|episode|generation|step|iter(?:ation)?|update|round)\W{0,4}(\d+)")
_EPOCH = lazy_regex(
    rb"(?i)(?<![a-z])(?:epoch|epoca|epoche)(?: (?:number|no\.?|num|#))?['\"]?[\]\s:=#\[(-]{0,4}"
    rb"0*(\d{1,6})(?![\d.]|e[-+]?\d)"
)


class UnreadLine(NamedTuple):
    """A line, its number, and between which two records it stands."""

    between: int
    number: int
    line: bytes


class Alike(NamedTuple):
    """Lines that differ in numbers alone: the first of them, how many there are, and figures of some of them."""

    text: str
    lines: int
    line: int
    last: int
    figures: Mapping[str, frozenset[float]]  # by their names

    @property
    def changes(self) -> bool:
        """Whether there are several values."""
        return len(frozenset[float]().union(*self.figures.values())) >= LEAST


@dataclass(frozen=True)
class Unread:
    """What lines print that no pattern has read."""

    loss: tuple[str, int, int] | None = None  # the one printed most often, how often, and its first line
    alike: tuple[Alike, ...] = ()  # lines with figures, in the order of the file
    recurring: tuple[Alike, ...] = ()  # those of them that the training or an evaluation may have printed
    epochs: tuple[int, ...] = ()  # the numbers that lines name
    twice: tuple[str, int, int] | None = (
        None  # a measure that records print twice, how often, and the first line
    )


class UnreadLines:
    """Keeps lines that no pattern has read.

    They are looked at when the answer is asked for: a log that is read again with an inferred format has others.
    """

    def __init__(self) -> None:
        self._unread: list[tuple[bytes, Integers]] = []  # lines between two records, and their numbers
        self._kept = 0  # bytes
        self._loses = False  # whether any record gave a loss
        self._given = set[str]()  # what records gave, while none gave a loss
        self._records = 0  # records that were looked at
        self._passed = 0  # of these, lines that print a loss which was not read
        self._twice: list[
            tuple[str, int]
        ] = []  # measures of which records print two values, and one was read
        self._looked: Counter[Pattern] = Counter()  # records that were searched for such a measure

    def add(self, region: bytes, numbers: Integers) -> None:
        """Keeps lines that no pattern has read, and their numbers."""
        if region and self._kept <= MOST:
            self._kept += len(region)
            self._unread.append((region, numbers))

    def see(self, reading: EngineResult, chunk: Chunk) -> None:
        """Looks at the records that were read."""
        for hits in reading.hits:
            if hits.pattern.role not in MEASURES:
                continue
            self._look_twice(hits, chunk)
            if self._loses:
                continue
            self._given |= {what.column for what in hits.values}
            if any("loss" in what.column.lower() for what in hits.values):
                self._loses = True
                continue
            for line in _lines(hits, chunk.data):
                self._records += 1
                self._passed += _LOSS.search(line) is not None

    def _look_twice(self, hits: Hits, chunk: Chunk) -> None:
        """Looks for measures of which a line prints two values, and one was read."""
        left = SAMPLE - self._looked[hits.pattern]
        if hits.pattern.role not in ("train", "part") or left <= 0:
            return
        for row, line in enumerate(_lines(hits, chunk.data, left)):
            self._looked[hits.pattern] += 1
            read = {values.numbers.item(row) for values in hits.values.values()}
            for name, printed in _measures(line):
                if 0 < len(read.intersection(printed)) < len(printed):
                    self._twice.append((name, int(chunk.number(hits.lines[row : row + 1])[0])))

    @property
    def are_passed_over(self) -> bool:
        """Whether the records print losses, and none was read: they are of another format."""
        return not self._loses and self._passed >= max(LEAST, 0.5 * self._records)

    def found(self) -> Unread:
        """What they print; of losses the one that was left unread most often."""
        twice = (self._twice[0][0], len(self._twice), self._twice[0][1]) if self._twice else None
        # Sums are the only figures of the model if all that records give are places and times.
        sums = not self._loses and bool(self._given) and self._given <= _TIMES
        alike = ((lines, _alike(lines, sums=sums)) for lines in self._kinds())
        kinds = [*islice(((lines, each) for lines, each in alike if each.figures), MOST_KINDS)]
        return Unread(
            self._most_often(),
            tuple(sorted((alike for _, alike in kinds), key=lambda alike: alike.line)),
            tuple(alike for lines, alike in kinds if _recur(lines, alike)),
            tuple(sorted({*self._epochs()})),
            twice,
        )

    def _kinds(self) -> list[list[UnreadLine]]:
        """Lines with figures, those of one shape together, the most frequent first."""
        kinds: defaultdict[bytes, list[UnreadLine]] = defaultdict(list)
        for unread in self._some():
            kinds[line_figures.shape(unread.line)].append(unread)
        return sorted(kinds.values(), key=len, reverse=True)[:MOST_SHAPES]

    def _some(self) -> Iterator[UnreadLine]:
        """The first lines with a decimal point."""
        left = MOST_LINES
        for between, (region, numbers) in enumerate(self._unread):
            for at, line in enumerate(region.split(b"\n") if b"." in region else ()):
                if b"." in line and len(line) <= LONGEST:
                    yield UnreadLine(between, int(numbers[at]), line)
                    left -= 1
                if left <= 0:
                    return

    def _epochs(self) -> Iterator[int]:
        """The epochs that lines name."""
        for region, _ in self._unread:
            for _, line in _speaking(region, (b"poch",)):
                yield from map(int, _EPOCH.findall(line))

    def _most_often(self) -> tuple[str, int, int] | None:
        names: Counter[bytes] = Counter()
        first: dict[bytes, int] = {}
        for region, numbers in self._unread:
            for begin, line in _speaking(region, _NEEDLES):
                if _REPEATS.search(_english(line)):
                    continue
                for found in _LOSS.finditer(line):
                    name = found["name"] or found["behind"]
                    names[name] += 1
                    if name not in first:
                        first[name] = int(numbers[region.count(b"\n", 0, begin)])
        if not names:
            return None
        (name, count), *_ = names.most_common(1)
        return name.decode(errors="replace"), count, first[name]


def _alike(lines: Sequence[UnreadLine], *, sums: bool) -> Alike:
    first = lines[0]
    return Alike(
        shortened(first.line), len(lines), first.number, lines[-1].number, _figures(lines, sums=sums)
    )


def _recur(lines: Sequence[UnreadLine], alike: Alike) -> bool:
    """Whether they stand in several places between records, or count, and their figures change."""
    if _NO_FIGURES.search(_english(lines[0].line)):
        return False
    several = len({unread.between for unread in lines}) >= LEAST
    return alike.changes and (several or _count(lines))


def _count(lines: Sequence[UnreadLine]) -> bool:
    """Whether each names a later step than the one above."""
    steps = [int(found[1]) for unread in lines if (found := _COUNTS.search(unread.line))]
    return LEAST <= len(steps) == len(lines) and all(a < b for a, b in pairwise(steps))


def _figures(lines: Sequence[UnreadLine], *, sums: bool) -> dict[str, frozenset[float]]:
    """The figures of lines of one shape, by their names; with `sums`, also those over classes or steps."""
    named = line_figures.figures([unread.line for unread in lines[:MOST_ALIKE]])
    return {name: values for name, values in named.items() if sums or not _SUMS.search(name.encode())}


def _english(line: bytes) -> bytes:
    if line.isascii():
        return line
    from gputel.analysis.logs.languages import english

    return english(line)


def _speaking(region: bytes, needles: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines with one of the words, and where each begins: searching for words is fast, and regexes are not."""
    small = region.lower()
    begins = set[int]()
    for needle in needles:
        at = small.find(needle)
        while at >= 0:
            begins.add(small.rfind(b"\n", 0, at) + 1)
            end = small.find(b"\n", at)
            at = small.find(needle, end) if end >= 0 else -1
    for begin in sorted(begins):
        yield begin, line_at(region, begin)


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
