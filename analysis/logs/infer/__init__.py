"""A log of an unknown format -> the format that it is in, in one pass over its lines.

Clean lines go in; the text of a format comes out (what `--learn` writes and `formats.load` reads), with what was
understood. There is no search and no scoring of guesses: lines fall into shapes, values get names, and the shape
that says most about training is the record. Every other shape has a role beside it: an evaluation, a part of the
record, another record, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gputel.analysis import text
from gputel.analysis.logs import formats
from gputel.analysis.logs.infer import (
    announcements,
    blocks,
    boxes,
    loops,
    main_line,
    other_domains,
    renamed,
    score_blocks,
    sections,
    settings_of_measures,
    short_sets,
    trainings,
)
from gputel.analysis.logs.infer.candidates import Candidate, is_best
from gputel.analysis.logs.infer.dialects import TRAINED
from gputel.analysis.logs.infer.evaluation_names import with_classes, with_own_names, with_sets
from gputel.analysis.logs.infer.headings import EVALUATION
from gputel.analysis.logs.infer.line_tables import LineTable, compile_line, longer_names, quoted
from gputel.analysis.logs.infer.losses import is_average
from gputel.analysis.logs.infer.named import is_place
from gputel.analysis.logs.infer.roles import SUMMARY, evaluates_each, is_told_apart, role_beside
from gputel.analysis.logs.infer.settings import without_settings
from gputel.analysis.logs.infer.shape_roles import make_candidate
from gputel.analysis.logs.infer.shapes import LineShape, line_shapes, without_unit
from gputel.analysis.logs.infer.slots import words_before
from gputel.analysis.logs.infer.torn import is_torn
from gputel.analysis.logs.line_prefixes import strip_prefixes
from gputel.analysis.logs.names import is_evaluation, legal
from gputel.analysis.logs.patterns import NOTHING_READ, RECORDS, AlreadyRead, lazy_regex

MOST_LINES = 40_000
MOST_SHAPES = 1_000
MOST_PATTERNS = 60
_CROWD = 200  # shapes
# `Loss for fold 3: 0.5` sums up
_OF_RUN = lazy_regex(r"(?i)\b(?:for|of) (?:fold|split|trial|seed|run) ?#? ?$")
_MARK = lazy_regex(
    rb"(?<![*\w])\*{1,3}(?![*\w])|\xe2(?:\x9c[\x93\x94]|\x98\x85|\xad\x90)"
)  # of the best so far
# A run that stops early prints its best line once more.
_BEST_BELOW = LineTable(
    "best", "again", r"(?i)\bbest (?:iteration|round|epoch|step)(?: is| was)?:\s*$", "est "
)


@dataclass(frozen=True)
class Inferred:
    """An inferred format; `text` is its TOML, `metrics` are the columns that change from record to record.

    `evaluated` are those that change from evaluation to evaluation.
    `average` is the printed name of the loss where it is a running average, and no current one is printed.
    """

    format: formats.Format
    text: str
    metrics: tuple[str, ...]
    step: str | None
    average: str | None = None
    evaluated: tuple[str, ...] = ()

    def understood(self, hits: int, candidates: int) -> str:
        """What was inferred, in one line."""
        step = f'step = "{self.step}"' if self.step else "no step"
        loss = f', loss is a running average, "{self.average}"' if self.average else ""
        return f"inferred ({self._columns()}, {step}{loss}), {hits:,} of {candidates:,} candidate lines"

    def _columns(self) -> str:
        if self.metrics:
            return text.counted(len(self.metrics), "metric")
        return (
            f"evaluations only: {', '.join(self.evaluated)}" if self.evaluated else "no metric that changes"
        )


def infer(data: bytes, title: str = "inferred", read: AlreadyRead = NOTHING_READ) -> Inferred | None:
    """Infers the format of clean lines; None where nothing in them looks like training.

    Where other formats have read records of the same log, the lines that are left must say more to be records.
    """
    lines = data.split(b"\n", MOST_LINES)[:MOST_LINES]
    bare = strip_prefixes(lines)
    every = _made(lines, bare)
    candidates = loops.without_evaluations(short_sets.with_evaluations(every), bare)
    candidates = score_blocks.with_scores_below(candidates)
    candidates = other_domains.without_others(without_settings(candidates, bare), bare)
    found = sections.find(candidates, bare)
    candidates = [line for line in candidates if not (found and found.heads(line))]
    main = main_line.choose(candidates, lines)
    if main:
        record, main = main, renamed.of_evaluated(main, candidates)
        candidates = [main if line is record else line for line in candidates]
        candidates = trainings.without_results_of_all(candidates, main)
    if read.records and not (main and main_line.stands_beside(main, read)):
        chosen = _evaluating(candidates, read)
        main = max(chosen, key=lambda c: c.shape.count, default=None)
    else:
        chosen = _chosen(candidates, main, lines) if main else []
    if main is None or not chosen:
        return None
    bars = [line for line in chosen if line.role == "bar"]
    chosen = _below_passes(chosen, main, bars, read)
    opening = [c for c in chosen if not c.metrics and c.role != "tested"]
    headings = [*found.tables()] if found else announcements.patterns(main, bare, opening, bars)
    chosen = [c for c in chosen if not (headings and c.role == "tested")]  # they announce a loop
    headings = [*headings, *trainings.patterns(chosen, bare)]
    if border := boxes.border(chosen, main, bare):
        chosen, headings = boxes.without_opener(chosen), [*headings, border]
    return _inferred(every, [*chosen, *_beside(candidates, chosen, main, found)], main, title, headings)


def _made(lines: Sequence[bytes], bare: Sequence[bytes]) -> list[Candidate]:
    """A candidate for each shape in which something can matter, and for each setting of its measures."""
    shapes = _frequent(line_shapes(lines, bare))
    crowded = len(shapes) > _CROWD
    made = (c for shape in shapes if (c := make_candidate(shape, bare, crowded=crowded)))
    return [each for candidate in made for each in settings_of_measures.apart(candidate)]


def _evaluating(candidates: Sequence[Candidate], read: AlreadyRead) -> list[Candidate]:
    """The lines that evaluate beside the records of other formats, or say that their epochs are over."""
    evals = [replace(c, role="eval") for c in candidates if _evaluates_beside(c)]
    evals = [c for c in evals if read.passes < 2 or not trainings.is_of_all(c)]
    chosen = with_classes(with_sets(evals, read.names))
    return chosen if any(c.place for c in chosen) else [*chosen, *blocks.epochs_over(candidates, read.passes)]


def _below_passes(
    chosen: list[Candidate], main: Candidate, bars: Sequence[Candidate], read: AlreadyRead
) -> list[Candidate]:
    """Marks the main line where it stands below each pass of a bar that names no epoch."""
    nameless = [bar for bar in bars if "epoch" not in bar.columns]
    passes = blocks.passes(nameless[0]) if len(nameless) == 1 else read.passes
    ends = blocks.first_below_passes(main, passes) if read.records or nameless else None
    if ends is None:
        return chosen
    return [replace(line, ends=ends) if line.shape is main.shape else line for line in chosen]


def _beside(
    candidates: Sequence[Candidate],
    chosen: Sequence[Candidate],
    main: Candidate,
    found: sections.Sections | None,
) -> Iterator[Candidate]:
    """The measures that stand beside the loss, `acc: 0.5`, in sections or told apart from `val acc: 0.4`."""
    known = [line.shape for line in chosen]
    evaluated = [column for line in chosen if line.role == "eval" for column in line.columns]
    for line in candidates:
        if line.shape not in known:
            role = found.role(line) if found else None
            role = role or ("part" if is_told_apart(line, main, evaluated, candidates) else None)
            if role:
                yield replace(line, role=role)


def _inferred(
    candidates: Sequence[Candidate],
    chosen: Sequence[Candidate],
    main: Candidate,
    title: str,
    above: Sequence[LineTable],
) -> Inferred:
    """The format of the chosen shapes; the others must not look like them."""
    others = [c.shape for c in candidates if c.shape is not main.shape]
    others = [shape for shape in others if not is_torn(shape, main.shape)]
    text = _toml(chosen, main, title, others)
    text = "\n".join([text, *(table.toml() for table in above)])
    records = [c for c in chosen if c.role in RECORDS]
    metrics = dict.fromkeys(column for c in records for column in c.changing)
    evaluated = dict.fromkeys(column for c in chosen if c.role == "eval" for column in c.changing)
    place = main.place or next((c.place for c in records if c.place), None)
    learned = formats.load(text, "inferred", title)
    losses = [cell for line in records for cell in line.metrics if cell.column == "loss"]
    average = losses[0].source if losses and is_average(losses[0].source) else None
    step = place.source if place else None
    return Inferred(learned, text, tuple(metrics), step, average, tuple(evaluated))


def _frequent(all_shapes: Sequence[LineShape]) -> list[LineShape]:
    """The most frequent shapes, in the order of the file; those of training recur."""
    return sorted(
        sorted(all_shapes, key=lambda shape: -shape.count)[:MOST_SHAPES], key=lambda shape: shape.first
    )


def _evaluates_beside(line: Candidate) -> bool:
    """Whether it evaluates, in a log of a known format: it recurs with other values, or says only
    the loss, or that and scores of its set.

    A lone `loss = 0.72` below a heading repeats one of the figures beside it, but `Train loss: 0.72` is the mean of
    an epoch. Without a word for evaluating, a score that is computed on held-out data must say its place.
    """
    again = line.shape.count > 1 and bool(line.changing)
    if line.place and _OF_RUN.search(words_before(line.shape, line.place.at)):
        return False
    if line.role == "train" and line.is_terse and not line.place and line.columns == ["loss"]:
        return again and TRAINED.match(legal(line.metrics[0].source).lower()) is not None
    if line.role == "other" and line.place and not line.place.guessed and line.scores_held_out:
        return again and not SUMMARY.search(line.shape.spoken)
    says = EVALUATION.search(line.shape.spoken) and not SUMMARY.search(line.shape.spoken)
    bare = (
        "val_loss" in line.columns and all(map(is_evaluation, line.columns)) and line.is_terse and bool(says)
    )
    return line.role in ("eval", "mixed") and line.is_measured and (again or bare)


def _chosen(candidates: Sequence[Candidate], main: Candidate, lines: Sequence[bytes]) -> list[Candidate]:
    footer = blocks.footer(candidates, main)
    above = None if main.place or footer else blocks.header_above(candidates, main, lines)
    body = blocks.members(candidates, above, lines) if above else []
    header = above or footer or blocks.header(candidates, main)
    if main.place is None and header is None:
        candidates = [renamed.of_round(line, main) for line in candidates]
    if header and header.place and is_best(header.place.source):
        return []  # `Best model at step 900:`, and its figures below, sum up a run
    candidates = [renamed.of_epoch(renamed.of_pass(_placed(line, main), main), main) for line in candidates]
    first = (
        blocks.first_of(candidates, footer, main, lines)
        if footer
        else blocks.opening(candidates, header, lines)
    )
    chosen = [] if main is first else [replace(main, role="part" if header else _record_role(main))]
    if header and first:
        chosen.append(replace(first, role="train"))
        chosen += [replace(header, role="part")] if first is not header else []
    taken = [line.shape for line in (main, header, first) if line]
    ended = blocks.ended_epochs(candidates, main)
    for line in candidates:
        if line.shape not in taken:
            ends = ended.get(line)
            over = ends is not None and not line.metrics  # `Finished epoch 3`
            role = "epoch" if over else role_beside(line, main, header)
            if above and role in ("train", "part", None):
                role = "part" if line in body else None
            if line.shape.is_bar:
                line = renamed.counted(line) if role == "eval" else line
                role = "bar" if role == "train" else _of_evaluation_bar(line) if role == "eval" else role
            role = "train" if role is None and _rewards_too(line, main) else role
            part = renamed.besides(line, main) if role == "part" else line
            is_of_above = role == "eval" and evaluates_each(line, main, header)
            part = replace(part, ends=ends, is_of_above=is_of_above)
            chosen += [replace(part, role=role)] if role and part.columns else []
    rank = {"train": 0, "bar": 0, "part": 1, "eval": 2, "eval_bar": 2, "tested": 2, "epoch": 3}
    cuts = len(chosen) > MOST_PATTERNS  # but not the lines that say where the others stand
    chosen.sort(key=lambda line: (cuts and bool(line.metrics), -cuts * line.shape.count, rank[line.role]))
    chosen = blocks.with_one_time(chosen[:MOST_PATTERNS])
    chosen = with_own_names(renamed.average_as_loss(renamed.within_epochs(chosen)))
    chosen = with_classes(with_sets(chosen))
    return sorted(chosen, key=_specific)


def _specific(line: Candidate) -> tuple[bool, bool, int, int, int]:
    """Sorts the pattern of `Evaluation Epoch 3 - Loss` before that of `Epoch 3 - Loss`, which it contains.

    Lines without figures come last: the last line of an evaluation's loop has a pattern of its own. A bar of an
    evaluation comes first: that of the training may begin with any words.
    """
    return (
        not line.metrics,
        line.role != "eval_bar",
        -len(line.columns),
        -len(line.shape.words[0].strip()),
        -line.shape.count,
    )


def _placed(line: Candidate, main: Candidate) -> Candidate:
    """Gives a line the place of the records if it differs from them only in units, or in a mark: `best 0.5 *`."""
    lacks_place = main.place and line is not main and line.place is None
    if not lacks_place or [*map(_unmarked, line.shape.literals)] != [*map(_unmarked, main.shape.literals)]:
        return line
    named = [
        replace(place, slot=named.slot, unit=named.slot.unit or place.unit) if is_place(place) else named
        for named, place in zip(line.named, main.named, strict=True)
    ]
    return replace(line, named=tuple(named))


def _unmarked(literal: bytes) -> bytes:
    return b" ".join(_MARK.sub(b" ", without_unit(literal)).split())


def _rewards_too(line: Candidate, main: Candidate) -> bool:
    """Whether both give rewards, in a log without a loss: `STATE observe` and `STATE train` of one agent.

    So are `Episode 3: avg score 9.5` and `Step 500: avg score 8.5`.
    """
    if main.role != "train" or main.evidence or line.evidence or not main.rewards:
        return False
    names, others = ({cell.source for cell in each.metrics} for each in (line, main))
    return line.rewards or (line.place is not None and bool(names) and names <= others)


def _of_evaluation_bar(line: Candidate) -> str:
    """The role of a bar of an evaluation; one that prints no count is read redraw by redraw."""
    return "eval_bar" if {"count", "total"} <= {*line.columns} else "eval"


def _record_role(main: Candidate) -> str:
    if main.shape.is_bar:
        return "bar"
    return "eval" if main.role == "eval" else "train"


def _toml(chosen: Sequence[Candidate], main: Candidate, title: str, others: Sequence[LineShape]) -> str:
    head = f"title = {quoted(title)}\ngrammar = 'inferred from the log itself'\n"
    counts: dict[str, int] = {}
    tables = []
    unlike = [shape.example for shape in others if shape.slots > 1]
    left = [shape for shape in others if shape not in {line.shape for line in chosen}]
    for line in chosen:
        counts[line.role] = counts.get(line.role, 0) + 1
        label = line.role if counts[line.role] == 1 else f"{line.role}_{counts[line.role]}"
        is_main = line.shape is main.shape
        table = compile_line(label, line.role, line.shape, list(line.named), looks=is_main, unlike=unlike)
        opens = not (main.evidence or main.role == "eval")
        opens = opens and not any(c.shape is main.shape and c.role == "train" for c in chosen)
        if line.role == "train":  # a header alone is none: the run may stop below it
            rewards = is_main or (opens and bool(line.metrics)) or _rewards_too(line, main)
        else:
            rewards = is_main and opens and line.role == "part"
        table = replace(table, is_record=rewards and not line.evidence)
        table = replace(table, ends=line.ends, is_of_above=line.is_of_above)
        if line.role == "eval":
            table = replace(table, unless=longer_names(table.line, left))
        tables.append(table.toml())
    return "\n".join([head, *tables, *([_BEST_BELOW.toml()] if main.role in ("mixed", "eval") else [])])
