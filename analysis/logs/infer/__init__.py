"""A log of no known format -> the format that it is in, in one pass over its lines.

Clean lines go in, the text of a format comes out (what `--learn` writes and `formats.load` reads) with what was
understood. There is no search and no scoring of guesses: lines fall into shapes, values get names, and the shape
that says most about training is the record that the others are held against.

What a shape is beside that of the records: an evaluation, a part, another record, or nothing of the training.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputel.analysis.logs import formats
from gputel.analysis.logs.infer import candidates, shapes
from gputel.analysis.logs.infer.candidates import Candidate, candidate
from gputel.analysis.logs.infer.dialects import MEASURE
from gputel.analysis.logs.infer.places import is_place
from gputel.analysis.logs.infer.shapes import LineShape, line_shapes, without_unit

MOST_LINES = 40_000
MOST_SHAPES = 1_000
MOST_PATTERNS = 40
EXCERPT = 60  # in a text of so few lines a single record is one; in a longer one it may be an example
# Who stops early prints the best line once more.
_BEST_BELOW = candidates.LineTable(
    "best", "again", r"(?i)\bbest (?:iteration|round|epoch|step)(?: is| was)?:\s*$", "est "
)


@dataclass(frozen=True)
class Inferred:
    """`text` is the format as TOML; `metrics` are the columns that change from record to record."""

    format: formats.Format
    text: str
    metrics: tuple[str, ...]
    step: str | None

    def understood(self, hits: int, candidates: int) -> str:
        step = f'step = "{self.step}"' if self.step else "no step"
        known = f"inferred ({len(self.metrics)} metrics, {step})"
        return f"{known}, {hits:,} of {candidates:,} candidate lines"


def infer(data: bytes, title: str = "inferred", known: int = 0) -> Inferred | None:
    """What format these clean lines are in; None where nothing in them looks like training.

    `known` records of the same log have been read by other formats: what is left must say more to be one.
    """
    lines = data.split(b"\n", MOST_LINES)[:MOST_LINES]
    bare = shapes.strip(lines)
    found = [one for one in (candidate(shape, bare) for shape in _frequent(line_shapes(lines, bare))) if one]
    main = _main(found, lines)
    if known and not (main and _stands_beside(main, known)):
        chosen = [replace(one, role="eval") for one in found if _evaluates_beside(one)]
        main = max(chosen, key=lambda one: one.shape.count, default=None)
    else:
        chosen = _chosen(found, main) if main else []
    if main is None:
        return None
    others = [one.shape for one in found if one is not main and not is_torn(one.shape, main.shape)]
    text = _toml(chosen, main, title, [shape.example for shape in others if shape.slots > 1])
    learned = formats.load(text, "inferred", title)
    records = [one for one in chosen if one.role in ("train", "part", "bar")]
    metrics = dict.fromkeys(column for one in records for column in one.changing)
    place = main.place or next((one.place for one in records if one.place), None)
    return Inferred(learned, text, tuple(metrics), place.source if place else None)


def _frequent(found: Sequence[LineShape]) -> list[LineShape]:
    """Text has more shapes than can be looked at; those of training recur."""
    return sorted(sorted(found, key=lambda shape: -shape.count)[:MOST_SHAPES], key=lambda shape: shape.first)


def _main(found: Sequence[Candidate], lines: Sequence[bytes]) -> Candidate | None:
    """The records: the most frequent shape that gives a loss or its like, the better if it says at which step."""
    few = len(lines) <= EXCERPT
    boxed = few and any(one.shape.is_boxed and one.place for one in found)
    records = [
        one
        for one in found
        if one.role in ("train", "mixed") and (_is_alive(one, few) or (boxed and _is_boxed_loss(one)))
    ]
    if not records:
        evals = [one for one in found if one.role == "eval" and one.place and one.is_measured]
        return max((one for one in evals if one.changing), key=lambda one: one.shape.count, default=None)

    def weight(one: Candidate) -> float:
        known = 1 + 2 * ("loss" in one.columns) + 2 * (one.place is not None)
        return known * one.shape.count

    heaviest = max(records, key=weight)
    whole = [
        one for one in records if one.place and one.loses and 5 * one.shape.count >= heaviest.shape.count
    ]
    return heaviest if heaviest.place else max(whole, key=weight, default=heaviest)


def _is_boxed_loss(one: Candidate) -> bool:
    """In a box that says the step, a single loss is one of a record."""
    return one.shape.is_boxed and "loss" in one.columns


def _is_alive(one: Candidate, few: bool) -> bool:
    """Settings are printed once, or alike by every rank; measurements change, and a rate alone is of anything."""
    if not one.evidence:
        return False
    if one.place and "loss" in one.columns and one.shape.count < 3:
        rich = len({"loss", "lr", "grad_norm", "dt_ms", "tok_per_sec", "mfu"} & set(one.columns)) > 2
        return (few or rich) and not one.is_quoted
    return one.shape.count > 1 and one.speaks and bool(one.changing)


def _stands_beside(main: Candidate, known: int) -> bool:
    """Records of an unknown kind in a log of a known one are many, and say their step and loss."""
    return main.place is not None and "loss" in main.columns and main.shape.count >= max(3, known // 10)


def _evaluates_beside(one: Candidate) -> bool:
    """Evaluations of a log whose records are known come again with other values, or say no more than the loss."""
    again = one.shape.count > 1 and bool(one.changing)
    bare = one.columns == ["val_loss"] and one.is_terse and not SUMMARY.search(one.shape.example)
    return one.role in ("eval", "mixed") and one.is_measured and (again or bare)


def _chosen(found: Sequence[Candidate], main: Candidate) -> list[Candidate]:
    header = _header(found, main)
    found = [_placed(one, main) for one in found]
    chosen = [replace(main, role="part" if header else _record_role(main))]
    first = _opening(found, header)
    if header and first:
        chosen.append(replace(first, role="train"))
        chosen += [replace(header, role="part")] if first is not header else []
    for one in found:
        if one not in (main, header, first):
            role = role_beside(one, main, header)
            role = "bar" if role == "train" and one.shape.is_bar else role
            what = _besides(one, main) if role == "part" else one
            chosen += [replace(what, role=role)] if role and what.columns else []
    rank = {"train": 0, "bar": 0, "part": 1, "eval": 2, "epoch": 3}
    chosen.sort(key=lambda one: (-one.shape.count if len(chosen) > MOST_PATTERNS else 0, rank[one.role]))
    chosen = _within_epochs(chosen[:MOST_PATTERNS])
    return sorted(chosen, key=lambda one: (-len(one.columns), -one.shape.count))


def _placed(one: Candidate, main: Candidate) -> Candidate:
    """A line that differs from a record in units alone counts as records do, though it may be the only one."""
    alone = main.place and one is not main and one.place is None
    if not alone or [*map(without_unit, one.shape.literals)] != [*map(without_unit, main.shape.literals)]:
        return one
    named = [
        replace(theirs, slot=own.slot) if is_place(theirs) else own
        for own, theirs in zip(one.named, main.named, strict=True)
    ]
    return replace(one, named=tuple(named))


def _within_epochs(chosen: list[Candidate]) -> list[Candidate]:
    """Under lines that say the epoch, `Batch 567/17168` ends the epoch and not the training."""
    if not any(one.role == "epoch" for one in chosen):
        return chosen
    named = {"total_steps": "length", **dict.fromkeys(("step", "iteration", "batch"), "index")}
    return [
        replace(one, named=tuple(replace(n, column=named.get(n.column or "", n.column)) for n in one.named))
        if one.role == "train" and "total_steps" in one.columns and "epoch" not in one.columns
        else one
        for one in chosen
    ]


def _besides(one: Candidate, main: Candidate) -> Candidate:
    """What it says beyond the record, of a line that has a place and a loss, too."""
    if one.place is None:
        return one
    known = {*main.columns, "index", "length"}
    return replace(one, named=tuple(replace(n, column=None) if n.column in known else n for n in one.named))


def _header(found: Sequence[Candidate], main: Candidate) -> Candidate | None:
    """A line that only says the step, over the lines of its record."""
    if main.place:
        return None
    above = [
        one for one in found if one.role in ("place", "other", "train") and one.place and not one.shape.is_bar
    ]
    near = [one for one in above if 0.5 <= one.shape.count / main.shape.count <= 2]
    return max(near, key=lambda one: (-one.place_rank, one.shape.count), default=None)


def _opening(found: Sequence[Candidate], header: Candidate | None) -> Candidate | None:
    """The line that a record of several lines begins with: that of the step, or one above it in a box."""
    if header is None or header.shape.words[0].lstrip()[:1] != b"|":
        return header
    boxed = [one for one in found if one.place is None and 0.8 <= one.shape.count / header.shape.count <= 1.2]
    return min([header, *boxed], key=lambda one: one.shape.first)


def _record_role(main: Candidate) -> str:
    if main.shape.is_bar:
        return "bar"
    return "eval" if main.role == "eval" else "train"


def _toml(chosen: Sequence[Candidate], main: Candidate, title: str, others: Sequence[bytes]) -> str:
    head = f"title = {candidates.quoted(title)}\ngrammar = 'inferred from the log itself'\n"
    counts: dict[str, int] = {}
    tables = []
    for one in chosen:
        counts[one.role] = counts.get(one.role, 0) + 1
        label = one.role if counts[one.role] == 1 else f"{one.role}_{counts[one.role]}"
        is_main = one.shape is main.shape
        line = candidates.compile_line(
            label, one.role, one.shape, list(one.named), looks=is_main, unlike=others
        )
        tables.append(line.toml())
    return "\n".join([head, *tables, *([_BEST_BELOW.toml()] if main.role == "mixed" else [])])


SUMMARY = re.compile(
    rb"(?i)\b(?:best|minimum|maximum|finished|summary|total training|training took|early stop|train_runtime)"
    rb"|^\W*wandb:"
)

_BEST = re.compile(
    rb"(?i)\bnew best|best so far|\bis the best|\bimproved\b|\bsaving\b"
)  # says again what was said


def role_beside(one: Candidate, main: Candidate, header: Candidate | None) -> str | None:
    """What a shape is beside the main one, or None where it is nothing of the training."""
    rare = one.shape.count <= max(2, main.shape.count // 50)
    if (rare and _sums_up(one) and not _sums_up(main)) or is_torn(one.shape, main.shape):
        return None
    if one.role == "epoch":
        stated = main.place is not None and main.place.column in ("step", "epoch")
        return None if stated and not main.restarts else "epoch"
    if one.role == "eval":
        again = one.place is None and _BEST.search(one.shape.example)
        return "eval" if one.is_measured and not again else None
    if _follows(one, main):
        return "part"
    if _is_of_epoch(one, main):
        return "eval" if one.role == "mixed" and one.is_measured else None
    if one.place is None:
        return "part" if _belongs(one, main, header) else None
    if not one.evidence or not one.speaks or one.is_quoted > main.is_quoted or _is_average(one, main):
        return None
    rarer = one.role == "mixed" != main.role and one.shape.count <= main.shape.count / 2
    if rarer and "lr" not in one.columns:
        return "eval"
    shared = [n for n in one.metrics if n.column in {m.column for m in main.metrics}]
    fraction = any(b"." in value or b"n" in value for n in shared for value in one.shape.column(n.at))
    known = fraction and (any(n.column == "loss" for n in shared) or 2 * len(shared) >= len(one.metrics))
    return "train" if known or (one.shape.count > 2 and one.changing) else None


def _sums_up(one: Candidate) -> bool:
    """What is the best so far may stand behind what was measured now."""
    measured = [n.at for n in one.metrics if MEASURE.search(n.column or "")]
    said = one.shape.words[: measured[0] + 1] if one.role == "eval" and measured else [one.shape.example]
    return SUMMARY.search(b" ".join(said)) is not None


def _belongs(one: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether a line without a step is part of the record above it."""
    share = one.shape.count / main.shape.count
    if header:
        return share >= 0.2
    boxed = one.shape.words[0].lstrip()[:1] == b"|"
    spoken = {"loss", "lr", "grad_norm", "tok_per_sec"} & set(one.columns)
    return 0.5 <= share <= 2 and (boxed or bool(spoken))


