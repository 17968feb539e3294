"""A shape -> a candidate: a record, an evaluation, a place or a part, as the shape's own words and names say.

Every candidate has been compiled and matches the line that it was made from, so whatever is chosen can be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs import formats, names, setting_lines
from gputel.analysis.logs.infer import headings, rewards, tables
from gputel.analysis.logs.infer.candidates import OFTEN, Candidate, is_best
from gputel.analysis.logs.infer.counters import NUMBERED, SAMPLES, integers
from gputel.analysis.logs.infer.dialects import MEASURE, TIMES
from gputel.analysis.logs.infer.headings import EVALUATION
from gputel.analysis.logs.infer.line_tables import compile_line
from gputel.analysis.logs.infer.named import Named, is_place, places_alone
from gputel.analysis.logs.infer.naming import name, vocabulary
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.infer.slots import SECONDS
from gputel.analysis.logs.line_kinds import EVIDENCE, plan
from gputel.analysis.logs.names import HELD_OUT, TRAINING
from gputel.telemetry.errors import GputelError

_MOST_VALUES, _MOST_BESIDE = 40, 10  # of a rare line: of a list or a tree; beside a place and no measure
_MOST_SETTINGS = 0.3  # share of the lines; `python train.py | step 5` may stand in front of all of them
_OPTION = re.compile(rb"\s*--[a-z]")  # `--epochs 10`, of a command
_BEGINS = re.compile(rf"(?i)\W*(?:(?:phase|split|mode|set)\W+)?(?:{HELD_OUT})(?!\w)".encode())
_OF_SET = re.compile(rf"(?i)(?:{HELD_OUT})[ _]+(?:batches|samples|images|examples|sentences|tokens|size)")
_OF_BOTH = re.compile(rf"(?i)(?<![a-z])(?:{TRAINING}) ?/ ?(?:{HELD_OUT})(?![a-z])".encode())  # `(train/val)`
_LOSSES = frozenset({"loss", "loss_avg"})
_FOLD = re.compile(r"(?i)(?:fold|split)")
_IN_EPOCH = re.compile(r"(?i)(?:at|in|from) (?:epoch|step|iteration)")
_ENDS_BARE, _NAMES_NEXT = re.compile(rb"[A-Za-z] $"), re.compile(rb" [A-Za-z][\w ]*[:=] ?")
_OF_BEST = re.compile(rb"(?i)\W*(?:@|\(|(?:at|in|from|of)\b)")


def make_candidate(shape: LineShape, lines: Sequence[bytes], *, crowded: bool = False) -> Candidate | None:
    """The shape with names and a role; None where nothing in it can matter.

    `crowded` says that there are many shapes: rare ones that give nothing but a time are of other programs.
    """
    if (shape.count < OFTEN and shape.slots > _MOST_VALUES) or _sets(shape, lines):
        return None
    words = vocabulary()
    named = tables.column_name(shape, lines, words) or name(shape, words)
    if not any(
        cell.column
        if shape.count >= OFTEN or shape.is_boxed
        else _may_matter(cell, shape) and not (crowded and cell.column == "dt_ms")
        for cell in named
    ):
        return None
    evidence = _is_record(shape, named)
    if evidence is None:
        return None
    named = named if evidence else _without_best(named, shape)
    made = Candidate(shape, tuple(named), "train" if evidence else "other", evidence)
    return _with_role(_without_sizes(made), headed=_is_headed(made, lines))


def _is_headed(made: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether the lines around it say that it evaluates, and not its own words."""
    if headings.say_evaluation(made.shape, lines, in_block=made.place is None):
        return True
    named = [cell.source for cell in made.metrics]
    if not (made.evidence or made.place) and any(map(rewards.EPISODE.search, named)):
        return headings.is_below_evaluation(made.shape, lines)
    may_be = not (made.evidence or made.place or any(map(rewards.REWARD.search, named)))
    return may_be and headings.is_above_best(named, made.shape, lines)


