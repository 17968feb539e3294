"""Doubts about what a log prints and the reading has nowhere: lines like records, losses, figures, epochs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt, about_reading
from gputel.analysis.logs import line_figures
from gputel.analysis.logs.names import EVALUATING, is_evaluation, legal
from gputel.analysis.logs.parsed_rows import are_in
from gputel.analysis.logs.read_lines import LEAST
from gputel.analysis.logs.signs import shortened
from gputel.analysis.logs.training_words import names_measure
from gputel.analysis.logs.unread_lines import Alike

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

MOST = 0.02  # share of lines like records that were not read
READ = 0.5  # share of the figures of lines that are read elsewhere; of few digits many are, by chance
FEW_READ = 0.2  # below this share a doubt is certain
DECIMALS = (1, 2, 3, 4)  # to which figures are rounded where they are printed again
DIGITS = 6  # in which figures that are printed twice agree
EXCERPT = 5  # lines down to the first record of a log that begins amid a training
SCALES = (1.0, 0.01, 100.0, 0.001, 1000.0)  # per cent and thousandths, as units are normalised
_HELD_OUT = re.compile(rf"(?i)(?<![a-z])(?:{EVALUATING})(?![a-z])")


def lines(log: ParsedRows) -> Iterator[Doubt]:
    """Lines that look like records and were not read."""
    count, records = len(log.rejects), log.records.height
    if count >= LEAST and count > MOST * (count + records):
        yield about_reading(
            "unread-lines",
            f"{count:,} lines look like records and were not read, beside {records:,} that were",
            "--rejects lists them with their reasons",
            {"unread": count, "records": records},
            log.rejects[0].line,
        )


def losses(log: ParsedRows) -> Iterator[Doubt]:
    """A loss that is printed more than half as often as there are records, and that was not read.

    A tenth is enough if it begins behind the last record, any if it is of a held-out set of which nothing was read.
    """
    name, count, line = log.unread.loss or ("", 0, 0)
    rows = log.records.height or log.evals["line"].n_unique()
    often = count > 0.5 * rows and count > _epochs_passed(log)
    last: Any = log.records["line"].max()
    often = often or (last is not None and line > last and count > 0.1 * rows)
    often = often or (is_evaluation(legal(name)) and log.evals.is_empty())
    if rows and count >= LEAST and often:
        yield about_reading(
            "unread-losses",
            f"{count:,} figures of {name} were not read, beside {_rows(log)}",
            "another line of the training has them",
            {"name": name, "unread": count, "read": rows},
            line,
        )


def figures(log: ParsedRows) -> Iterator[Doubt]:
    """Lines that recur between records, and whose figures the reading has nowhere.

    Those that stand once in an epoch of several records are its mean, unless they are scores such as BLEU; so is
    one of a single record that names its figure.
    """
    for recurring in log.unread.recurring:
        if _is_mean(log, recurring) or not (log.records.height or log.evals.height):
            continue
        named = recurring.figures
        held_out = {name: figures for name, figures in named.items() if _HELD_OUT.search(name)}
        if any(_is_unread(log, frozenset().union(*some.values())) for some in (named, held_out)):
            yield about_reading(
                "unread-figures",
                f"{recurring.lines:,} lines such as `{_short(recurring.text)}` were not read, beside {_rows(log)}",
                "they have figures of the training or of an evaluation",
                {"line": recurring.text, "unread": recurring.lines},
                recurring.line,
            )
            return


def not_read(log: ParsedRows) -> tuple[Alike, ...]:
    """Lines from the first record on with those of their figures that the reading has nowhere.

    Of three lines the figures change, or their names are those of measures. An excerpt has nothing above its first
    record but what was printed amid the training.
    """
    first: Any = pl.concat([log.records["line"], log.evals["line"]]).min()
    rejected = {reject.line for reject in log.rejects}  # which are told by themselves
    kinds = [alike for alike in log.unread.alike if alike.line not in rejected]
    begins = 0 if first is not None and first <= EXCERPT and _begins_amid(log) else first
    below = [
        alike for alike in kinds if begins is not None and alike.last >= begins + ("%|" not in alike.text)
    ]
    printed = [values for alike in below for values in alike.figures.values()]
    found = _read(log, frozenset[float]().union(*printed))
    left = (alike._replace(figures=_left(alike, found)) for alike in below)
    noted = tuple(alike for alike in left if alike.figures)
    shapes = {line_figures.shape(alike.text.encode()) for alike in noted}
    lost = (alike for alike in _lost(log) if line_figures.shape(alike.text.encode()) not in shapes)
    return (*noted, *lost)


def _begins_amid(log: ParsedRows) -> bool:
    """Whether the first record is farther from the beginning of the training than from the next one."""
    first, second = (*log.records["step"].head(2), None, None)[:2]
    return first is not None and second is not None and first > max(1, second - first)


def _lost(log: ParsedRows) -> Iterator[Alike]:
    """Lines that a pattern has read beside others, and whose figures are in no row."""
    if log.records.is_empty() and log.evals.is_empty():
        return
    in_rows = [are_in(log.unread.taken, rows) for rows in (log.records, log.evals, log.partials)]
    taken = [line for line, *found in zip(log.unread.taken, *in_rows, strict=True) if not any(found)]
    found = _read(log, frozenset(value for line in taken for value in line.figures.values()))
    for lines in line_figures.alike(line for line in taken if not found.issuperset(line.figures.values())):
        figures: defaultdict[str, set[float]] = defaultdict(set)
        for name, value in (pair for line in lines for pair in line.figures.items() if pair[1] not in found):
            figures[name].add(value)
        named = {name: frozenset(values) for name, values in figures.items()}
        yield Alike(shortened(lines[0].line), len(lines), lines[0].number, lines[-1].number, named)


def _left(alike: Alike, found: set[float]) -> dict[str, frozenset[float]]:
    """The figures of which most were found nowhere."""
    return {
        name: values
        for name, values in alike.figures.items()
        if len(values & found) <= READ * len(values)
        and (len(values) >= LEAST <= alike.lines or _is_measured(name))
    }


def _is_measured(name: str) -> bool:
    """Whether it names a measure, or a held-out set alone: `Val: 0.25`; `mAP` ends a name, but for a heading's."""
    from gputel.analysis.logs.infer.dialects import HELD_OUT_SCORE

    ends = [found.end() for found in HELD_OUT_SCORE.finditer(name)][-1:] == [len(name)] and "  " not in name
    return names_measure(name.lower().encode()) or _HELD_OUT.search(name) is not None or ends