def _follows(one: Candidate, main: Candidate) -> bool:
    """Whether it stands right below records, prints their loss once more, and does not know their step."""
    if main.place is None or one.place is None or one.place_rank <= main.place_rank or not one.loses:
        return False
    above = set(main.shape.lines)
    return "loss" in main.columns and all(number - 1 in above for number in one.shape.lines)


def _is_of_epoch(one: Candidate, main: Candidate) -> bool:
    """What is said of a whole epoch, where the records are finer than that."""
    return main.is_fine and not one.is_fine and one.place is not None and one.shape.count <= main.shape.count


def _is_average(one: Candidate, main: Candidate) -> bool:
    """The means of an epoch, which say `train_` where the records do not."""

    def trained(candidate: Candidate) -> float:
        return sum(n.source.lower().startswith("train") for n in candidate.metrics) / len(candidate.metrics)

    return one.shape.count < main.shape.count and trained(one) > 0.5 > trained(main)


def is_torn(shape: LineShape, whole: LineShape) -> bool:
    """A record that breaks off, or has a `?` where a number belongs, is to be a reject and no shape of its own."""
    if shape.count > 2 or whole.count < 50 * shape.count or shape.first < whole.first:
        return False
    questioned = tuple(literal.replace(b"?", b"") for literal in shape.literals) == whole.literals
    return questioned or shape.literals[:-1] == whole.literals[: shape.slots]
