"""Doubts about the steps of a log: counters that fall, two loops in one, epochs that overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt, about_reading
from gputel.analysis.logs.signs import BEGIN_AGAIN

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

FEWEST = 10  # fewer records than this show no course
SEVERAL = 3  # records that may not all be of one step
MOST_FALLS = 3  # restarts without a word in the log
MOST_BETWEEN = 1  # lines between two records that say nothing of a new start
EVALUATED = 0.9  # share of the records whose line evaluates as well
MOST_SETS = 3  # training, validation, test
MOST_FOLDS = 20
EPISODE = re.compile(r"(?i)(?:ep|episodes?|games?)_?")
OUTER = re.compile(r"(?i)fold|trial|seed|run")  # if it changes with each restart, it is the reason


def falls(log: ParsedRows) -> Iterator[Doubt]:
    """Steps that begin again where no line says why: another loop's counter, or one that counts within epochs.

    A few falls are restarts, but not those of a count of batches without an epoch: either may be the reason.
    """
    restarts = log.events.filter((pl.col("kind") == "restart") & (pl.col("text") == BEGIN_AGAIN))
    records = log.records.height
    outer = [log.records[name].n_unique() for name in log.metrics() if OUTER.fullmatch(name)]
    is_batch = "batch" in log.sources and not {"step", "iteration"} & log.sources.keys() and not _passed(log)
    fewest = 1 if is_batch else MOST_FALLS
    if max(outer, default=0) <= restarts.height >= fewest and _falls_within(log, restarts) >= fewest:
        yield about_reading(
            "steps-fall",
            f"steps begin again {text.counted(restarts.height, 'time')} in {records:,} records, "
            "and no line that was read says why",
            "another loop's lines, or a counter within epochs, were read as steps",
            {"falls": restarts.height, "records": records},
            restarts["line"][0],
        )


def episodes_fall(log: ParsedRows) -> Iterator[Doubt]:
    """Episodes of an agent that begin again, in records without a step; a longer text in between may say why."""
    rows = log.records
    name = next((name for name in log.metrics() if EPISODE.fullmatch(name)), None)
    if name is None or rows["step"].count() or rows["rank"].count():
        return
    is_near = pl.col("line") - pl.col("line").shift(1) <= MOST_BETWEEN + 1
    again = rows.filter((pl.col(name) < pl.col(name).shift(1)) & is_near)
    if 0 < again.height <= rows.height / FEWEST + 1:
        yield about_reading(
            "steps-fall",
            f"episodes begin again {text.counted(again.height, 'time')} in {rows.height:,} records, "
            "and no line that was read says why",
            "several trainings were read as one",
            {"falls": again.height, "records": rows.height},
            again["line"][0],
        )


def _falls_within(log: ParsedRows, restarts: pl.DataFrame) -> int:
    """The number of restarts but those that begin a training like the first one: at its epoch and its step.

    Short attempts may be a loop within another, unless each comes to its last step. Batches alone say nothing; but
    no loop within another, and no batch, evaluates on nearly every line.
    """
    is_finer = not log.sources.keys().isdisjoint(("step", "iteration", "batch", "index"))
    evaluated = log.records["line"].is_in(log.evals["line"].implode()).sum()
    evaluates = evaluated > EVALUATED * log.records.height
    if not (_passed(log) or evaluates) and ("epochs" not in log.sources or is_finer):
        return restarts.height
    rows, place = log.records, ["step", *epochs(log)]
    is_whole = pl.lit(value=False)
    if "total_steps" in rows.columns:
        reached = pl.col("step").last() - pl.col("step").first() + 1
        is_whole = (reached >= pl.col("total_steps").last()).fill_null(value=False)
    runs = rows.group_by("phase", "attempt", maintain_order=True).agg(
        pl.col(place).first(), pl.col("line").min(), steps=pl.struct(place).n_unique(), whole=is_whole
    )
    if runs["steps"].sum() < FEWEST * runs.height and not runs["whole"][:-1].all():
        return restarts.height
    alike = runs.filter(pl.all_horizontal(pl.col(place) == pl.col(place).first()))
    return restarts.height - restarts.join(alike, on="line").height


def first_ahead(log: ParsedRows) -> Iterator[Doubt]:
    """A single record in front, of a later step than the next one: it may be a line of settings."""
    restarts = log.events.filter((pl.col("kind") == "restart") & (pl.col("text") == BEGIN_AGAIN))
    if log.records.height < FEWEST or not 0 < restarts.height < MOST_FALLS:
        return
    first, second = log.records.select("line", "step").head(2).rows()
    if restarts["line"][0] == second[0] and None not in (first[1], second[1]):
        yield about_reading(
            "first-record",
            f"the first record is of step {first[1]:,} and the next of step {second[1]:,}, and no line says why",
            "a line of settings was read as a record",
            {"step": first[1], "next": second[1]},
            first[0],
        )


def one_step(log: ParsedRows) -> Iterator[Doubt]:
    """Records that all have one step, and no epoch that tells them apart: a size was read as the step.

    So it is if they are of the last of several epochs, whose lines all stand above them, or of the only epoch of
    several trainings: each reaches its total, or has a fold or seed of its own.
    """
    steps = log.records["step"]
    if len(steps) - steps.null_count() < SEVERAL or steps.min() != steps.max():
        return
    rows = log.records.select("step", "line", *epochs(log)).filter(pl.col("step").is_not_null())
    places = rows.select("step", *epochs(log)).unique()
    above = log.events.filter((pl.col("kind") == "epoch") & (pl.col("line") < rows["line"][0])).height
    is_later = rows["step"][0] > 1 and above > 0
    is_epoch = bool(epochs(log)) and (places["step"] == places["epoch"]).all() and not is_later
    if places.height == 1 and not log.records["rank"].count() and not (is_epoch and not _ends_each(log)):
        yield about_reading(
            "one-step",
            f"all {rows.height:,} records are of step {rows['step'][0]:,}",
            "another figure was read as the step, it is that of other lines above, or each is of another training",
            {"step": rows["step"][0], "records": rows.height},
            rows["line"][0],
        )


def _ends_each(log: ParsedRows) -> bool:
    """Whether each record is the last of its training."""
    rows = log.records
    outer = [rows[name].n_unique() for name in log.metrics() if OUTER.fullmatch(name)]
    reaches = "total_steps" in rows.columns and (rows["total_steps"] == rows["step"]).all()
    return max(outer, default=0) > 1 or bool(reaches)


def two_of_each(log: ParsedRows) -> Iterator[Doubt]:
    """Two or three records of nearly every step, with other losses: those of another set were read as training.

    Without a loss they may be of more trainings, as the folds of boosters that print in turn are.
    """
    rows = log.records
    loses = "loss" in rows.columns
    if rows["rank"].count() or rows["step"].null_count() or (loses and not log.evals.is_empty()):
        return
    place = ["phase", "attempt", "step", *epochs(log)]
    figure = next(
        (name for name in ("loss", *log.metrics()) if name in rows.columns and name not in place), None
    )
    first = [pl.col(name).eq_missing(pl.col(name).first()) for name in place]
    most = MOST_SETS if loses else MOST_FOLDS
    if figure is None or not 2 <= rows.select(pl.all_horizontal(first).sum()).item() <= most:
        return
    steps = rows.group_by(place, maintain_order=True)
    each = steps.agg(
        pl.len().alias("records"), pl.col(figure).n_unique().alias("values"), pl.col("line").last()
    )
    several = each.filter((pl.col("records") == each["records"][0]) & (pl.col("values") > 1))
    if each.height >= (FEWEST if loses else SEVERAL) and several.height > 0.9 * each.height:
        figures = "losses" if loses else f"values of {figure}"
        yield about_reading(
            "several-records",
            f"{several.height:,} of {each.height:,} steps have {each['records'][0]} records with other {figures}",
            "those of a validation, or of other folds, were read as records of one training",
            {"several": several.height, "steps": each.height},
            each["line"][0],
        )


def totals(log: ParsedRows) -> Iterator[Doubt]:
    """More than one total of steps in one attempt, or of attempts of which the second does not begin anew."""
    if "total_steps" not in log.records.columns or log.records["total_steps"].drop_nulls().n_unique() == 1:
        return
    rows = log.records.filter(pl.col("total_steps").is_not_null())
    for (phase, _), part in rows.group_by("phase", "attempt", maintain_order=True):
        changes = part.filter(pl.col("total_steps") != pl.col("total_steps").shift(1))
        totals = part["total_steps"].unique(maintain_order=True)
        if len(totals) > 1 and changes.height >= len(totals):
            first, second = totals[0], totals[1]
            yield about_reading(
                "two-totals",
                f"records of {phase} count to {first:,.0f} and to {second:,.0f} in turn",
                "lines of two loops were read as one",
                {"total": first, "other": second},
                changes["line"][0],
            )
    yield from _total_of_another(log)


def _total_of_another(log: ParsedRows) -> Iterator[Doubt]:
    """A first bar that lacks the line of its epoch: its batches are steps, and below it the epochs are.

    So it is where the line was cut off, and where each stands below its bar.
    """
    runs = log.records.group_by("phase", "attempt", maintain_order=True).agg(
        pl.col("step").first(), pl.col("step").last().alias("end"), pl.col("total_steps", "line").last()
    )
    if runs.height < 2:
        return
    first, second = runs.head(2).rows(named=True)
    began = log.events.filter((pl.col("kind") == "restart") & (pl.col("text") == BEGIN_AGAIN)).height
    goes_on = second["step"] is not None and 1 < second["step"] < first["end"]
    goes_on = goes_on and second["step"] != first["step"]  # every tenth step counts anew
    epochs, records = (rows["line"] for rows in (log.events.filter(kind="epoch"), log.records))
    are_below = min(records) < min(epochs, default=0) and max(epochs, default=0) > max(records)
    if (
        began
        and (goes_on or are_below)
        and first["end"] == first["total_steps"] != second["total_steps"] is not None
    ):
        yield about_reading(
            "two-totals",
            f"records count to {first['end']:,}, and then from {second['step']:,} to {second['total_steps']:,.0f}",
            "the first ones count batches, and the others epochs, or the batches of a validation",
            {"total": first["total_steps"], "other": second["total_steps"]},
            first["line"],
        )


def beyond_total(log: ParsedRows) -> Iterator[Doubt]:
    """Records that print no total, and steps beyond the one that others of their attempt count to.

    So it is where all of them stand below all others, of the same steps: what was printed came later than the bar.
    """
    if "total_steps" not in log.records.columns:
        return
    yield from _counted_again(log)
    total = pl.col("total_steps").max().over("phase", "attempt").alias("total")
    rows = log.records.select("step", "line", "total_steps", total)
    beyond = rows.filter(pl.col("total_steps").is_null() & (pl.col("step") > pl.col("total")))
    if beyond.height >= SEVERAL:
        step, line, _, printed = beyond.row(0)
        yield about_reading(
            "beyond-total",
            f"records count to {printed:,.0f}, and {beyond.height:,} without one are of step {step:,} and later",
            "a bar and other lines count one training apart",
            {"total": printed, "step": step, "records": beyond.height},
            line,
        )


def _counted_again(log: ParsedRows) -> Iterator[Doubt]:
    """A second attempt without a total, whose steps are some of those of a first one with a total, and the last."""
    rows = log.records.filter(pl.col("step").is_not_null())
    attempts = rows.partition_by("phase", "attempt", maintain_order=True)
    if len(attempts) != 2 or attempts[1].height < SEVERAL:
        return
    first, second = attempts
    same = second["step"].is_in(first["step"].implode()).all() and second["step"][-1] == first["step"][-1]
    if same and not first["total_steps"].null_count() and not second["total_steps"].count():
        line = second["line"][0]
        yield about_reading(
            "counted-again",
            f"{second.height:,} records without a total are of the steps of {first.height:,} above, which have one",
            "a bar and other lines count one training apart",
            {"records": second.height, "above": first.height},
            line,
        )


def _passed(log: ParsedRows) -> bool:
    """Whether records have epochs: a lone one that is not the first may be how many there will be."""
    named: set[float] = {*log.records["epoch"].drop_nulls().unique()} if epochs(log) else set()
    return len(named) > 1 or bool(named & {0.0, 1.0})


def spacing(log: ParsedRows) -> Iterator[Doubt]:
    """Records that come at two rates in turn, as the lines of two loops do."""
    rows = log.records.select("phase", "attempt", "step", "rank", "line", *epochs(log))
    rows = rows.filter(pl.col("step").is_not_null() & pl.col("rank").is_null())
    if rows.height < 2 * FEWEST:
        return
    last = rows.filter(pl.all_horizontal(pl.col("phase", "attempt") == pl.col("phase", "attempt").last()))
    gaps, lines = np.diff(last["step"].to_numpy()), last["line"].to_numpy()[1:]
    if "epoch" in last.columns:  # the last batch of an epoch may come early
        inside = np.diff(np.floor(last["epoch"].to_numpy())) == 0
        gaps, lines = gaps[inside], lines[inside]
    if len(gaps) < 2 * FEWEST or (gaps <= 0).any():
        return
    jumps = int(((gaps[1:] >= 20 * gaps[:-1]) | (20 * gaps[1:] <= gaps[:-1])).sum())
    if jumps > max(4, len(gaps) // 10):
        yield about_reading(
            "jumping-steps",
            f"steps rise by {int(gaps.min()):,} and by {int(gaps.max()):,} in turn, {jumps} times",
            "two counters were read as one step",
            {"least": int(gaps.min()), "most": int(gaps.max())},
            lines[int(np.argmax(gaps))],
        )


def epochs_overlap(log: ParsedRows) -> Iterator[Doubt]:
    """An epoch that begins among the steps of the one before: its counter ran past the length that is printed.

    A counter that begins again with each epoch is no such case: it begins at most one gap later than before.
    """
    if not epochs(log) or log.records["step"].drop_nulls().is_sorted():
        return
    rows = log.records.filter(pl.col("step").is_not_null() & pl.col("epoch").is_not_null())
    run = ["phase", "attempt", "rank"]
    spans = rows.group_by(*run, pl.col("epoch").floor(), maintain_order=True).agg(
        pl.col("step", "line").first(),
        pl.col("step").last().alias("end"),
        pl.col("step").diff().max().alias("gap"),
    )
    before = {name: pl.col(name).shift(1).over(run) for name in ("epoch", "step", "end", "gap")}
    overlaps = spans.select("epoch", "step", "line", reached=before["end"]).filter(
        spans.select(
            (pl.col("epoch") > before["epoch"])
            & (pl.col("step") > before["step"] + before["gap"])
            & (pl.col("step") <= before["end"])
        ).to_series()
    )
    for epoch, step, line, reached in overlaps.head(1).rows():
        yield about_reading(
            "epochs-overlap",
            f"epoch {epoch:,.0f} begins at step {step:,}, and the one before had come to {reached:,}",
            "the counter within the epoch ran past the length that is printed",
            {"step": step, "reached": reached},
            line,
        )


def epochs(log: ParsedRows) -> list[str]:
    """The column of epochs, if there is one."""
    return ["epoch"] if "epoch" in log.records.columns else []
