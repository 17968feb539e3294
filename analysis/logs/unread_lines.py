"""Lines that no pattern reads -> what they print: losses, lines of one shape that recur, epochs.

Lines about the best model so far, averages and weights of losses do not count: they repeat what is read elsewhere.
Some lines that were read are looked at as well, for figures that the reading has nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import line_figures
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.lines import line_at
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.logs.read_lines import FOREIGN, LEAST, PRINTED_LOSS, ReadLines, Taken, UnreadLine
from gputel.analysis.logs.signs import shortened

Integers = npt.NDArray[np.int64]
MOST = 8 << 20  # bytes that are looked at
LONGEST, MOST_LINES = 600, 10_000  # of the lines that are searched for shapes
MOST_SHAPES, MOST_KINDS, MOST_ALIKE = 500, 50, 100
_NEEDLES = (b"loss", b"nll", b"perplexity", *(word.encode() for word in FOREIGN))
_AGAIN = (
    rb"best|improv|sav(?:ed|ing)|minim|maxim|lowest|highest|early stop|average|\bmean\b|\bavg|reduc|\bload"
    rb"|epoch \d+ (?:done|finished|summary)"
)
_REPEATS = lazy_regex(rb"(?i)" + _AGAIN)
_SUMS = lazy_regex(rb"(?i)\b(?:min|max|std|total|overall|final|higher|lower|macro|micro)\b|weighted")
_NO_FIGURES = lazy_regex(rb"(?i)%b|tensor\(|class|rewritten|\binitial\b|untrained|before training" % _AGAIN)
_COUNTS = lazy_regex(rb"(?i)(?:epoch|episode|generation|step|iter(?:ation)?|update|round)\W{0,4}(\d+)")
_EPOCH = lazy_regex(
    rb"(?i)(?<![a-z])(?:epoch|epoca|epoche)(?: (?:number|no\.?|num|#))?['\"]?[\]\s:=#\[(-]{0,4}"
    rb"0*(\d{1,6})(?![\d.]|e[-+]?\d)"
)


class Alike(NamedTuple):
    """Lines that differ in numbers alone: the first of them, how many there are, and figures of some of them."""

    text: str
    lines: int
    line: int
    last: int
    figures: Mapping[str, frozenset[float]]  # by their names


@dataclass(frozen=True)
class Unread:
    """What lines print that no pattern has read."""

    loss: tuple[str, int, int] | None = None  # the one printed most often, how often, and its first line
    alike: tuple[Alike, ...] = ()  # lines with figures, in the order of the file
    recurring: tuple[Alike, ...] = ()  # those of them that the training or an evaluation may have printed
    taken: tuple[Taken, ...] = ()  # lines that were read
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

    def add(self, region: bytes, numbers: Integers) -> None:
        """Keeps lines that no pattern has read, and their numbers."""
        if region and self._kept <= MOST:
            self._kept += len(region)
            self._unread.append((region, numbers))

    def found(self, read: ReadLines, looped: Collection[int] = ()) -> Unread:
        """What they print, and lines that were read, without those that are `looped`: of a loop of evaluation.

        Of losses the one is told that was left unread most often.
        """
        twice = (read.twice[0][0], len(read.twice), read.twice[0][1]) if read.twice else None
        # Sums are the only figures of the model if all that records give are places and times.
        sums = read.are_timed_alone
        alike = ((lines, _alike(lines, sums=sums)) for lines in [*self._kinds(), *read.kinds(looped)])
        kinds = [*islice(((lines, each) for lines, each in alike if each.figures), MOST_KINDS)]
        return Unread(
            self._most_often(),
            tuple(sorted((alike for _, alike in kinds), key=lambda alike: alike.line)),
            tuple(alike for lines, alike in kinds if _recur(lines, alike)),
            read.taken(looped),
            tuple(sorted({*self._epochs()})),
            twice,
        )

    def _kinds(self) -> list[list[UnreadLine]]:
        """Lines with figures, those of one shape together, the most frequent first."""
        return sorted(line_figures.alike(self._some()), key=len, reverse=True)[:MOST_SHAPES]

    def _some(self) -> Iterator[UnreadLine]:
        """The first lines with a decimal point or a share in percent."""
        left = MOST_LINES
        for between, (region, numbers) in enumerate(self._unread):
            has_figures = b"." in region or b"%" in region
            for at, line in enumerate(region.split(b"\n") if has_figures else ()):
                if (b"." in line or b"%" in line) and len(line) <= LONGEST:
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
                for found in PRINTED_LOSS.finditer(line):
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
    differ = len({unread.line for unread in lines}) >= LEAST  # a setting may have several figures
    changes = len(frozenset[float]().union(*alike.figures.values())) >= LEAST
    return differ and changes and (several or _count(lines))


def _count(lines: Sequence[UnreadLine]) -> bool:
    """Whether each names a later step than the one above."""
    steps = [int(found[1]) for unread in lines if (found := _COUNTS.search(unread.line))]
    return LEAST <= len(steps) == len(lines) and all(a < b for a, b in pairwise(steps))


def _figures(lines: Sequence[UnreadLine], *, sums: bool) -> dict[str, frozenset[float]]:
    """The figures of lines of one shape, by their names; with `sums`, also those over classes or steps."""
    named = line_figures.figures([unread.line for unread in lines[:MOST_ALIKE]])
    return {name: values for name, values in named.items() if sums or not _SUMS.search(name.encode())}


def _english(line: bytes) -> bytes:
    return line if line.isascii() else english(line)


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
