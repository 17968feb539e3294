"""What the other shapes of a log are beside its records: evaluations, parts, other records, or nothing."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import pairwise

from gputel.analysis.logs.infer import announcements, other_counts
from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.dialects import MEASURE, SETS, TRAINED
from gputel.analysis.logs.infer.headings import EVALUATION
from gputel.analysis.logs.infer.named import PLACES, Named
from gputel.analysis.logs.infer.places import KINDS
from gputel.analysis.logs.infer.rewards import EPISODE, are_means
from gputel.analysis.logs.infer.settings import is_printed
from gputel.analysis.logs.infer.torn import is_glued, is_torn
from gputel.analysis.logs.line_figures import ASIDE

SUMMARY = re.compile(
    rb"(?i)\b(?:best|minimum|maximum|finished|summary|sanity|total training|training took|early stop|train_runtime"
    rb"|(?:over|across|all) (?:the )?folds)"
    rb"|^\W*wandb:"
)

_TRAINS = re.compile(rb"(?i)\W*train(?:ing)?(?![a-z])")
_CHANGES = re.compile(
    rb"(?i)\b(?:chang|adjust|reduc|decreas|lower|drop|decay)\w*[^.:=]{0,30}\b(?:lr\b|learning[ _]rate)"
)
_RESULT = re.compile(rb"(?i)\W*(?:eval(?:uation)?|validation) ?: *[a-z][\w@-]* ?[:=] ?")
_OF_CHECKPOINT = re.compile(rb"(?i)\W*(?:checkpoint|ckpt|snapshot)\b")  # what was measured before
_SPOKEN = frozenset({"loss", "lr", "grad_norm", "tok_per_sec"})
_NEARLY_ALL = 0.8  # of the lines of epochs, below which a counter begins again
# repeats an evaluation
_BEST = re.compile(rb"(?i)\bnew best|best so far|\bis the best|\bimproved\b|\bsaving\b|\bbest \w+ saved\b")


def role_beside(line: Candidate, main: Candidate, header: Candidate | None) -> str | None:
    """The role of a shape in a log with this main shape; None if it says nothing of the training."""
    return next((role for applies, role in _RULES if applies(line, main, header)), None)


def evaluates_each(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether a line without a place stands right below every record, but perhaps the last, and is of it."""
    if header or main.place is None or line.place:
        return False
    below = [number + 1 for number in main.shape.lines]
    return len(below) > 2 and line.shape.lines in (below, below[:-1])


