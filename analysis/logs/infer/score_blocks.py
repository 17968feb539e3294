"""Figures on the lines right below an evaluation: `Top1: 71.2%` below `Mean test loss: 1.05` is of that test.

So are those around a score of held-out data, `loss: 1.5`, `AP: 0.58`, `MaxRecall: 0.76`, where the records of the
training say where they stand. A figure that only its set calls an evaluation, `eval_success=0.5`, is one beside a
known measure, `eval_return=31.2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.dialects import HELD_OUT_SCORE, MEASURE
from gputel.analysis.logs.infer.named import Named
from gputel.analysis.logs.infer.shape_roles import as_evaluation
from gputel.analysis.logs.patterns import lazy_regex

_FEWEST = 3  # lines of a block that begins with a loss
# what repeats a figure
_SAVES = lazy_regex(rb"(?i)(?<![a-z])(?:best|better|improv\w+|sav(?:e[ds]?|ing))(?![a-z])")
_TRAINING = frozenset({"lr", "grad_norm", "dt_ms", "tok_per_sec"})


def with_scores_below(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, figures of a block as evaluations."""
    candidates = _with_results(candidates)
    known = {_measure(cell) for c in candidates if c.role in ("eval", "mixed") for cell in c.metrics}
    seeds = [c for c in candidates if c.role == "eval" and c.is_measured]
    scores = [
        c
        for c in candidates
        if _is_bare(c) and c.role == "other" and HELD_OUT_SCORE.search(c.metrics[0].source)
    ]
    below = _below(
        [c for c in candidates if c.role == "other" and not known.intersection(map(_measure, c.metrics))],
        [*seeds, *scores],
    )
    blocks = [[score, *_below(below, [score])] for score in scores]
    losses = [
        c
        for block in blocks
        for c in candidates
        if len(block) + 1 >= _FEWEST and _leads(c, block[0], candidates)
    ]
    return [
        replace(as_evaluation(c), is_result=c.is_result or not c.is_measured)
        if c in below or c in losses
        else c
        for c in candidates
    ]


def _with_results(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Marks evaluations of an unknown measure as results if each stands next to one of a known measure."""
    known = {number for c in candidates if c.role == "eval" and c.is_measured for number in c.shape.lines}
    beside = {number + step for number in known for step in (-1, 1)}
    return [
        replace(c, is_result=True)
        if c.role == "eval" and not (c.place or c.is_measured) and beside.issuperset(c.shape.lines)
        else c
        for c in candidates
    ]


def _below(candidates: Sequence[Candidate], seeds: Sequence[Candidate]) -> list[Candidate]:
    """Those whose every line stands right below a line of the seeds, or of another one of them.

    `test.ber` below `test.err` is one of them, whatever it measures.
    """
    numbers = {number for seed in seeds for number in seed.shape.lines}
    groups = {group for seed in seeds if (group := _group(seed))}
    found: list[Candidate] = []
    for candidate in candidates:  # in the order of the file
        if (
            candidate not in seeds
            and (_is_bare(candidate) or _group(candidate) in groups)
            and numbers.issuperset(n - 1 for n in candidate.shape.lines)
        ):
            numbers.update(candidate.shape.lines)
            found.append(candidate)
    return found


def _leads(candidate: Candidate, score: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it is a loss without a place right above each score, beside more frequent records with a place."""
    if not (_is_bare(candidate) and candidate.loses) or candidate.shape.count < 2:
        return False
    records = [c for c in candidates if c.place and c.loses and c.role == "train"]
    more = any(record.shape.count > candidate.shape.count for record in records)
    return more and [n + 1 for n in candidate.shape.lines] == score.shape.lines


def _is_bare(candidate: Candidate) -> bool:
    """Whether it gives one measure without a place, and does not say that it trains."""
    if candidate.place or len(candidate.metrics) != 1 or _TRAINING.intersection(candidate.columns):
        return False
    if _SAVES.search(candidate.shape.spoken):
        return False
    source = candidate.metrics[0].source
    return "train" not in source.lower() and MEASURE.search(source) is not None and candidate.is_measured


def _group(candidate: Candidate) -> str:
    """What stands before the point in the only name of a line, `test` in `test.acc`; empty where none does."""
    metrics = candidate.metrics
    fractions = len(metrics) == 1 and all(b"." in value for value in candidate.shape.column(metrics[0].at))
    return metrics[0].source.rpartition(".")[0] if fractions and not candidate.place else ""


def _measure(cell: Named) -> str:
    """The last word of its name: `accuracy` of `val accuracy`."""
    return cell.source.lower().rpartition(" ")[2]
