"""Lines whose set is one short word: `VA | 3 | loss=1.2` beside `TR | 3 | loss=1.1` is of a validation.

The letters alone say nothing. They name sets where two kinds of lines are equal but for them, one of them begins
with the letters of training, and both come equally often.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputel.analysis.logs.infer.candidates import OFTEN, Candidate
from gputel.analysis.logs.infer.shape_roles import as_evaluation

_TRAINS = re.compile(rb"(?i)t|tr|trn|train")
_HELD_OUT = re.compile(rb"(?i)v|va|vl|vd|val|vld|te|ts|tst|dv")
_WORD = re.compile(rb"\W*([A-Za-z]{1,5})(?![A-Za-z])")


def with_evaluations(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, those of a held-out set as evaluations."""
    trained = {_without_word(line): line for line in candidates if _is_of(line, _TRAINS)}
    return [as_evaluation(line) if _is_held_out(line, trained) else line for line in candidates]


def _is_held_out(line: Candidate, trained: dict[tuple[bytes, ...], Candidate]) -> bool:
    mate = trained.get(_without_word(line)) if _is_of(line, _HELD_OUT) else None
    return mate is not None and OFTEN <= line.shape.count <= mate.shape.count + 1


def _is_of(line: Candidate, sets: re.Pattern[bytes]) -> bool:
    word = _WORD.match(line.shape.words[0]) if line.role == "train" and line.loses else None
    return word is not None and sets.fullmatch(word[1]) is not None


def _without_word(line: Candidate) -> tuple[bytes, ...]:
    first, *rest = line.shape.literals
    return (_WORD.sub(b"", first, count=1), *rest)
