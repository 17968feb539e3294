"""Names of evaluations that tell sets, sums, parts and classes apart: `test_loss` beside `val_loss`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.dialects import FULL_TOTALS, PART_LOSS, SETS
from gputel.analysis.logs.infer.losses import is_average, is_sum
from gputel.analysis.logs.infer.named import is_place
from gputel.analysis.logs.names import is_evaluation, legal
from gputel.analysis.logs.patterns import RECORDS

_HELD_OUT = re.compile(rb"(?i)(?<![a-z])(?:(?P<test>test(?:ing)?)|(?P<dev>dev)|vali?|valid\w*)(?![a-z])")
_EVALUATES = re.compile(rb"(?i)(?<![a-z])eval(?:uat\w*)?(?![a-z])")
_CLASS = re.compile(rb"(?P<label>[A-Za-z][\w/-]*)\s*:\s+[A-Za-z]\w*\s*[:=]\s*$")  # `LOC: precision: `


def with_sets(
    chosen: Sequence[Candidate], names: Mapping[str, str] = MappingProxyType({})
) -> list[Candidate]:
    """Names the measures of a second set apart, where lines of the first give the same ones.

    Without such lines a test at the end of a run is its evaluation. Lines of other formats gave columns of these
    printed `names`.
    """
    sets = {line: _held_out(line) for line in chosen if line.role == "eval"}
    beside = [(column, of) for line in chosen if line.role in RECORDS for column, of in _sets_beside(line)]
    beside += [(c, _set(name.encode()) or "val") for c, name in names.items() if is_evaluation(c)]
    all_sets = {*sets.values(), *(of for _, of in beside)}
    first = next((held_out for held_out in ("val", "dev") if held_out in all_sets), None)
    validated = {column for line, of in sets.items() if of and of == first for column in line.columns}
    validated |= {column for column, of in beside if of == first}
    others = {line: of for line, of in sets.items() if of not in (None, first)}
    return [_of_set(line, validated, others[line]) if line in others else line for line in chosen]


def _sets_beside(record: Candidate) -> Iterator[tuple[str, str]]:
    """The evaluations of a record's line, with their sets."""
    for cell in record.metrics:
        if cell.column and is_evaluation(cell.column):
            yield cell.column, _set(cell.source.encode()) or "val"


def _of_set(line: Candidate, validated: set[str], held_out: str) -> Candidate:
    named = validated & {cell.column for cell in line.metrics if held_out not in (cell.column or "").lower()}
    return line.renamed({column: f"{held_out}_{column.removeprefix('val_')}" for column in named})


def with_own_names(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Leaves its own name to `val ##### 0.02` where other lines say that theirs is the validation loss.

    So it does to `Total eval loss: 40.3`, a sum over batches, beside `Average eval loss: 1.2`; and to
    `Final Test: 71.2` where records print scores by the names of sets, `Valid: 70.4%`; and to a part,
    `validation/main/cls_loss`, beside `validation/main/loss` or another part.
    """
    evals = [line for line in chosen if line.role == "eval"]
    cells = {cell for line in evals for cell in line.metrics if cell.column == "val_loss"}
    scores = any((c.column or "") == f"{c.source.lower()}_score" for line in chosen for c in line.metrics)
    if not (scores or any("loss" in cell.source.lower() for cell in cells)):
        return list(chosen)
    averages = any(is_average(cell.source) for cell in cells)
    bare = {c for c in cells if c.source.lower() in SETS or (averages and is_sum(c.source))}
    bare |= {cell for cell in cells if scores and "loss" not in cell.source.lower()}
    last = {cell: cell.source.lower().split("/")[-1] for cell in cells}
    parts = {c for c, word in last.items() if PART_LOSS.search(word) and not is_evaluation(word)}
    parts = {cell for cell in parts if last[cell] not in FULL_TOTALS}
    several = len({last[cell] for cell in parts}) > 1 or not {"loss", *FULL_TOTALS}.isdisjoint(last.values())
    bare |= parts if several else set()
    return [
        replace(line, named=tuple(replace(c, column=legal(c.source)) if c in bare else c for c in line.named))
        if line in evals
        else line
        for line in chosen
    ]


def with_classes(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Names the figures of each class apart, `PER_precision`, in rows right below those of all classes.

    So it does in `P-wave: MAE=0.04, F1=0.98` and `S-wave: MAE=0.06, F1=0.97` below it.
    """
    evals = [line for line in chosen if line.role == "eval" and line.place is None]
    classes = {line: whole for line in evals for whole in evals if _is_class_of(line, whole, evals)}
    classes |= {line: line for line in evals for other in evals if _are_classes(line, other)}
    return [_of_class(line, classes[line]) if line in classes else line for line in chosen]


def _is_class_of(line: Candidate, whole: Candidate, evals: Sequence[Candidate]) -> bool:
    """Whether it gives some of the same figures as another line, and always stands below it, or below its like."""
    if line is whole or not _label(line) or _label(whole):
        return False
    columns = set(line.columns)
    if len(columns) < 2 or not columns < {*whole.columns}:
        return False
    above = {number for other in evals if columns <= {*other.columns} for number in other.shape.lines}
    return line.shape.first > whole.shape.first and all(
        {number - 1, number - 2} & above  # a blank line may stand between them
        for number in line.shape.lines
    )


def _are_classes(line: Candidate, other: Candidate) -> bool:
    """Whether two labels have the same figures, one right below the other each time."""
    labels = [_label(each) for each in (line, other)]
    if not all(labels) or labels[0] == labels[1] or any(label.lower() in SETS for label in labels):
        return False
    first, second = sorted((line, other), key=lambda each: each.shape.first)
    below = [number + 1 for number in first.shape.lines]
    return (
        len(set(line.columns)) > 1
        and {*line.columns} == {*other.columns}
        and below == list(second.shape.lines)
    )


def _label(line: Candidate) -> str:
    """The class in front of the first figure, or nothing."""
    label = _CLASS.search(line.shape.words[0])
    return label["label"].decode(errors="replace") if label else ""


def _of_class(line: Candidate, whole: Candidate) -> Candidate:
    columns = set(whole.columns)
    named = (
        replace(c, column=legal(f"{_label(line)}_{c.column}") if c.column in columns else None)
        for c in line.named
    )
    return replace(line, named=tuple(named))


def _held_out(line: Candidate) -> str | None:
    """The set that the line names before its first figure: `val`, `dev` or `test`."""
    first = next((cell.at for cell in line.named if cell.column and not is_place(cell)), 0)
    return _set(b" ".join(line.shape.english[: first + 1]))


def _set(words: bytes) -> str | None:
    """The set that is named; `Evaluation on the test set` is of the test set, and `Eval loss` of the validation."""
    named = _HELD_OUT.search(words) or _EVALUATES.search(words)
    return None if named is None else named.lastgroup or "val"