def _is_copy(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A summary, which repeats what was printed before, or a record that breaks off or has text behind it."""
    is_rare = line.shape.count <= max(2, main.shape.count // 50, main.trainings)
    sums_up = is_rare and _sums_up(line) and not _sums_up(main)
    return sums_up or is_torn(line.shape, main.shape) or is_glued(line.shape, main.shape)


def _lists_kinds(line: Candidate, *_: Candidate | None) -> bool:
    """A row of a list with one row for each class, `Class 2: acc 0.93`: no figure of the whole."""
    kind = line.named[0]
    several = len({*line.shape.column(kind.at)}) > 1 or kind.source.lower().endswith("id")
    return line.place is None and several and KINDS.search(kind.source) is not None


def _is_known_epoch(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """An epoch's own line in a log whose records say where they stand; they fall between trainings alone."""
    if line.role != "epoch" or main.place is None or _heads(line, main):
        return False
    says_so = main.place.column in ("step", "epoch") or line.is_over
    first, last = main.shape.lines[0], main.shape.lines[len(main.shape.rows) - 1]  # that is kept
    between = sum(first < number < last for number in line.shape.lines)
    return says_so and (not main.falls or main.falls < _NEARLY_ALL * between)


def _heads(line: Candidate, main: Candidate) -> bool:
    """Whether each record of an epoch stands below such a line: what is printed between them is of that record."""
    if main.place is None or main.place.column != "epoch" or line.place is None:
        return False
    return main.shape.column(main.place.at) == line.shape.column(line.place.at) and all(
        head < number for head, number in zip(line.shape.lines, main.shape.lines, strict=True)
    )


def _is_evaluation(line: Candidate, *_: Candidate | None) -> bool:
    """An evaluation with a figure, and not the best one so far once more."""
    lone = line.shape.count == 1 and _OF_CHECKPOINT.match(line.shape.words[0])
    repeats = line.saves or lone or (line.place is None and _BEST.search(line.shape.spoken))
    return line.role == "eval" and line.is_measured and (line.is_result or not repeats)


def _evaluates_too(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A record with an evaluation behind it, `Epoch 3, loss: 2.5 - val_loss: 2.7`, as not each of them has."""
    return _goes_on(line, main) and line.role == "mixed" and main.role == "train"


def _goes_on(line: Candidate, main: Candidate) -> bool:
    """Whether it has the words of a record, and more behind them."""
    return line.shape.words[: main.shape.slots] == main.shape.words[:-1]


def _evaluates_too_in_block(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    return header is not None and _evaluates_too(line, main, header)


def _gives_result(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A lone figure that has no other name than the evaluation: `Evaluation over 10 episodes: 31.2`.

    Between records any name will do: `Evaluation: hits_k=28.5`.
    """
    if line.evidence or line.place or len(line.metrics) != 1 or line.shape.count < 2:
        return False
    (result,) = line.metrics
    fractions = all(b"." in value for value in line.shape.column(result.at))
    says = _RESULT.fullmatch(line.shape.words[0]) and not ASIDE.search(result.source)
    named = result.source.lower() in ("eval", "evaluation") or (says and _alternates(line, main))
    return fractions and line.is_terse and bool(named)


def _evaluates_epoch(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """A line of a whole epoch that also gives an evaluation."""
    return _is_of_epoch(line, main, header) and line.role == "mixed" and line.is_measured


def _evaluates_again(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """A line with both losses, `Train: 2.5 Val: 2.7`, below records that have a loss of their own."""
    both = {"loss", "val_loss"} <= {*line.columns} and line.role == "mixed" and line.shape.count > 1
    trains = "loss" in main.columns and "val_loss" not in main.columns
    return both and trains and line.place is None and header is None and not _goes_on(line, main)


def _ends_bar(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """A line that gives the losses of the epoch whose batches a bar above it has shown."""
    named = main.shape.is_bar and "epoch" in main.columns and "loss" in line.columns and not line.shape.is_bar
    return named and _evaluates_epoch(line, main, header)


def _is_part(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    if line.place is not None or (header is None and line.loses and _says_the_same(line, main)):
        return False  # `total: 48s` for `total: 182ms` makes a record, too
    if main.shape.is_boxed and not line.shape.is_boxed:
        return False
    return _belongs(line, main, header) or _trains_below(line, main) or _gives_rate(line, main)


def _is_no_record(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that lacks what a record has or says what was saved, an example in a text, the mean over an epoch."""
    if line.saves:
        return True
    speaks = line.speaks or (_begins_alike(line, main) and bool(_shared(line, main)))
    lacks = (line.place is None and not _says_the_same(line, main)) or not line.evidence or not speaks
    return lacks or line.is_quoted > main.is_quoted or _is_average(line, main)


def _changes_rate(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that says that the learning rate changes, between records that may not print it."""
    rarely = 5 * line.shape.count < main.shape.count
    return rarely and {*line.columns} - {*PLACES} == {"lr"} and _CHANGES.search(line.shape.spoken) is not None


def _scores_apart(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line of a measure that is computed on held-out data, beside records that give a loss."""
    rewards = are_means(line.columns) and line.is_measured and not _counts_episodes(line)
    rewards = rewards and 2 * line.shape.count <= main.shape.count and not line.evidence
    loses = any("loss" in cell.source.lower() or cell.column == "lr" for cell in main.metrics)
    graded = main.role == "mixed" and [cell.source.lower() for cell in line.metrics] == ["score"]
    graded = graded and line.place is not None and line.place.column == "epoch"
    if not ((loses or main.evidence) and (line.scores_held_out or rewards or graded)) or _is_mean(line, main):
        return False
    if line.place is None:
        return line.shape.count > 2 and bool(line.changing) and _alternates(line, main)
    return not line.place.guessed and 1 < line.shape.count <= main.shape.count


def _is_mean(line: Candidate, main: Candidate) -> bool:
    """Whether it gives for an epoch what records give for its steps, and names no set: `Epoch: 3, Dice: 0.5`."""
    names, of_steps = ({cell.source.lower() for cell in each.metrics} for each in (line, main))
    return _is_of_epoch(line, main, None) and names <= of_steps and not EVALUATION.search(line.shape.spoken)


def _counts_episodes(line: Candidate) -> bool:
    return any(map(EPISODE.search, [cell.source for cell in line.named]))


def _alternates(line: Candidate, main: Candidate) -> bool:
    """Whether records stand between any two of its lines: it is no list of results, one for each image.

    The same figure may be printed twice.
    """
    first, last = main.shape.first, main.shape.lines[-1]
    column = line.shape.column(line.metrics[0].at)
    rows = [row for row, number in enumerate(line.shape.lines) if first < number <= last + 1]
    between = [(bisect(main.shape.lines, line.shape.lines[row]), column[row]) for row in rows]
    return len(between) > 1 and all(b[0] > a[0] or a == b for a, b in pairwise(between))


def _says_the_same(line: Candidate, main: Candidate) -> bool:
    """Whether both lack a place and have the same words before a measure: records, of which some say less."""
    words = {cell.column: main.shape.literals[cell.at] for cell in main.metrics}
    same = (words.get(cell.column) == line.shape.literals[cell.at] for cell in line.metrics)
    return main.place is None and any(same)


def _evaluates_rarely(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that gives training and evaluation losses, among more frequent records that only train."""
    is_rarer = line.role == "mixed" != main.role and line.shape.count <= main.shape.count / 2
    is_rarer = is_rarer and line.shape.first < main.shape.last[0]  # else they are of another stage
    return is_rarer and "lr" not in line.columns and not _says_more(line, main)


def _evaluates_between(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that gives training and evaluation losses and no place, among more frequent records that have one."""
    rarer = 2 * line.shape.count <= main.shape.count and line.place is None and main.place is not None
    sources = {cell.column: cell.source.lower() for cell in line.metrics}
    bare = {sources.get("loss"), sources.get("val_loss")} <= SETS  # `Train: 2.5 Val: 2.7`
    held_out = bare or "loss" in sources.get("val_loss", "")
    printed = all(
        line.shape.words[cell.at].rstrip().endswith((b":", b"=")) for cell in line.metrics
    )  # no note
    return line.role == "mixed" != main.role and rarer and held_out and printed and line.is_measured


def _says_more(line: Candidate, main: Candidate) -> bool:
    """Whether it gives the place and the loss by the words of the records, and the evaluation behind them."""
    words = {
        cell.column: main.shape.literals[cell.at].strip() for cell in (main.place, *main.metrics) if cell
    }
    same = [cell for cell in line.named if words.get(cell.column) == line.shape.literals[cell.at].strip()]
    return main.place is not None and {main.place.column, "loss"} <= {cell.column for cell in same}


def _trains_at(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line that says its place by the words of the records, and gives measures of the training set."""
    own = all(TRAINED.match((cell.column or "").lower()) for cell in line.metrics)
    measures = own and line.is_measured and not line.evidence
    return measures and _begins_alike(line, main) and 0.5 <= line.shape.count / main.shape.count <= 2


def _begins_alike(line: Candidate, main: Candidate) -> bool:
    """Whether both have the same words up to their place."""
    begins = [other.shape.literals[: other.place.at + 1] for other in (line, main) if other.place]
    return len(begins) == 2 and begins[0] == begins[1]


def _shared(line: Candidate, main: Candidate) -> list[Named]:
    """The measures of a line that the records give, too."""
    columns = {named.column for named in main.metrics}
    return [named for named in line.metrics if named.column in columns]


def _is_record(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """Another kind of record: it shares metrics with the main one, or recurs with other values."""
    shared = _shared(line, main)
    fraction = any(
        b"." in value or b"n" in value for named in shared for value in line.shape.column(named.at)
    )
    alike = any(named.column == "loss" for named in shared) or 2 * len(shared) >= len(line.metrics)
    moves = bool(line.changing) or "lr" in line.columns  # a rate may stay the same
    return (fraction and alike) or (line.shape.count > 2 and moves)


def _follows(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line right below each record that repeats its loss and does not know its step."""
    if main.place is None or line.place is None or line.place_rank <= main.place_rank or not line.loses:
        return False
    above = set(main.shape.lines)
    return "loss" in main.columns and all(number - 1 in above for number in line.shape.lines)


def _opens_epoch(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line above the records of its epoch, `epoch 3 lr 0.1`, where their counter begins anew with each epoch."""
    measures = any(MEASURE.search(cell.column or "") for cell in line.metrics)
    opens = line.shape.first < main.shape.first and line.shape.count > 1 and not measures
    begins = main.falls > 0 or {"epoch", "index"} <= {*main.columns}
    return opens and begins and line.place is not None and line.place.column == "epoch"


def _is_of_epoch(line: Candidate, main: Candidate, _: Candidate | None) -> bool:
    """A line about a whole epoch, where the records are finer than that."""
    return (
        main.is_fine and not line.is_fine and line.place is not None and line.shape.count <= main.shape.count
    )


# The first rule that applies gives the role; None: the line says nothing of the training.
_RULES: tuple[tuple[Callable[[Candidate, Candidate, Candidate | None], bool], str | None], ...] = (
    (lambda line, *_: line.role == "running", "eval"),
    (_is_copy, None),
    (lambda line, *_: is_printed(line), None),
    (_lists_kinds, None),
    (_is_known_epoch, None),
    (lambda line, *_: line.role == "epoch", "epoch"),
    (lambda line, main, _: other_counts.numbers_rows(line, main), None),
    (_is_evaluation, "eval"),
    (_evaluates_too_in_block, "part"),
    (_evaluates_too, "train"),
    (announcements.says_where, "tested"),
    (_gives_result, "eval"),
    (lambda line, *_: line.role == "eval", None),
    (_follows, "part"),
    (_ends_bar, "train"),
    (_evaluates_epoch, "eval"),
    (_opens_epoch, "epoch"),
    (_scores_apart, "eval"),
    (_is_of_epoch, None),
    (_changes_rate, None),
    (_evaluates_again, "eval"),
    (_is_part, "part"),
    (lambda line, main, _: other_counts.counts_otherwise(line, main), None),
    (_evaluates_between, "eval"),
    (_trains_at, "train"),
    (_is_no_record, None),
    (_evaluates_rarely, "eval"),
    (_is_record, "train"),
)


def _sums_up(line: Candidate) -> bool:
    """Whether it summarizes the run.

    Words behind the first figure of an evaluation, or of a line that says its place, do not count: `best` may
    stand there.
    """
    measured = [n.at for n in line.metrics if MEASURE.search(n.column or "")]
    is_marked = measured and (line.role == "eval" or line.place is not None)
    words = line.shape.english[: measured[0] + 1] if is_marked else [line.shape.spoken]
    return SUMMARY.search(b" ".join(words)) is not None


def _belongs(line: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether a line without a step is part of the record above it."""
    share = line.shape.count / main.shape.count
    if header:
        fractions = any(b"." in value for cell in line.metrics for value in line.shape.column(cell.at))
        return share >= 0.1 if fractions else share >= 0.2 and line.is_terse
    boxed = line.shape.words[0].lstrip()[:1] == b"|"
    spoken = [name for name in line.columns if name in _SPOKEN or name.lower().endswith("_loss")]
    rewards = main.place is not None and not main.loses and line.names_reward
    return 0.5 <= share <= 2 and (boxed or bool(spoken) or rewards)


def _gives_rate(line: Candidate, main: Candidate) -> bool:
    """Whether it gives the learning rate alone, `LR: 0.1`, now and then, and the records do not."""
    return line.columns == ["lr"] and line.shape.count > 1 and line.is_terse and "lr" not in main.columns


def _trains_below(line: Candidate, main: Candidate) -> bool:
    """Whether it gives measures of the training below each record: `Train - Acc: 0.46`, `accuracy on train set`."""
    own = bool(line.metrics) and all(TRAINED.match((cell.column or "").lower()) for cell in line.metrics)
    trains = line.role == "other" and (own or _TRAINS.match(line.shape.words[0]) is not None)
    return trains and line.is_measured and 2 * line.shape.count > main.shape.count and _alternates(line, main)


def is_told_apart(
    line: Candidate, main: Candidate, evaluated: Sequence[str], candidates: Sequence[Candidate]
) -> bool:
    """Whether it gives, below each record, measures that evaluations give with their set: `acc`, `val_acc`.

    Where a log never speaks of evaluating, those below `Training epoch: 3` are of the training, too.
    """
    if line.role != "other" or line.place or not (line.is_measured and line.changing and main.loses):
        return False
    twins = all(any(name.endswith(f"_{cell.column}") for name in evaluated) for cell in line.metrics)
    often = 0.5 <= line.shape.count / main.shape.count <= 2
    headed = any(c.role == "epoch" and _TRAINS.match(c.shape.words[0]) for c in candidates)
    twins = twins or (headed and not any(EVALUATION.search(c.shape.spoken) for c in candidates))
    return twins and often and line.is_terse and _alternates(line, main)


def _is_average(line: Candidate, main: Candidate) -> bool:
    """Whether it gives means over an epoch: its names begin with `train_` and those of the records do not."""

    def trained(other: Candidate) -> float:
        named = [cell.source.lower().startswith("train") for cell in other.metrics]
        return sum(named) / len(named) if named else 0

    return line.shape.count < main.shape.count and trained(line) > 0.5 > trained(main)