def _sets(shape: LineShape, lines: Sequence[bytes]) -> bool:
    """Whether they are commands, printed arguments, checkpoints loaded, or pairs below `Hyperparameters:`."""
    if setting_lines.sets(shape.example) in ("command", "call", "loaded"):
        return shape.count < max(OFTEN, _MOST_SETTINGS * len(lines))
    rare = shape.count < OFTEN or shape.repeats
    return rare and all(setting_lines.below_heading(lines, at) for at in shape.lines)


def _may_matter(cell: Named, shape: LineShape) -> bool:
    return cell.column is not None and (
        (is_place(cell) and shape.slots <= _MOST_BESIDE)
        or cell.column in EVIDENCE
        or MEASURE.search(cell.column) is not None
        or "/" in (cell.unit or "")
    )


def _is_record(shape: LineShape, named: list[Named]) -> bool | None:
    """Whether such a line is a record; None where its pattern does not match the line it was made from."""
    line = compile_line("try", "bar" if shape.is_bar else "train", shape, named, looks=False)
    try:
        pattern = formats.load(line.toml(), "try", "inferred", trusted=True).patterns[0]
        is_record = plan(pattern, tuple(pattern.fields.values())).record
        if not is_record and not any(_says_something(cell) for cell in named):
            return False  # compiling its regex would take as long as all else
        ends = (shape.example, shape.line(shape.rows[-1]))  # the first row of a table may be of another kind
        return is_record if any(map(pattern.regex.search, ends)) else None
    except (GputelError, re.error):
        return None


def _says_something(cell: Named) -> bool:
    """Whether it may be of an evaluation, a place, or a reward."""
    text = f"{cell.column} {cell.source}"
    return is_place(cell) or any(regex.search(text) for regex in (MEASURE, rewards.REWARD, rewards.EPISODE))


def _with_role(candidate: Candidate, *, headed: bool) -> Candidate:
    """Gives the shape the role that its own words and names say."""
    bare = _without_number_in_front(candidate)
    if not bare.metrics:
        begins = bare.place.at if bare.place and candidate.metrics else 0
        return replace(bare, role="epoch" if _is_epoch(bare, bare.shape.english[begins]) else "place")
    evals = [named for named in candidate.metrics if names.is_evaluation(named.column or "")]
    if evals and (not candidate.evidence or len(evals) == len(candidate.metrics)):
        return replace(candidate, role="eval", named=tuple(_without_samples(candidate)))
    if evals and _is_of_one_set(candidate):
        return as_evaluation(candidate)
    if evals:
        return replace(candidate, role="mixed")
    of_episodes = any(rewards.EPISODE.search(cell.source) for cell in candidate.metrics)
    if headed and candidate.place is None and (candidate.shape.is_boxed or of_episodes):
        return replace(as_evaluation(candidate), is_result=True)
    if _scores_folds(candidate):
        folds = candidate.named[0]
        named = (replace(cell, column=None) if cell is folds else cell for cell in candidate.named)
        return as_evaluation(replace(candidate, named=tuple(named)))
    by_words = _evaluates(candidate, headed=headed) or _scores(candidate) or _is_with_best(candidate)
    if by_words or _is_quotient(candidate):
        return as_evaluation(candidate)
    return candidate


def _scores_folds(candidate: Candidate) -> bool:
    """Whether it gives a measure once for each fold, whose number is no step: `Fold 2 log loss: 0.31`.

    Folds on lines right below each other sum up what was printed before.
    """
    folds = candidate.named[0]
    if not _FOLD.fullmatch(folds.source) or candidate.names_training:
        return False
    counts = integers(candidate.shape.column(folds.at)) or []
    once = len(counts) > 1 and counts == sorted({*counts})
    apart = all(after > before + 1 for before, after in pairwise(candidate.shape.lines))
    measures = any(MEASURE.search(cell.source) for cell in candidate.metrics)
    others = EVIDENCE.difference(_LOSSES).intersection(candidate.columns)
    return once and apart and measures and candidate.place in (None, folds) and not others


