"""Several trainings in one log: what heads each of them, and what sums them up below the last.

Where steps begin again below headings such as `Fold 2`, `Run 2/3` or `Fitting model: vgg`, or are not printed,
these become patterns: what was open is over there, and what stands below is of the next training.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import NUMBERED, drops, integers
from gputel.analysis.logs.infer.line_tables import LineTable, compile_words, without_numbers
from gputel.analysis.logs.patterns import MEASURES, lazy_regex
from gputel.analysis.logs.signs import NEXT

_LONGEST = 120
# `test acc: 0.8 ± 0.1`, `Average val loss`, `CV score`, `acc over 3 runs`; an agent's mean is over episodes
_SEVERAL = rb"folds|runs|seeds|models|trials|splits|repeats|repetitions"
_OF_ALL = lazy_regex(
    rb"(?i)(?!.*(?:reward|return|episode))(?:.*(?:\xc2\xb1|\+/?-|\bstd\b|\bstandard dev"
    rb"|\b(?:over|across|all|of)(?: the| all)?(?: \d+)? (?:%b)\b)"
    rb"|[^a-z]*(?:final |the )?(?:avg|average|mean|ensemble|cv|cross[- ]?val\w*|oof|out[- ]of[- ]fold"
    rb"|(?<=\d-)folds?)(?![a-z]))" % _SEVERAL
)
_MOST_TEXTS = 20
# `the best of fold 2` is no heading, while a time and a level may stand before one
_BEGINS = r"(?<!\w)(?<![a-z] )(?<![a-z][,:] )"


@dataclass(frozen=True)
class _TrainingHeading:
    number: int
    text: str

    @property
    def words(self) -> str:
        """The text apart from its numbers."""
        return without_numbers(self.text)


def patterns(chosen: Sequence[Candidate], lines: Sequence[bytes]) -> Iterator[LineTable]:
    """A pattern for each text that heads a training."""
    measured = [line for line in chosen if line.role in MEASURES and line.metrics]
    records = [line.shape.first for line in measured if line.role != "eval"]
    kinds = _kinds(lines) if records else {}
    heading = [kind for kind in kinds.values() if _head_trainings(kind, measured, min(records))]
    words = dict.fromkeys(heading.words for kind in heading for heading in kind)
    for at, text in enumerate([*words][:_MOST_TEXTS], start=1):
        table = compile_words(f"starts_{at}", "starts", text)
        if table:
            yield LineTable(table.name, table.role, rf"{_BEGINS}{table.line}\s*$", table.needle)


def without_results_of_all(candidates: Sequence[Candidate], main: Candidate) -> list[Candidate]:
    """Leaves out evaluations below the last of several trainings that are of all: a list of them, or their mean."""
    if not _are_several(candidates, main):
        return [*candidates]
    recording = [line for line in candidates if line.role in ("train", "mixed") and line.evidence]
    last = max(line.shape.last[0] for line in (main, *recording))
    below = [line for line in candidates if line.role == "eval" and line.shape.first > last]
    lists = Counter[tuple[str, ...]]()
    for line in below:
        lists[tuple(line.columns)] += line.shape.count
    listed = {
        line
        for line in below
        if _numbers_trainings(line) or is_of_all(line) or (not line.place and lists[tuple(line.columns)] > 1)
    }
    return [line for line in candidates if line not in listed]


def _numbers_trainings(line: Candidate) -> bool:
    """Whether there is one for each training: `Fold 2: val acc 0.8 at epoch 6`."""
    numbers = [cell for cell in line.named if NUMBERED.fullmatch(cell.source)]
    return any(len({*line.shape.column(cell.at)}) > 1 for cell in numbers)


def is_of_all(line: Candidate) -> bool:
    """Whether it stands once and says that it is of several trainings: their mean, or what they predict at once."""
    return line.shape.count == 1 and not line.place and _OF_ALL.match(line.shape.example) is not None


def _are_several(candidates: Sequence[Candidate], main: Candidate) -> bool:
    """Whether epochs begin again, or steps where there are no epochs."""
    if "epoch" in main.columns:
        return main.trainings > 1
    heads = [line for line in candidates if line.role in ("epoch", "place") and "epoch" in line.columns]
    epochs = [line.shape.column(cell.at) for line in heads for cell in line.named if cell.column == "epoch"]
    if any(map(drops, epochs)):
        return True
    is_step = main.place is not None and main.place.column in ("step", "iteration")
    return is_step and main.falls > 0 and all(len({*column}) == 1 for column in epochs)


def _kinds(lines: Sequence[bytes]) -> Mapping[str, list[_TrainingHeading]]:
    """The headings by what they number or name: folds, models."""
    kinds: dict[str, list[_TrainingHeading]] = {}
    for number, line in enumerate(lines):
        found = NEXT.match(line) if 2 < len(line) <= _LONGEST else None
        if found:
            heading = _TrainingHeading(number, line.decode(errors="replace").strip())
            kind = (
                heading.words if found["numbered"] else line[: found.start("name")].decode(errors="replace")
            )
            kinds.setdefault(kind, []).append(heading)
    return kinds


def _head_trainings(headings: Sequence[_TrainingHeading], measured: Sequence[Candidate], first: int) -> bool:
    """Whether each is another one, the first stands above all records, and below the others steps begin again."""
    numbers = [heading.number for heading in headings]
    if len({heading.text for heading in headings}) < max(2, len(headings)) or numbers[0] > first:
        return False
    used = {bisect(numbers, number) for line in measured for number in line.shape.lines} - {0}
    return len(used) > 1 and all(_begins_again(line, numbers) for line in measured)


def _begins_again(line: Candidate, numbers: Sequence[int]) -> bool:
    """Whether its steps are no later below a heading than above it."""
    steps = integers(line.shape.column(line.place.at)) if line.place else None
    within = [bisect(numbers, number) for number in line.shape.lines]
    counted = pairwise(zip(within, steps or (), strict=False))
    return all(step >= later for (above, step), (below, later) in counted if below > above)
