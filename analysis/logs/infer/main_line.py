"""The main line of a log: the shape of its records, beside which every other shape gets its role.

Candidates go in; the one that says most about training comes out, or None. It need not give a loss: a log may print
evaluations or rewards alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer import blocks
from gputel.analysis.logs.infer.both_sets import measures_both, mirrors
from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.other_domains import learns
from gputel.analysis.logs.patterns import AlreadyRead, lazy_regex

_TRAINS = lazy_regex(rb"(?i)(?<![a-z])train(?:ing)?(?![a-z])")
_FINAL = lazy_regex(r"(?i)final ")
_STANDS = 5  # steps with one loss
EXCERPT = 60  # lines that are not empty; in a longer text a single record may be an example


def choose(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> Candidate | None:
    """The shape of the records: the most frequent one that gives a loss or its like, preferably with the step."""
    few = sum(map(bool, lines)) <= EXCERPT
    in_epochs = _are_in_epochs(candidates)
    boxed = any(line.shape.is_boxed and line.place for line in candidates)
    records = [
        line
        for line in candidates
        if line.role in ("train", "mixed")
        and (in_epochs or not _sums_up(line))
        and (_is_alive(line, few) or (boxed and _is_boxed_record(line, few)))
    ]
    if not records:
        return _without_loss(candidates, lines)

    def weight(line: Candidate) -> float:
        says = 1 + 2 * ("loss" in line.columns) + 2 * (line.place is not None)
        return says * line.shape.count

    heaviest = max(records, key=weight)
    each = [line for line in records if line.loses and line.counts_each_step]
    if each and heaviest.place is None:
        return max(each, key=weight)
    if not heaviest.loses and (heaviest.place is None or heaviest.times_epochs):
        losing = [line for line in records if line.loses and 5 * line.shape.count >= heaviest.shape.count]
        heaviest = max(losing, key=weight, default=heaviest)
    whole = [
        line for line in records if line.place and line.loses and 5 * line.shape.count >= heaviest.shape.count
    ]
    return heaviest if heaviest.place else max(whole, key=weight, default=heaviest)


def stands_beside(main: Candidate, read: AlreadyRead) -> bool:
    """Whether it is a second kind of record in a log of a known format: frequent, with step and loss.

    Without a step it must be the usual kind of record, and the known ones the exception. A line with the loss of
    the epoch below each pass of a bar is none of the bar's many counts; one of whole epochs below records that name
    them sums these up.
    """
    if main.loses and blocks.first_below_passes(main, read.passes) is not None:
        return True
    if "loss" not in main.columns:
        return False
    in_epochs = "epoch" in read.names and main.place is not None and main.place.column == "epoch"
    if in_epochs and read.records >= 2 * main.shape.count:
        return False
    least = 3 * read.records if main.place is None else max(3, read.records // 10)
    return main.shape.count >= least


def _without_loss(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> Candidate | None:
    """The most frequent evaluation, else the line of rewards or of an epoch, in a log without a training loss.

    A line of an epoch that says it is of the training comes first. An evaluation with a place that gives a measure
    of the training as well is a record.
    """
    in_epochs = _are_in_epochs(candidates)
    evals = [line for line in candidates if line.role == "eval" and line.is_measured and line.changing]
    evals = [line for line in evals if _is_placed(line) or (in_epochs and line.shape.count > 2)]
    rewards = [
        replace(line, role="train")
        for line in candidates
        if line.role in ("other", "train")
        and (
            line.tells_training
            or _rewards_below(line, candidates)
            or (line.errs and learns(lines))
            or (in_epochs and any(mirrors(line, evaluation) for evaluation in evals))
        )
    ]
    trained = [line for line in rewards if evals and _TRAINS.search(line.shape.spoken)]
    rewards = [line for line in rewards if line.gives_parts] or rewards
    best = max(trained or evals or rewards, key=lambda line: line.shape.count, default=None)
    trains_too = best is not None and best.role == "eval" and best.place is not None and measures_both(best)
    return replace(best, role="mixed") if best and trains_too else best


def _are_in_epochs(candidates: Sequence[Candidate]) -> bool:
    return any(line.role == "epoch" and line.shape.count > 2 for line in candidates)


def _sums_up(line: Candidate) -> bool:
    """Whether it has no place, and its figures are those that a whole training ended with: `Final train loss`."""
    return line.place is None and all(_FINAL.match(cell.source) for cell in line.metrics)


def _rewards_below(line: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it gives rewards below a line that counts: `Running generation 3`, `Best fitness: 2.5`."""
    below = line.place is None and line.names_reward and line.is_terse and line.shape.count > 2
    return below and blocks.header(candidates, line) is not None


def _is_placed(line: Candidate) -> bool:
    """Whether an evaluation says where it stands, or recurs with a loss; any program may print a score."""
    return line.place is not None or ("val_loss" in line.columns and line.shape.count > 2)


def _is_boxed_record(line: Candidate, few: bool) -> bool:
    """Whether it is a loss or a speed in a box; a box that says the step holds a record."""
    moves = line.evidence and line.shape.count > 1 and bool(line.changing)
    return line.shape.is_boxed and (moves or (few and "loss" in line.columns))


def _is_alive(line: Candidate, few: bool) -> bool:
    """Whether it measures training: settings do not change, and any program may print a rate."""
    if not line.evidence:
        return False
    if line.place and "loss" in line.columns and line.shape.count < 3:
        rich = len({"loss", "lr", "grad_norm", "dt_ms", "tok_per_sec", "mfu"} & set(line.columns)) > 2
        goes_on = few or rich or _validates_twice(line)
        return goes_on and not (line.is_quoted or line.saves)
    return line.shape.count > 1 and line.speaks and (bool(line.changing) or _stands_still(line))


def _validates_twice(line: Candidate) -> bool:
    """Whether a training and a validation loss change from one place to the next, in two lines."""
    changes = {"loss", "val_loss"} <= {*line.changing}
    return changes and line.place is not None and not line.place.guessed and not line.falls


def _stands_still(line: Candidate) -> bool:
    """Whether a step with a name counts while the loss never changes, as that of a dead network."""
    if line.place is None or line.place.guessed or "loss" not in line.columns:
        return False
    return len({*line.shape.column(line.place.at)}) >= _STANDS
