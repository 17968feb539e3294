"""A log that was read -> what makes the reading doubtful. A right reading has no doubt.

Each check compares two figures that the reading itself gave; none looks at the text again (`unread` has looked).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis import columns
from gputel.analysis.doubts import Doubt, about_reading
from gputel.analysis.logs import counter_doubts, evaluation_doubts, gap_doubts, step_doubts, unread_doubts
from gputel.analysis.logs.line_kinds import COUNTS

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

MOST_BARE = 0.1  # share of records without a step and a loss
WHOLE = 0.6  # share of cells with a value in complete records
LEAST = 3
MOST_REPEATED = 0.25  # share of records that repeat the one before
FAR = 0.5  # how far, by its share, a first loss may be from ln(vocabulary)
# GRPO's loss is 0 where a batch is used once: the mean of the advantages of a group is
_ADVANTAGED = re.compile(r"(?i)(?:^|[_/])(?:rewards?|advantages?)(?:$|[_/])")
LOSSES = re.compile(r"(?i)loss|nll|\bce\b|xent|entropy|objective|cost|ppl|mse|mae|error|elbo|bp[bc]")


def doubts(log: ParsedRows) -> tuple[Doubt, ...]:
    """Reasons why the reading of the log is doubtful, in the order of `CHECKS`."""
    return tuple(doubt for check in CHECKS for doubt in check(log))


def _bare(log: ParsedRows) -> Iterator[Doubt]:
    """Records without step and loss whose figures alternate: they are parts of records."""
    rows = log.records
    said = ["step", "loss", *(name for name in rows.columns if COUNTS.fullmatch(name))]
    missing = pl.all_horizontal(pl.col(name).is_null() for name in said if name in rows.columns)
    bare = rows.filter(missing)
    metrics = [name for name in log.metrics() if rows[name].count()]
    filled = sum(bare[name].count() for name in metrics) / max(len(metrics) * bare.height, 1)
    is_alike = bare.height == rows.height and filled > WHOLE
    if bare.height >= LEAST and bare.height > MOST_BARE * rows.height and not is_alike:
        yield about_reading(
            "bare-records",
            f"{bare.height:,} of {rows.height:,} records have neither a step nor a loss",
            "they are parts of other records, or no records",
            {"bare": bare.height, "records": rows.height},
            bare["line"][0],
        )


def _far_from_vocabulary(log: ParsedRows) -> Iterator[Doubt]:
    """A first loss that no untrained model of that vocabulary has."""
    size = log.config.get("vocab_size")
    source = log.sources.get("loss")
    is_cost = source is not None and source.source.lower().endswith("cost")  # no mean over tokens
    if not isinstance(size, float | int) or size < 2 or "loss" not in log.records.columns or is_cost:
        return
    rows = log.records.select("step", "loss", "line", *step_doubts.epochs(log)).filter(
        pl.col("loss").is_finite() & pl.col("step").is_not_null()
    )
    if step_doubts.epochs(log) and (rows["epoch"] == rows["step"]).all():
        return  # the mean of an epoch, in which the model was trained
    if not rows.height or rows["step"][0] > 1 or log.continues or log.events["kind"].is_in(["resume"]).any():
        return
    loss, expected = rows["loss"][0], math.log(size)
    if abs(loss - expected) > FAR * expected:
        yield about_reading(
            "first-loss",
            f"the first loss is {loss:.4g}, and ln of {size:,.0f} tokens is {expected:.4g}",
            "it is not the mean over tokens, or the model was trained before",
            {"loss": loss, "expected": expected},
            rows["line"][0],
        )


def _constant(log: ParsedRows) -> Iterator[Doubt]:
    """A loss that never changes or that counts, or that is another figure of the same record."""
    rows = log.records
    if "loss" not in rows.columns:
        return
    is_finite = rows["loss"].is_finite().fill_null(value=False)
    losses = rows["loss"].filter(is_finite)
    line = rows["line"].filter(is_finite).first()
    if len(losses) < step_doubts.FEWEST:
        return
    if _is_constant(losses):
        if losses[0] == 0 and any(map(_ADVANTAGED.search, log.metrics())):
            return
        evidence = f"the loss is {losses[0]:.4g} in all {len(losses):,} records"
        figures = {"loss": losses[0], "records": len(losses)}
        yield about_reading("constant-loss", evidence, "another figure was read as the loss", figures, line)
        return
    others = [name for name in ("step", *log.metrics()) if rows.schema[name].is_numeric()]
    others = [name for name in others if name != "loss" and not LOSSES.search(name)]
    copies = [name for name in others if _are_equal(rows[name].filter(is_finite), losses)]
    for name in copies:
        if not _is_whole_loss(log, name):
            evidence = f"the loss is {name} in all {len(losses):,} records"
            yield about_reading("copied-loss", evidence, "one figure was read as two", {"copy": name}, line)
    if not copies and (losses.diff().drop_nulls() == 1).all():
        evidence = f"the loss counts from {losses[0]:,.0f} to {losses[-1]:,.0f}"
        figures = {"first": losses[0], "last": losses[-1]}
        yield about_reading("counting-loss", evidence, "a counter was read as the loss", figures, line)


def _is_whole_loss(log: ParsedRows, name: str) -> bool:
    """Whether a figure of an unknown name is a part that is all of the loss: another figure is 0 throughout."""
    others = (log.records[other] for other in log.metrics() if other not in (name, "loss"))
    known = {column.name for column in columns.STEPS}
    return name not in known and any(values.count() and (values == 0).all() for values in others)


def _repeats(log: ParsedRows) -> Iterator[Doubt]:
    """Records that repeat the one before: its step, and all of its figures or a loss of five digits."""
    rows = log.records
    same = {name: pl.col(name).eq_missing(pl.col(name).shift(1)) for name in rows.columns}
    place = [same[name] for name in ("phase", "attempt", "rank", "epoch", "step") if name in same]
    repeats = pl.all_horizontal(pl.col("step").is_not_null(), *(same[name] for name in log.metrics()))
    if "loss" in same:
        repeats |= same["loss"] & (pl.col("loss").round_sig_figs(4) != pl.col("loss"))
    again = rows.filter(pl.all_horizontal(pl.col("step").is_not_null(), repeats, *place))
    if again.height > MOST_REPEATED * rows.height and rows.height >= step_doubts.FEWEST:
        yield about_reading(
            "repeated-records",
            f"{again.height:,} of {rows.height:,} records repeat the step and the figures of the one before",
            "several handlers, or processes, print each line; `steps` counts each once",
            {"repeated": again.height, "records": rows.height},
            again["line"][0],
        )


def _cut_lines(log: ParsedRows) -> Iterator[Doubt]:
    """Lines that end at one column, wherever their words and numbers are."""
    if log.cut_at is not None and (log.records.height or log.evals.height):
        yield about_reading(
            "cut-lines",
            f"lines end at column {log.cut_at:,}, each elsewhere in its words and numbers",
            "they were copied from a terminal of that width, so last figures may lack digits or be missing",
            {"column": log.cut_at},
            None,
        )


def _date_order(log: ParsedRows) -> Iterator[Doubt]:
    """Dates such as 03/04/2026 that may be of two months."""
    if log.has_ambiguous_dates and log.records["time"].count():
        yield about_reading(
            "date-order",
            "the day and the month of the dates may stand in either order, and the month was read first",
            "times of day and durations are right, the date may not be",
            {},
            log.records["line"][0],
        )


def _is_constant(values: pl.Series) -> bool:
    """Whether all values are one, nulls aside."""
    return bool(values.min() == values.max())


def _are_equal(values: pl.Series, others: pl.Series) -> bool:
    """Whether every value is known and equals its counterpart; most columns differ in the first value."""
    if values.null_count() or values[0] != others[0]:
        return False
    return bool((values.cast(pl.Float64) == others).all())


CHECKS: tuple[Callable[[ParsedRows], Iterator[Doubt]], ...] = (
    step_doubts.falls,
    step_doubts.episodes_fall,
    step_doubts.first_ahead,
    step_doubts.one_step,
    counter_doubts.unread,
    _bare,
    step_doubts.two_of_each,
    step_doubts.beyond_total,
    step_doubts.totals,
    evaluation_doubts.beyond,
    _far_from_vocabulary,
    _constant,
    _repeats,
    evaluation_doubts.read_as_records,
    evaluation_doubts.outnumber,
    evaluation_doubts.two_losses,
    evaluation_doubts.unparted,
    evaluation_doubts.listed,
    evaluation_doubts.of_next,
    evaluation_doubts.named_by_set,
    evaluation_doubts.other_numbers,
    step_doubts.spacing,
    step_doubts.epochs_overlap,
    gap_doubts.records,
    gap_doubts.evaluations,
    evaluation_doubts.fall,
    evaluation_doubts.twice,
    unread_doubts.lines,
    unread_doubts.losses,
    unread_doubts.figures,
    unread_doubts.epochs,
    unread_doubts.twice,
    _cut_lines,
    _date_order,
)
