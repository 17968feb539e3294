"""Measures that one shape prints with several settings: `mAP (IoU=0.5): 0.61`, then `mAP (IoU=0.75): 0.34`.

A candidate goes in; one for each setting comes out, whose pattern reads the lines with that setting alone.
"""

from __future__ import annotations

from dataclasses import replace

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.counters import recurs
from gputel.analysis.logs.infer.named import SETTING
from gputel.analysis.logs.names import legal


def apart(candidate: Candidate) -> list[Candidate]:
    """The candidate, or one for each of the few values of its setting."""
    at = next((cell.at for cell in candidate.named if cell.slot.column == SETTING), None)
    column = [] if at is None else candidate.shape.column(at)
    if at is None or len({*column}) == 1 or not recurs(column):
        return [candidate]
    return [_with(candidate, at, value.decode()) for value in dict.fromkeys(column)]


def _with(candidate: Candidate, at: int, value: str) -> Candidate:
    named = list(candidate.named)
    figure = named[at + 1]
    named[at] = replace(named[at], only=value)
    if figure.column:
        column = f"{figure.column}_{legal(value)}"
        named[at + 1] = replace(figure, column=column, source=f"{figure.source} {value}")
    return replace(candidate, named=tuple(named))
