"""Tags of stores -> columns, with the vocabulary that logs have: `eval/loss` is `val_loss`, `Loss/train` is `loss`.

A tag is split at its slashes; a part such as `val` makes it an evaluation. Where two tags mean one column, the one
with more values has it, and the other keeps its own name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gputel.analysis.logs import names
from gputel.analysis.logs.patterns import Field

# Words by which tools tell training from evaluation, in tags and as names of folders.
TRAINING = frozenset({"train", "training"})
EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
PARTS = TRAINING | EVALUATION
RECORD_METRICS = frozenset({"loss", "lr", "grad_norm", "dt_ms", "tok_per_sec"})
"""A step with one of these is a record; where a store has none of them, every step with a value is one."""

RESERVED = frozenset(
    "phase attempt step iteration batch line time rank node name value kind run total_steps".split()
)
LAST_PART = frozenset({"lr", "grad_norm", "dt_ms", "tok_per_sec"})
CROSS_ENTROPY = (
    "ce",
    "ce_loss",
    "loss_ce",
    "cross_entropy",
    "cross_entropy_loss",
    "xent",
    "xent_loss",
    "nll",
    "nll_loss",
)
_OF_EPOCHS = re.compile(r"^epoch_(?=.)|(?<=.)_epoch$")
_OF_STEPS = re.compile(r"(?<=.)_step$")


@dataclass(frozen=True)
class TagMeaning:
    """What a tag is called here. `field` says what it was called and how its numbers are scaled."""

    column: str
    is_evaluation: bool
    field: Field


def is_part(name: str) -> bool:
    """Whether a tag or a folder has this name for training or evaluation."""
    return name.lower() in PARTS


def meanings(counts: Mapping[str, int]) -> dict[str, TagMeaning]:
    """Names the column of every tag; `counts` are the values of each."""
    return _promoted(_separated({tag: _meaning(tag) for tag in counts}, counts))


def _separated(found: Mapping[str, TagMeaning], counts: Mapping[str, int]) -> dict[str, TagMeaning]:
    """Gives each column to the tag with the most values; of equal ones, to the first."""
    order = list(found)
    owners: dict[tuple[bool, str], str] = {}
    for tag in sorted(found, key=lambda tag: (-counts[tag], order.index(tag))):
        owners.setdefault((found[tag].is_evaluation, found[tag].column), tag)
    taken = {column for _, column in owners}
    separated = {}
    for tag, meaning in found.items():
        if owners[meaning.is_evaluation, meaning.column] == tag:
            separated[tag] = meaning
            continue
        own = names.legal(tag)
        while own in taken:
            own += "_"
        taken.add(own)
        separated[tag] = TagMeaning(own, meaning.is_evaluation, Field(own, tag))
    return separated


def _promoted(found: dict[str, TagMeaning]) -> dict[str, TagMeaning]:
    """Takes an average for the total loss where no tag is one; else a cross entropy; else the only `x/loss`."""
    for evaluation, column in ((False, "loss"), (True, "val_loss")):
        mine = {m.column: tag for tag, m in found.items() if m.is_evaluation == evaluation}
        prefix = "val_" if evaluation else ""
        candidates = [f"{prefix}loss_avg", *(prefix + name for name in CROSS_ENTROPY)]
        best = next((mine[name] for name in candidates if name in mine), None)
        losses = [tag for tag in mine.values() if _last_part(tag) == "loss"]
        if best is None and len(losses) == 1:
            best = losses[0]
        if column not in mine and best is not None:
            found[best] = replace(found[best], column=column)
    return found


def _last_part(tag: str) -> str | None:
    """The last part of a tag that does not name a part of the data."""
    parts = (part.strip().lower() for part in reversed(tag.split("/")))
    return next((part for part in parts if part and part not in EVALUATION | TRAINING), None)


def _meaning(tag: str) -> TagMeaning:
    parts = [part for part in tag.split("/") if part] or [tag]
    lowered = [part.strip().lower() for part in parts]
    is_evaluation = any(part in EVALUATION for part in lowered[:-1]) or lowered[-1] in EVALUATION
    rest = [part for part, low in zip(parts, lowered, strict=True) if low not in EVALUATION | TRAINING]
    if is_evaluation:
        return _evaluation(rest or ["value"], tag)
    field = _field(rest or parts, tag)
    return TagMeaning(field.column, names.is_evaluation(field.column), field)


def _evaluation(rest: Sequence[str], tag: str) -> TagMeaning:
    """`eval/loss`, `Loss/val` and `validation/epoch_loss` are `val_loss`; `eval/acc` is `val_acc`."""
    word = _OF_STEPS.sub("", _OF_EPOCHS.sub("", "_".join(rest)))
    field = _known(word, tag)
    column = field.column
    if column == "loss_avg":
        column = "loss"
    if not names.is_evaluation(column):
        column = f"val_{names.legal(column)}"
    return TagMeaning(column, True, field)


def _field(rest: Sequence[str], tag: str) -> Field:
    """Looks up the whole name, then its last part where that is a learning rate, a norm, a time or a rate."""
    whole = "_".join(rest)
    field = _known(whole, tag)
    if field.column != names.legal(whole):
        return field
    bare = _OF_EPOCHS.sub("", whole)
    if bare != whole:
        found = _known(bare, tag)
        return replace(found, column="loss_avg") if found.column == "loss" else found
    if re.match(r"(?i)lr(?:-|$)", rest[0]):
        return _known("lr", tag)  # a rate for each group of parameters: `lr/pg0`, `lr-AdamW/pg1`
    last = _known(rest[-1], tag)
    return last if last.column in LAST_PART else field


_VOCABULARY = names.Vocabulary()


def _known(word: str, tag: str) -> Field:
    field = _VOCABULARY.field(word.encode(), b"")
    column = names.legal(word) if field is None else field.column
    if field is None or column in RESERVED:
        return Field(f"{column}_" if column in RESERVED else column, tag)
    return replace(field, source=tag)
