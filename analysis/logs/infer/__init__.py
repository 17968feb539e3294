"""A log of an unknown format -> the format that it is in, in one pass over its lines.

Clean lines go in; the text of a format comes out (what `--learn` writes and `formats.load` reads), with what was
understood. There is no search and no scoring of guesses: lines fall into shapes, values get names, and the shape
that says most about training is the record. Every other shape has a role beside it: an evaluation, a part of the
record, another record, or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gputel.analysis.logs import formats
from gputel.analysis.logs.infer import shapes
from gputel.analysis.logs.infer.candidates import Candidate, LineTable, compile_line, make_candidate, quoted
from gputel.analysis.logs.infer.dialects import MEASURE
from gputel.analysis.logs.infer.places import is_place
from gputel.analysis.logs.infer.shapes import LineShape, line_shapes, without_unit

MOST_LINES = 40_000
MOST_SHAPES = 1_000
MOST_PATTERNS = 40
EXCERPT = 60  # lines; in a longer text a single record may be an example
# A run that stops early prints its best line once more.
_BEST_BELOW = LineTable(
    "best", "again", r"(?i)\bbest (?:iteration|round|epoch|step)(?: is| was)?:\s*$", "est "
)


@dataclass(frozen=True)
class Inferred:
    """An inferred format; `text` is its TOML, `metrics` are the columns that change from record to record."""

    format: formats.Format
    text: str
    metrics: tuple[str, ...]
    step: str | None

    def understood(self, hits: int, candidates: int) -> str:
        """What was inferred, in one line."""
        step = f'step = "{self.step}"' if self.step else "no step"
        summary = f"inferred ({len(self.metrics)} metrics, {step})"
        return f"{summary}, {hits:,} of {candidates:,} candidate lines"


def infer(data: bytes, title: str = "inferred", records: int = 0) -> Inferred | None:
    """Infers the format of clean lines; None where nothing in them looks like training.

    Other formats have read this many `records` of the same log. The lines that are left must then say more to be
    records.
    """
    lines = data.split(b"\n", MOST_LINES)[:MOST_LINES]
    bare = shapes.strip_prefixes(lines)
    candidates = [c for shape in _frequent(line_shapes(lines, bare)) if (c := make_candidate(shape, bare))]
    main = _main(candidates, lines)
    if records and not (main and _stands_beside(main, records)):
        chosen = [replace(c, role="eval") for c in candidates if _evaluates_beside(c)]
        main = max(chosen, key=lambda c: c.shape.count, default=None)
    else:
        chosen = _chosen(candidates, main) if main else []
    return _inferred(candidates, chosen, main, title) if main else None


def _inferred(
    candidates: Sequence[Candidate], chosen: Sequence[Candidate], main: Candidate, title: str
) -> Inferred:
    """The format of the chosen shapes; the others must not look like them."""
    others = [c.shape for c in candidates if c is not main and not is_torn(c.shape, main.shape)]
    text = _toml(chosen, main, title, [shape.example for shape in others if shape.slots > 1])
    records = [c for c in chosen if c.role in ("train", "part", "bar")]
    metrics = dict.fromkeys(column for c in records for column in c.changing)
    place = main.place or next((c.place for c in records if c.place), None)
    learned = formats.load(text, "inferred", title)
    return Inferred(learned, text, tuple(metrics), place.source if place else None)


def _frequent(all_shapes: Sequence[LineShape]) -> list[LineShape]:
    """The most frequent shapes, in the order of the file; those of training recur."""
    return sorted(
        sorted(all_shapes, key=lambda shape: -shape.count)[:MOST_SHAPES], key=lambda shape: shape.first
    )


def _main(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> Candidate | None:
    """The shape of the records: the most frequent one that gives a loss or its like, preferably with the step."""
    few = len(lines) <= EXCERPT
    boxed = few and any(line.shape.is_boxed and line.place for line in candidates)
    records = [
        line
        for line in candidates
        if line.role in ("train", "mixed") and (_is_alive(line, few) or (boxed and _is_boxed_loss(line)))
    ]
    if not records:
        evals = [line for line in candidates if line.role == "eval" and _is_placed(line) and line.is_measured]
        return max((line for line in evals if line.changing), key=lambda line: line.shape.count, default=None)

    def weight(line: Candidate) -> float:
        says = 1 + 2 * ("loss" in line.columns) + 2 * (line.place is not None)
        return says * line.shape.count

    heaviest = max(records, key=weight)
    whole = [
        line for line in records if line.place and line.loses and 5 * line.shape.count >= heaviest.shape.count
    ]
    return heaviest if heaviest.place else max(whole, key=weight, default=heaviest)


def _is_placed(line: Candidate) -> bool:
    """Whether an evaluation says where it stands, or recurs with a loss; any program may print a score."""
    return line.place is not None or ("val_loss" in line.columns and line.shape.count > 2)


def _is_boxed_loss(line: Candidate) -> bool:
    """Whether it is a loss in a box; a box that says the step holds a record."""
    return line.shape.is_boxed and "loss" in line.columns


def _is_alive(line: Candidate, few: bool) -> bool:
    """Whether it measures training: settings do not change, and any program may print a rate."""
    if not line.evidence:
        return False
    if line.place and "loss" in line.columns and line.shape.count < 3:
        rich = len({"loss", "lr", "grad_norm", "dt_ms", "tok_per_sec", "mfu"} & set(line.columns)) > 2
        return (few or rich) and not line.is_quoted
    return line.shape.count > 1 and line.speaks and bool(line.changing)


def _stands_beside(main: Candidate, records: int) -> bool:
    """Whether it is a second kind of record in a log of a known format: frequent, with step and loss."""
    return main.place is not None and "loss" in main.columns and main.shape.count >= max(3, records // 10)


def _evaluates_beside(line: Candidate) -> bool:
    """Whether it evaluates, in a log of a known format: it recurs with other values, or says only the loss."""
    again = line.shape.count > 1 and bool(line.changing)
    bare = line.columns == ["val_loss"] and line.is_terse and not SUMMARY.search(line.shape.spoken)
    return line.role in ("eval", "mixed") and line.is_measured and (again or bare)


def _chosen(candidates: Sequence[Candidate], main: Candidate) -> list[Candidate]:
    header = _header(candidates, main)
    candidates = [_placed(line, main) for line in candidates]
    chosen = [replace(main, role="part" if header else _record_role(main))]
    first = _opening(candidates, header)
    if header and first:
        chosen.append(replace(first, role="train"))
        chosen += [replace(header, role="part")] if first is not header else []
    for line in candidates:
        if line not in (main, header, first):
            role = role_beside(line, main, header)
            role = "bar" if role == "train" and line.shape.is_bar else role
            part = _besides(line, main) if role == "part" else line
            chosen += [replace(part, role=role)] if role and part.columns else []
    rank = {"train": 0, "bar": 0, "part": 1, "eval": 2, "epoch": 3}
    chosen.sort(key=lambda line: (-line.shape.count if len(chosen) > MOST_PATTERNS else 0, rank[line.role]))
    chosen = _average_as_loss(_within_epochs(chosen[:MOST_PATTERNS]))
    return sorted(chosen, key=lambda line: (-len(line.columns), -line.shape.count))


def _placed(line: Candidate, main: Candidate) -> Candidate:
    """Gives a line the place of the records if it differs from them only in units."""
    lacks_place = main.place and line is not main and line.place is None
    if not lacks_place or [*map(without_unit, line.shape.literals)] != [
        *map(without_unit, main.shape.literals)
    ]:
        return line
    named = [
        replace(place, slot=named.slot, unit=named.slot.unit or place.unit) if is_place(place) else named
        for named, place in zip(line.named, main.named, strict=True)
    ]
    return replace(line, named=tuple(named))


def _within_epochs(chosen: list[Candidate]) -> list[Candidate]:
    """Makes `Batch 567/17168` an index within the epoch, where lines above it say the epoch."""
    if not any(line.role == "epoch" for line in chosen):
        return chosen
    named = {"total_steps": "length", **dict.fromkeys(("step", "iteration", "batch"), "index")}
    return [
        replace(line, named=tuple(replace(n, column=named.get(n.column or "", n.column)) for n in line.named))
        if line.role == "train" and "total_steps" in line.columns and "epoch" not in line.columns
        else line
        for line in chosen
    ]


def _average_as_loss(chosen: list[Candidate]) -> list[Candidate]:
    """Calls an average the loss where the records print no other."""
    records = [line for line in chosen if line.role in ("train", "part", "bar")]
    if any("loss" in line.columns for line in records):
        return chosen
    return [
        replace(
            line,
            named=tuple(
                replace(n, column="loss") if n.column == "loss_avg" and not n.source.endswith("()") else n
                for n in line.named
            ),
        )
        if line in records
        else line
        for line in chosen
    ]


def _besides(line: Candidate, main: Candidate) -> Candidate:
    """Drops the columns that the records have already, from a part that has a place."""
    if line.place is None:
        return line
    present = {*main.columns, "index", "length"}
    return replace(
        line, named=tuple(replace(n, column=None) if n.column in present else n for n in line.named)
    )


def _header(candidates: Sequence[Candidate], main: Candidate) -> Candidate | None:
    """A line that only says the step, above the lines of its record."""
    if main.place:
        return None
    above = [
        line
        for line in candidates
        if line.role in ("place", "other", "train") and line.place and not line.shape.is_bar
    ]
    near = [line for line in above if 0.5 <= line.shape.count / main.shape.count <= 2]
    return max(near, key=lambda line: (-line.place_rank, line.shape.count), default=None)


def _opening(candidates: Sequence[Candidate], header: Candidate | None) -> Candidate | None:
    """The first line of a record of several lines: the one with the step, or in a box one above it."""
    if header is None or header.shape.words[0].lstrip()[:1] != b"|":
        return header
    boxed = [
        line
        for line in candidates
        if line.place is None and 0.8 <= line.shape.count / header.shape.count <= 1.2
    ]
    return min([header, *boxed], key=lambda line: line.shape.first)


def _record_role(main: Candidate) -> str:
    if main.shape.is_bar:
        return "bar"
    return "eval" if main.role == "eval" else "train"


def _toml(chosen: Sequence[Candidate], main: Candidate, title: str, others: Sequence[bytes]) -> str:
    head = f"title = {quoted(title)}\ngrammar = 'inferred from the log itself'\n"
    counts: dict[str, int] = {}
    tables = []
    for line in chosen:
        counts[line.role] = counts.get(line.role, 0) + 1
        label = line.role if counts[line.role] == 1 else f"{line.role}_{counts[line.role]}"
        is_main = line.shape is main.shape
        table = compile_line(label, line.role, line.shape, list(line.named), looks=is_main, unlike=others)
        tables.append(table.toml())
    return "\n".join([head, *tables, *([_BEST_BELOW.toml()] if main.role == "mixed" else [])])


SUMMARY = re.compile(
    rb"(?i)\b(?:best|minimum|maximum|finished|summary|total training|training took|early stop|train_runtime)"
    rb"|^\W*wandb:"
)

_BEST = re.compile(
    rb"(?i)\bnew best|best so far|\bis the best|\bimproved\b|\bsaving\b"
)  # repeats an evaluation


def role_beside(line: Candidate, main: Candidate, header: Candidate | None) -> str | None:
    """The role of a shape in a log with this main shape; None if it says nothing of the training."""
    return next((role for applies, role in _RULES if applies(line, main, header)), None)


def _is_copy(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A summary, which repeats what was printed before, or a record that breaks off."""
    is_rare = line.shape.count <= max(2, main.shape.count // 50)
    return (is_rare and _sums_up(line) and not _sums_up(main)) or is_torn(line.shape, main.shape)


def _is_known_epoch(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """An epoch's own line in a log whose records say where they stand without it."""
    stated = main.place is not None and main.place.column in ("step", "epoch")
    return line.role == "epoch" and stated and not main.restarts


def _is_evaluation(line: Candidate, *_: Candidate | None) -> bool:
    """An evaluation with a figure, and not the best one so far once more."""
    repeats = line.place is None and _BEST.search(line.shape.spoken)
    return line.role == "eval" and line.is_measured and not repeats


def _evaluates_epoch(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """A line of a whole epoch that also gives an evaluation."""
    return _is_of_epoch(line, main, header) and line.role == "mixed" and line.is_measured


def _is_part(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    return line.place is None and _belongs(line, main, header)


def _is_no_record(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that lacks what a record has, an example in a text, or the mean over an epoch."""
    lacks = line.place is None or not line.evidence or not line.speaks
    return lacks or line.is_quoted > main.is_quoted or _is_average(line, main)


def _evaluates_rarely(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that gives training and evaluation losses, among more frequent records that only train."""
    is_rarer = line.role == "mixed" != main.role and line.shape.count <= main.shape.count / 2
    return is_rarer and "lr" not in line.columns


def _is_record(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """Another kind of record: it shares metrics with the main one, or recurs with other values."""
    columns = {named.column for named in main.metrics}
    shared = [named for named in line.metrics if named.column in columns]
    fraction = any(
        b"." in value or b"n" in value for named in shared for value in line.shape.column(named.at)
    )
    alike = any(named.column == "loss" for named in shared) or 2 * len(shared) >= len(line.metrics)
    return (fraction and alike) or (line.shape.count > 2 and bool(line.changing))


def _follows(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line right below each record that repeats its loss and does not know its step."""
    if main.place is None or line.place is None or line.place_rank <= main.place_rank or not line.loses:
        return False
    above = set(main.shape.lines)
    return "loss" in main.columns and all(number - 1 in above for number in line.shape.lines)


def _is_of_epoch(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line about a whole epoch, where the records are finer than that."""
    return (
        main.is_fine and not line.is_fine and line.place is not None and line.shape.count <= main.shape.count
    )


# The first rule that applies gives the role; None: the line says nothing of the training.
_RULES: tuple[tuple[Callable[[Candidate, Candidate, Candidate | None], bool], str | None], ...] = (
    (_is_copy, None),
    (_is_known_epoch, None),
    (lambda line, *_: line.role == "epoch", "epoch"),
    (_is_evaluation, "eval"),
    (lambda line, *_: line.role == "eval", None),
    (_follows, "part"),
    (_evaluates_epoch, "eval"),
    (_is_of_epoch, None),
    (_is_part, "part"),
    (_is_no_record, None),
    (_evaluates_rarely, "eval"),
    (_is_record, "train"),
)


def _sums_up(line: Candidate) -> bool:
    """Whether it summarizes the run; words behind the first figure do not count, as `best` may stand there."""
    measured = [n.at for n in line.metrics if MEASURE.search(n.column or "")]
    words = line.shape.english[: measured[0] + 1] if line.role == "eval" and measured else [line.shape.spoken]
    return SUMMARY.search(b" ".join(words)) is not None


def _belongs(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether a line without a step is part of the record above it."""
    share = line.shape.count / main.shape.count
    if header:
        return share >= 0.2
    boxed = line.shape.words[0].lstrip()[:1] == b"|"
    spoken = {"loss", "lr", "grad_norm", "tok_per_sec"} & set(line.columns)
    return 0.5 <= share <= 2 and (boxed or bool(spoken))


def _is_average(line: Candidate, main: Candidate) -> bool:
    """Whether it gives means over an epoch: its names begin with `train_` and those of the records do not."""

    def trained(other: Candidate) -> float:
        return sum(n.source.lower().startswith("train") for n in other.metrics) / len(other.metrics)

    return line.shape.count < main.shape.count and trained(line) > 0.5 > trained(main)


def is_torn(shape: LineShape, whole: LineShape) -> bool:
    """Whether it is a record that breaks off, or has a `?` for a number: a reject and no shape of its own."""
    if shape.count > 2 or whole.count < 50 * shape.count or shape.first < whole.first:
        return False
    questioned = tuple(literal.replace(b"?", b"") for literal in shape.literals) == whole.literals
    return questioned or shape.literals[:-1] == whole.literals[: shape.slots]