def _is_mean(log: ParsedRows, recurring: Alike) -> bool:
    from gputel.analysis.logs.infer.dialects import HELD_OUT_SCORE

    words, epochs = recurring.text.lower(), _epochs_passed(log)
    if _HELD_OUT.search(words) or recurring.lines > epochs:
        return False
    names_one = any(name.lower() in words for name in log.metrics() if name != "epoch")
    scores = any(map(HELD_OUT_SCORE.search, recurring.figures))
    return names_one or (log.records.height > epochs and not scores)


def _is_unread(log: ParsedRows, printed: frozenset[float]) -> bool:
    return len(printed) >= LEAST and len(_read(log, printed)) <= FEW_READ * len(printed)


def _read(log: ParsedRows, printed: frozenset[float]) -> set[float]:
    """Those of the printed figures that the reading has, to six digits, or an evaluation with more digits."""
    measured = log.evals["value"].drop_nulls()
    rounded = {value for decimals in DECIMALS for value in measured.round(decimals)}
    read = {figure for figure in printed if figure in rounded}
    read |= _found(log, printed - read, lambda value: value)
    return read | _found(log, printed - read, _to_six_digits)


def _found(
    log: ParsedRows, printed: frozenset[float] | set[float], shortened: Callable[[Any], Any]
) -> set[float]:
    """Those that stand in a frame, or in the summary, in one of the units."""
    if not printed:
        return set()
    scaled = {figure: [shortened(figure * scale) for scale in SCALES] for figure in printed}
    wanted = pl.Series([value for values in scaled.values() for value in values]).implode()
    found = {shortened(value) for value in log.summary.values() if isinstance(value, float)}
    for frame in (log.records, log.evals, log.partials):
        for values in frame.get_columns():
            if values.dtype.is_float() and values.name != "epoch":
                short = shortened(values)
                found.update(short.filter(short.is_in(wanted)).to_list())
    return {figure for figure, values in scaled.items() if not found.isdisjoint(values)}


def _to_six_digits(value: Any) -> Any:
    return value.round_sig_figs(DIGITS) if isinstance(value, pl.Series) else float(f"{value:.{DIGITS}g}")


def twice(log: ParsedRows) -> Iterator[Doubt]:
    """A measure of which records print two values on one line, and of which one was read."""
    name, count, line = log.unread.twice or ("", 0, 0)
    if count >= LEAST:
        yield about_reading(
            "two-values",
            f"records print two values of {name} on a line, and one of them was not read",
            "they may be of two models, sets or steps",
            {"name": name, "lines": count},
            line,
        )


def epochs(log: ParsedRows) -> Iterator[Doubt]:
    """Epochs that lines name one after another, and records or evaluations without a step or an epoch."""
    named = log.unread.epochs
    is_row = len(named) >= LEAST and named[-1] - named[0] <= 2 * len(named)
    for rows, kind in ((log.records, "record"), (log.evals, "evaluation")):
        many = rows.height if kind == "record" else rows["line"].n_unique()
        places = [rows[name] for name in ("epoch", "step") if name in rows.columns]
        if is_row and many >= len(named) // 2 and not any(values.count() for values in places):
            yield about_reading(
                "unread-epochs",
                f"lines name {len(named):,} epochs, and none of {text.counted(many, kind)} has an epoch or a step",
                "the epochs stand on lines that were not read",
                {"epochs": len(named), "records": many},
                None,
            )
            return


def _epochs_passed(log: ParsedRows) -> int:
    """The number of epochs, if there are several records in each: every epoch may print its mean as well.

    A bar of an epoch gives one record and, with its redraws, as many losses as batches.
    """
    rows = log.records
    if log.partials.height:
        return rows.height
    if "epoch" not in rows.columns or not (rows["epoch"] != rows["step"]).any():
        return 0
    return rows.select("phase", "attempt", pl.col("epoch").floor()).drop_nulls().n_unique()


def _rows(log: ParsedRows) -> str:
    """What was read, in words."""
    if log.records.height:
        return text.counted(log.records.height, "record")
    return text.counted(log.evals["line"].n_unique(), "evaluation")


def _short(line: str) -> str:
    return line if len(line) <= 80 else line[:79] + "…"
