"""A shape -> what it may be among the lines of a training log: a record, an evaluation, a place or a part.

Every candidate has been compiled and has matched the line that it was made from: what is chosen can be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gputel.analysis import formats
from gputel.analysis.parse import names
from gputel.analysis.parse.infer import compiling, headings
from gputel.analysis.parse.infer.dialects import MEASURE
from gputel.analysis.parse.infer.naming import name, vocabulary
from gputel.analysis.parse.infer.places import PLACES, Named, is_place
from gputel.analysis.parse.infer.shapes import Shape
from gputel.analysis.parse.infer.slots import SAMPLES, integers
from gputel.analysis.parse.plans import EVIDENCE, plan
from gputel.telemetry.errors import GputelError

_PLACES = [*PLACES, "index", "count"]
OFTEN = 3  # a shape that is rarer must have a value that is known
_EVALUATION = re.compile(
    rb"(?i)(?<![a-z_-])(?:val|valid|validat\w*|eval\w*|test\w*|dev|held[-_ ]?out)(?![a-z])"
)
_HEADING = re.compile(rb"[A-Za-z]+(?: [A-Za-z]+){0,2}:?")
_BEGINS = re.compile(rb"(?i)\W*(?:val|valid|validation|eval|evaluation|test|dev)(?!\w)")


@dataclass(frozen=True, eq=False)
class Candidate:
    shape: Shape
    named: tuple[Named, ...]
    role: str
    evidence: bool  # RECORDS, rule 4

    @property
    def columns(self) -> list[str]:
        return [one.column for one in self.named if one.column]

    @property
    def metrics(self) -> list[Named]:
        return [one for one in self.named if one.column and not is_place(one)]

    @property
    def place(self) -> Named | None:
        places = [one for one in self.named if one.column in _PLACES]
        return min(places, key=lambda one: _PLACES.index(one.column or "")) if places else None

    @property
    def place_rank(self) -> int:
        """RECORDS, rule 10: an update goes before an iteration, and that before a batch."""
        return _PLACES.index(self.place.column or "") if self.place else len(_PLACES)

    @property
    def is_fine(self) -> bool:
        """Whether it says more than the epoch."""
        return not {"step", "iteration", "batch", "index", "count"}.isdisjoint(self.columns)

    @property
    def loses(self) -> bool:
        """Whether it gives a loss, the current one or its average."""
        return "loss" in self.columns or "loss_avg" in self.columns

    @property
    def restarts(self) -> bool:
        """Whether its counter falls, as one within epochs does."""
        steps = integers(self.shape.column(self.place.at)) if self.place else None
        return any(b < a for a, b in pairwise(steps or ()))

    @property
    def changing(self) -> list[str]:
        """Measurements change; settings do not."""
        return [n.column for n in self.metrics if n.column and len(set(self.shape.column(n.at))) > 1]

    @property
    def is_measured(self) -> bool:
        """Sizes of a test set are whole numbers, and talk has many words."""
        fractions = [n for n in self.metrics if any(b"." in v or b"n" in v for v in self.shape.column(n.at))]
        return any(MEASURE.search(n.column or "") for n in fractions) and (
            self.shape.count > 1 or self.is_terse
        )

    @property
    def is_terse(self) -> bool:
        """Prose has more words than numbers."""
        return len(b"".join(self.shape.words).split()) <= 6 + 2 * self.shape.slots

    @property
    def is_quoted(self) -> bool:
        """An example in a text or in a program's comments."""
        return b"`" in self.shape.example or self.shape.example.startswith((b"# ", b"//"))

    @property
    def speaks(self) -> bool:
        """Whether it says of a training what other programs do not say: web servers have rates and counters too."""
        parts = [
            n for n in self.metrics if "?" not in n.source and re.search("(?i)loss|grad_norm", n.column or "")
        ]
        named = self.place is not None and not self.place.guessed
        return self.loses or named or (self.is_terse and bool(parts))


def candidate(shape: Shape, lines: Sequence[bytes]) -> Candidate | None:
    words = vocabulary()
    named = headings.name(shape, lines, words) or name(shape, words)
    if not any(one.column if shape.count >= OFTEN or shape.is_boxed else _may_matter(one) for one in named):
        return None
    evidence = _is_record(shape, named)
    if evidence is None:
        return None
    one = Candidate(shape, tuple(named), "train" if evidence else "other", evidence)
    return _with_role(one, headed=_is_headed(shape, lines))


def _may_matter(one: Named) -> bool:
    return one.column is not None and (
        is_place(one)
        or one.column in EVIDENCE
        or MEASURE.search(one.column) is not None
        or "/" in (one.unit or "")
    )


def _is_record(shape: Shape, named: list[Named]) -> bool | None:
    """Whether such a line is a record; None where the pattern does not even fit the line that it was made from."""
    line = compiling.line("try", "train", shape, named, looks=False)
    try:
        pattern = formats.load(line.toml(), "try", "inferred").patterns[0]
    except GputelError:
        return None
    if not pattern.regex.search(shape.example):
        return None
    return plan(pattern, tuple(pattern.fields.values())).record


def _is_headed(shape: Shape, lines: Sequence[bytes]) -> bool:
    """Whether a line such as `Test Error:` stands right above."""
    above = [lines[number - 1].strip() for number in shape.lines[:20] if number]
    return bool(above) and all(_EVALUATION.match(line) and _HEADING.fullmatch(line) for line in above)


def _with_role(one: Candidate, *, headed: bool) -> Candidate:
    evals = [n for n in one.metrics if names.is_evaluation(n.column or "")]
    if not one.metrics:
        return replace(one, role="epoch" if _is_epoch(one) else "place")
    spoken = headed or _EVALUATION.search(b" ".join(one.shape.words)) is not None
    if evals and (not one.evidence or len(evals) == len(one.metrics)):
        return replace(one, role="eval", named=tuple(_measures(one)))
    if evals:
        return replace(one, role="mixed")
    measured = any(MEASURE.search(n.column or "") for n in one.metrics)
    training = {"lr", "grad_norm"} & set(one.columns) or any("train" in n.source.lower() for n in one.metrics)
    begins = _BEGINS.match(one.shape.words[0]) and not any("train" in n.source.lower() for n in one.metrics)
    if spoken and measured and (begins or not training):
        renamed = [
            replace(n, column="val_loss") if n.column in ("loss", "loss_avg") else n for n in one.named
        ]
        return replace(one, named=tuple(_once(renamed)), role="eval")
    return one


def _measures(one: Candidate) -> list[Named]:
    """Without how many samples have been seen so far."""
    return [
        replace(n, column=None) if SAMPLES.search(n.source) and integers(one.shape.column(n.at)) else n
        for n in one.named
    ]


def _is_epoch(one: Candidate) -> bool:
    """`Epoch 3/10` over the lines of that epoch, and no talk of epochs."""
    begins = one.shape.words[0].lstrip(b" =-*#[").lower().startswith((b"ep", b"start", b"begin"))
    return begins and set(one.columns) <= {"epoch", "epochs"} and len(b"".join(one.shape.words).split()) <= 6


def _once(named: Sequence[Named]) -> list[Named]:
    taken: set[str | None] = set()
    once = []
    for one in named:
        once.append(replace(one, column=None) if one.column in taken else one)
        taken.add(one.column)
    return once