def _is_of_one_set(candidate: Candidate) -> bool:
    """Whether it begins with a held-out set, whose loss stands behind a score: `==> Test Acc: 0.5 Loss: 1.2`."""
    apart = candidate.place is None and _LOSSES.issuperset(EVIDENCE.intersection(candidate.columns))
    begins = _BEGINS.match(candidate.shape.english[0]) is not None
    return apart and begins and "val_loss" not in candidate.columns and not candidate.names_training


def _evaluates(candidate: Candidate, *, headed: bool) -> bool:
    """Whether its words, and not its names, say that it evaluates."""
    speaks = headed or EVALUATION.search(b" ".join(candidate.shape.english)) is not None
    if not speaks or not any(MEASURE.search(f"{n.column} {n.source}") for n in candidate.metrics):
        return False
    begins = _BEGINS.match(candidate.shape.english[0]) is not None
    said = candidate.metrics if begins else candidate.named  # `Last test reward: 9. Training step: 10`
    trains = any("train" in named.source.lower() for named in said) or _OF_BOTH.search(candidate.shape.spoken)
    return not trains and (begins or not {"lr", "grad_norm"} & set(candidate.columns))


def _scores(candidate: Candidate) -> bool:
    """Whether it gives precision and recall and nothing of the training."""
    measures = {cell.source.lower().split()[-1] for cell in candidate.metrics if cell.source}
    return {"precision", "recall"} <= measures and not candidate.evidence and candidate.place is None


def _is_quotient(candidate: Candidate) -> bool:
    """Whether it is a line of its own for right answers, `accuracy: 29/100 = 0.29`, and not `882/360 = 2.45`."""
    alone = len(candidate.metrics) == 1 and not candidate.evidence and candidate.place is None
    if not alone or "train" in candidate.metrics[0].source.lower():
        return False
    counted = [cell for cell in candidate.named if cell.slot.column == "counted"]
    counts = [integers(candidate.shape.column(cell.at)) or [] for cell in counted]
    return len(counts) == 2 and all(right <= of for right, of in zip(*counts, strict=False))


def _is_with_best(candidate: Candidate) -> bool:
    """Whether a loss without a place stands beside the best measure so far, which only evaluations have."""
    if candidate.place or not candidate.loses or {"lr", "grad_norm", "dt_ms"} & {*candidate.columns}:
        return False
    best = [cell.source for cell in candidate.metrics if is_best(cell.source)]
    return any(MEASURE.search(name) and "loss" not in name.lower() for name in best)


def as_evaluation(candidate: Candidate) -> Candidate:
    return replace(candidate, role="eval", named=tuple(_as_evaluation(candidate)))


def _as_evaluation(candidate: Candidate) -> list[Named]:
    """Names the loss; of `Loss 2.12 (2.13)` the mean over the evaluation, and not its last batch."""
    means = any(cell.column == "loss_avg" and cell.source.endswith("()") for cell in candidate.named)
    named = [
        replace(cell, column=None) if means and cell.column == "loss" else cell
        for cell in _without_counts(candidate)
    ]
    return _once([replace(n, column="val_loss") if n.column in _LOSSES else n for n in named])


def _without_samples(candidate: Candidate) -> list[Named]:
    """Drops the count of samples seen so far, which is no evaluation, and the number of a model, seed or fold.

    So it does with that of any other thing whose figures follow: `Task 3 val MAE: 4.2`.
    """
    cells = _without_counts(candidate)
    named = [n for n in cells if SAMPLES.search(n.source) or NUMBERED.fullmatch(n.source)]
    named += [n for n in cells if not (is_place(n) or MEASURE.search(n.source)) and _is_label(n, candidate)]
    counts = [n for n in named if integers(candidate.shape.column(n.at)) is not None]
    return [replace(n, column=None) if n in counts else n for n in cells]


