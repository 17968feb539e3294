"""Sections of a set: below `Training:` lines train, and below `--- val ---` the same lines evaluate.

Where records stand below headings of both kinds in turn, the headings become patterns: one kind says that the lines
below evaluate, the other that they train again.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.line_tables import LineTable, compile_words, without_numbers
from gputel.analysis.logs.infer.shapes import KEPT_ROWS
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.names import EVALUATING, TRAINING, held_out_set
from gputel.analysis.logs.patterns import lazy_regex

_OTHERS = (
    rb"set|data|metrics?|results?|stats|statistics|loss(?:es)?|phase|mode|loop|summary|scores?|performance|begins?"
    rb"|started|model|epoch|step|round|iter(?:ation)?"
)
_HEADING = lazy_regex(
    rb"(?i)(?P<before>.*?)(?<![a-z_])(?:(?P<train>%b)|(?P<held_out>%b))(?![a-z_])"
    rb"(?:[^\w=]*(?:%b)(?![a-z_]))*(?:(?:(?<=epoch)|(?<=step)|(?<=round)|(?= ))[ :#]*\d+(?: ?/ ?\d+)?)?"
    rb"(?P<end>[\W_]*)" % (TRAINING.encode(), EVALUATING.encode(), _OTHERS)
)
_FRACTION = lazy_regex(rb"\d\.\d")
_SET = lazy_regex(rf"(?i)(?<![a-z_])(?:{EVALUATING})(?![a-z_])")
_LONGEST = 120
_NEAR = 10  # lines between a heading and the first record below it
_FEWEST = 2  # sections of either kind
_MOST_TEXTS = 4  # that head sections of one kind, apart from their numbers
_MOSTLY = 0.8


@dataclass(frozen=True)
class _Heading:
    number: int
    held_out: str | None  # the set; None where the lines below train
    text: bytes

    @property
    def kind(self) -> str:
        """The text apart from its numbers."""
        return without_numbers(self.text.decode(errors="replace"))


@dataclass(frozen=True)
class Sections:
    """The headings of a log whose records stand in sections."""

    headings: tuple[_Heading, ...]

    def heads(self, line: Candidate) -> bool:
        """Whether all of its lines are headings."""
        return {heading.number for heading in self.headings}.issuperset(line.shape.lines)

    def role(self, line: Candidate) -> str | None:
        """The role of a measure without a place: a part of the record, also where it stands below a set as well."""
        if line.place or not (line.is_measured and line.changing):
            return None
        kinds = {self.headings[at].held_out is None for at in _above(self.headings, line.shape.lines)}
        return ("part" if True in kinds else "eval") if kinds else None

    def tables(self) -> Iterator[LineTable]:
        """A pattern for each text that heads a section."""
        sets = {heading.held_out for heading in self.headings if heading.held_out}
        texts: dict[str, _Heading] = {}
        for heading in self.headings:
            texts.setdefault(heading.kind, heading)
        for at, (text, heading) in enumerate(texts.items(), start=1):
            role = "trains" if heading.held_out is None else "validates"
            table = compile_words(f"{role}_{at}", role, text.strip())
            if table:
                names_set = heading.held_out is not None and len(sets) > 1
                line = _SET.sub("<set:word>", table.line, count=1) if names_set else table.line
                yield replace(table, line=rf"{line}\s*$")


def find(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> Sections | None:
    """The sections that the records stand in; None where they stand elsewhere, or in sections of one kind alone."""
    recording = [line for line in candidates if line.role in ("train", "mixed") and line.evidence]
    headings = [
        *_headings(lines, {number for line in recording if line.loses for number in line.shape.lines})
    ]
    heads = {heading.number for heading in headings}
    # of a shape with more lines some are left out from there on
    whole = [line.shape.lines[KEPT_ROWS - 1] for line in recording if line.shape.count > KEPT_ROWS]
    last = min(whole, default=len(lines))
    records = sorted({number for line in recording for number in line.shape.lines if number <= last} - heads)
    records = _within(headings, records, recording, candidates)
    above = _above(headings, records)
    used = Counter(above)
    first = {at: records[above.index(at)] for at in used}
    kept = [headings[at] for at in used if first[at] - headings[at].number <= _NEAR]
    trains, evaluates = ([h for h in kept if (h.held_out is None) is kind] for kind in (True, False))
    texts = {heading.kind for heading in kept}
    alike = [h for h in headings if h.kind in texts]
    is_proven = (
        min(len(trains), len(evaluates)) >= _FEWEST
        and _come_in_turn(trains, evaluates)
        and len(above) >= _MOSTLY * len(records)
        and len(kept) >= _MOSTLY * sum(heading.number <= last for heading in alike)
        and len(texts) <= 2 * _MOST_TEXTS
    )
    return Sections(tuple(alike)) if is_proven else None


def _come_in_turn(trains: Sequence[_Heading], evaluates: Sequence[_Heading]) -> bool:
    """Whether a section of the training stands between those of one held-out set, but for a few that are torn off.

    Else the training goes on below an evaluation without a heading, and `Start training` stands above all of it.
    """
    texts = {heading.kind for heading in evaluates}
    return len(evaluates) <= len(texts) * (len(trains) / _MOSTLY + 1)


def _within(
    headings: Sequence[_Heading],
    records: Sequence[int],
    recording: Sequence[Candidate],
    candidates: Sequence[Candidate],
) -> list[int]:
    """Leaves out records below the result of a test: they train again, without a heading.

    They have a learning rate, or the result stands above all of them.
    """
    rated = {number for line in recording if "lr" in line.columns for number in line.shape.lines}
    results = sorted(n for line in candidates if line.role == "eval" for n in line.shape.lines)
    first: dict[int, int] = {}
    within = []
    for number in records:
        at = next(iter(_above(headings, [number])), None)
        if at is None:
            within.append(number)
            continue
        begins = number if number in rated else first.setdefault(at, number)
        is_over = headings[at].held_out and bisect(results, begins) > bisect(results, headings[at].number)
        if not is_over:
            within.append(number)
    return within


def _headings(lines: Sequence[bytes], losing: set[int]) -> Iterator[_Heading]:
    for number, line in enumerate(lines):
        found = (
            _HEADING.fullmatch(english(line)) if 2 < len(line) <= _LONGEST and number not in losing else None
        )
        if found and (b":" in found["end"] or not _FRACTION.search(line)):
            word = (found["held_out"] or b"").decode()
            yield _Heading(number, held_out_set(word) if word else None, line)


def _above(headings: Sequence[_Heading], numbers: Sequence[int]) -> list[int]:
    """For each line the heading above it; lines above all headings are left out."""
    heads = [heading.number for heading in headings]
    return [at - 1 for number in numbers if (at := bisect(heads, number))]
