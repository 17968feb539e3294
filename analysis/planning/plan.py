"""A plan: what was asked, a row per size, and what must be said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gputel.analysis.planning import fit, search
from gputel.analysis.planning.question import Question
from gputel.analysis.planning.rows import Row, row
from gputel.analysis.planning.sizes import Size
from gputel.analysis.planning.target import Target, targets


@dataclass(frozen=True)
class Plan:
    """`notes` hold of the whole plan; what holds of one row stands in it."""

    question: Question
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()


def of_sizes(question: Question, sizes: Sequence[Size], target_tok_per_sec: float | None = None) -> Plan:
    return _plan(question, [row(question, size) for size in sizes], [], target_tok_per_sec)


def of_limits(
    question: Question, size_of: Callable[[int], Size], target_tok_per_sec: float | None = None
) -> Plan:
    """The largest depth that `--budget` and `--hours` allow, and the next one for comparison."""
    rows, said = search.largest(question, size_of)
    return _plan(question, rows, ["; ".join(said)], target_tok_per_sec)


def _plan(question: Question, rows: Sequence[Row], notes: list[str], target: float | None) -> Plan:
    told = [
        found if found.fits == "fits" else replace(found, changes=fit.changes(question, found))
        for found in rows
    ]
    if question.like:
        notes += question.like.notes
    hoped = targets(told, question.machine, target) if target is not None else []
    return Plan(question, tuple(told), tuple(notes), tuple(hoped))