def _is_label(cell: Named, candidate: Candidate) -> bool:
    """Whether a bare word stands before it, and the name of the next figure behind it: `Task 3 val MAE: `."""
    before, behind = candidate.shape.words[cell.at : cell.at + 2]
    return _ENDS_BARE.search(before) is not None and _NAMES_NEXT.fullmatch(behind) is not None


def _without_counts(candidate: Candidate) -> list[Named]:
    """Drops a value with its total, such as `minibatch 90/90`, and the best of a measure or a time beside it."""
    dropped = {n.at - 1 for n in candidate.named if n.slot.column == "total"}
    best = {n.at for n in candidate.metrics if is_best(n.source)}
    measured = any(n.at not in best and MEASURE.search(n.column or "") for n in candidate.metrics)
    timed = [n for n in candidate.metrics if n.slot.unit in SECONDS or n.source.lower() in TIMES - {"cost"}]
    times = {n.at for n in timed if not MEASURE.search(n.source)}
    dropped |= best | times if measured else set()
    return [replace(n, column=None) if n.at in dropped and not is_place(n) else n for n in candidate.named]


def _without_sizes(candidate: Candidate) -> Candidate:
    """Drops `Eval batches[100]`, how many of the set the other figures are of."""
    sizes = [n for n in candidate.metrics if _OF_SET.fullmatch(n.source)]
    stay = [n.at for n in sizes if len({*(integers(candidate.shape.column(n.at)) or ())}) == 1]
    if not stay or len(candidate.metrics) == len(stay):
        return candidate
    return replace(
        candidate, named=tuple(replace(n, column=None) if n.at in stay else n for n in candidate.named)
    )


def _without_best(named: Sequence[Named], shape: LineShape) -> list[Named]:
    """Drops the best so far of a measure, and its place, behind the current one: `psnr: 30 Best: 31 @ 500 iter`."""
    best = {n.at for n in named if n.column and is_best(n.source)}
    if not any(n.column and n.at not in best and n.at < min(best, default=0) for n in named):
        return list(named)
    best |= {
        n.at
        for n in named
        if n.at - 1 in best
        and (is_place(n) or _IN_EPOCH.fullmatch(n.source))
        and _OF_BEST.match(shape.words[n.at])
    }
    return [replace(n, column=None) if n.at in best else n for n in named]


def _without_number_in_front(candidate: Candidate) -> Candidate:
    """Leaves out what names the model in front of a place: `VGG 16 - Epoch 3/10`."""
    place, held = candidate.place, {*candidate.changing, *EVIDENCE}
    if place is None or any(cell.at > place.at or cell.column in held for cell in candidate.metrics):
        return candidate
    return replace(candidate, named=places_alone(candidate.named))


def _is_epoch(candidate: Candidate, begins_with: bytes) -> bool:
    """Whether it is `Epoch 3/10` above the lines of that epoch, and not prose about epochs."""
    words = begins_with.split(b" - ")[-1]  # `ResNet18 - Epoch 3/10`
    outer = (b"meta", b"outer", b"global")  # of the loop around that of the tasks or clients
    begins = words.lstrip(b" =-*#[>").lower().startswith((b"ep", b"start", b"begin", b"train", *outer))
    begins = begins and not (_OPTION.match(words) or EVALUATION.search(b" ".join(candidate.shape.english)))
    return (
        begins
        and set(candidate.columns) <= {"epoch", "epochs"}
        and len(b"".join(candidate.shape.words).split()) <= 6
    )


def _once(named: Sequence[Named]) -> list[Named]:
    """Keeps the first value of each column."""
    taken: set[str | None] = set()
    once = []
    for cell in named:
        once.append(replace(cell, column=None) if cell.column in taken else cell)
        taken.add(cell.column)
    return once
