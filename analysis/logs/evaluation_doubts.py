"""Doubts about evaluations: too many, of another loop's steps, or two where there is one elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt, about_reading
from gputel.analysis.logs.line_figures import head
from gputel.analysis.logs.names import EVALUATING, TRAINING, legal, measure_of
from gputel.analysis.logs.parsed_rows import are_in
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.logs.step_doubts import FEWEST, epochs

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

LEAST = 3
ROUNDED = 0.001  # how far apart, by its share, one loss may be printed twice
BEYOND = 10  # times the last step of the records
ROW = 5  # steps that show how many values a step has
NEAR = 2  # lines between two values of one table
ONE = 0.8  # share of the steps that have one value
NEARLY_ALL = 0.9  # of the records: the word is of the program, or of the log
_HELD_OUT = lazy_regex(rb"(?i)(?<![a-z])(?:%b)(?![a-z])" % EVALUATING.encode())
_DIGITS = lazy_regex(r"\d+")
_NUMBERED = lazy_regex(
    rb"(?i)(?<![a-z])((?:fold|seed|run|trial|split|model|subject|experiment|repeat)[ #:=_-]{0,3}\d+)(?![\d.])"
)
_TRAINING = lazy_regex(rb"(?i)(?<![a-z])%b(?![a-z])" % TRAINING.encode())


def outnumber(log: ParsedRows) -> Iterator[Doubt]:
    """More evaluations than records: what trains was read as an evaluation, or the other way round."""
    records = log.records.height
    steps = log.evals.filter(pl.col("name") == "val_loss")["step"].n_unique()
    if records >= LEAST and steps > 2 * records:
        yield about_reading(
            "evaluations",
            f"{steps:,} steps have a validation loss, and {records:,} records were read",
            "records were read as evaluations, or not at all",
            {"evaluations": steps, "records": records},
            log.evals["line"][0],
        )
        return
    lines = log.evals["line"].n_unique()
    has_step = records and log.records["step"].count() > 0
    if lines > records >= LEAST and not has_step and "loss" not in log.records.columns:
        yield about_reading(
            "evaluations",
            f"{lines:,} lines are evaluations, and none of {records:,} records has a step or a loss",
            "nothing was trained, and settings or results were read as records",
            {"evaluations": lines, "records": records},
            log.records["line"][0],
        )


def read_as_records(log: ParsedRows) -> Iterator[Doubt]:
    """Records whose lines name a held-out set in front, beside others that do not."""
    taken = log.unread.taken
    is_record = are_in(taken, log.records) & ~are_in(taken, log.evals)
    heads = [(number, head(line)) for (number, line, _), is_ in zip(taken, is_record, strict=True) if is_]
    named = [number for number, words in heads if _HELD_OUT.search(words) and not _TRAINING.search(words)]
    if LEAST <= len(named) < NEARLY_ALL * len(heads):
        yield about_reading(
            "evaluations-as-records",
            f"{len(named):,} of {len(heads):,} records are lines that name a held-out set",
            "evaluations were read as records of the training",
            {"named": len(named), "records": len(heads)},
            named[0],
        )


def two_losses(log: ParsedRows) -> Iterator[Doubt]:
    """Steps with two validation losses: of two sets, or one of them is of a batch; or with boxes' and masks' AP.

    So are two of any measure on neighboring lines, of classes whose names were not read, or in a log of evaluations
    alone, as folds of boosters that print in turn have.
    """
    of_any = log.records.is_empty() and pl.col("rank").is_null()
    rows = log.evals.filter(pl.col("step").is_not_null() & pl.col("value").is_finite())
    is_one = pl.col("name").is_in(["val_loss", "AP", *_side_by_side(rows)]) | of_any
    rows = rows.filter(is_one)
    if rows.is_empty():
        return
    losses = _with_passes(log, rows)
    steps = losses.group_by("phase", "attempt", "step", "name", "pass", maintain_order=True)
    spread = steps.agg(pl.col("value").min(), pl.col("value").max().alias("most"), pl.col("line").last())
    for (name,), each in spread.group_by("name", maintain_order=True):
        two = each.filter(pl.col("most") - pl.col("value") > ROUNDED * pl.col("most").abs())
        if two.height >= LEAST and two.height > 0.5 * each.height:
            names = {"val_loss": "validation losses", "AP": "average precisions"}
            yield about_reading(
                "two-losses",
                f"{two.height:,} of {each.height:,} steps have two {names.get(str(name), f'values of {name}')}",
                "they are of two sets, epochs, folds or classes, of boxes and masks, or one of them is of a single "
                "batch",
                {"two": two.height, "steps": each.height},
                two["line"][0],
            )
            return


def _side_by_side(rows: pl.DataFrame) -> list[str]:
    """The measures of which two values of one step stand on neighboring lines, again and again."""
    place = ["phase", "attempt", "rank", "name", "step"]
    if not _have_several(rows):
        return []
    lines = pl.col("line").diff().over(place)
    beside = rows.filter((lines > 0) & (lines <= NEAR))["name"].value_counts()
    return beside.filter(pl.col("count") >= LEAST)["name"].to_list()


def _have_several(rows: pl.DataFrame) -> bool:
    """Whether a step has several values of a measure."""
    return bool(rows.select("name", "step", "rank").is_duplicated().any())


def beyond(log: ParsedRows) -> Iterator[Doubt]:
    """Evaluations at steps far beyond the records above and below them: they count batches or samples."""
    records = log.records.filter(pl.col("step").is_not_null()).sort("line")
    evaluated = log.evals.filter(pl.col("step").is_not_null()).sort("line")
    near = evaluated.select("line", "step")
    near = near.join_asof(records.select("line", backward="step"), on="line", strategy="backward")
    near = near.join_asof(records.select("line", forward="step"), on="line", strategy="forward")
    far = near.with_columns(reached=pl.max_horizontal("backward", "forward")).filter(
        (pl.col("reached") > 0) & (pl.col("step") > BEYOND * pl.col("reached"))
    )
    if far.height >= LEAST and 2 * far.height > log.evals.height:
        farthest: Any = far["step"].max()
        last: Any = far["reached"].max()
        yield about_reading(
            "two-counters",
            f"evaluations are of steps to {farthest:,}, and the records beside them of steps to {last:,}",
            "the steps of one of them are epochs or updates, and those of the other batches or samples",
            {"records": last, "evaluations": farthest},
            far["line"][0],
        )


def named_by_set(log: ParsedRows) -> Iterator[Doubt]:
    """Losses whose name is that of a set alone, `Val: 0.71`, and that do not fall as losses do."""
    from gputel.analysis.logs.infer.bare_sets import CLEAR, are_shares, is_set, trend

    loss, held_out = (log.sources.get(name) for name in ("loss", "val_loss"))
    named = [what for what in (loss, held_out) if what and is_set(what.source)]
    if not named or "loss" not in log.records.columns:
        return
    trained = log.records.filter(pl.col("loss").is_finite())
    losses = trained["loss"].to_list()
    rises = trend(losses)
    evaluated = log.evals.filter(pl.col("name") == "val_loss", pl.col("value").is_finite())
    values = evaluated["value"].to_list()
    if loss in named and are_shares(losses) and rises > -CLEAR:
        name, values, line = named[0].source, losses, trained["line"][0]
    elif held_out in named and are_shares(values) and rises < 0:
        name, line = named[-1].source, evaluated["line"][0]
        if trend(values) < CLEAR or values[0] > fmean(values):
            return
    else:
        return
    yield about_reading(
        "named-by-set",
        f"{name} begins with {values[0]:.4g}, ends with {values[-1]:.4g}, and was read as a loss",
        "it is named by its set alone, and may be an accuracy or another score",
        {"name": name, "first": values[0], "last": values[-1]},
        line,
    )


def fall(log: ParsedRows) -> Iterator[Doubt]:
    """Evaluations of one measure whose steps fall, while those of the records rise: some count epochs."""
    row_of = ["phase", "attempt", "rank", "name"]
    rows = log.evals.filter(pl.col("step").is_not_null()).sort("line", maintain_order=True)
    if rows.height <= ROW or not (rows["step"].diff() < 0).any() or _with_passes(log, rows)["pass"].max():
        return
    falls = rows.filter((pl.col("step").diff() < 0).over(row_of))
    names = falls["name"].value_counts(sort=True)
    for name, count in names.filter(pl.col("count") >= LEAST).head(1).rows():
        first = falls.filter(name=name)
        yield about_reading(
            "evaluations-fall",
            f"the steps of {name} fall {text.counted(count, 'time')}, first to {first['step'][0]:,}",
            "some of its evaluations count epochs, and others steps",
            {"name": name, "falls": count},
            first["line"][0],
        )


def twice(log: ParsedRows) -> Iterator[Doubt]:
    """A step with two values of a measure that has one at every other: one of them is of another step.

    The last step may be tested once more, and the first has what was measured before the training.
    """
    row_of = ["phase", "attempt", "rank", "pass", "name"]
    rows = log.evals.filter(pl.col("step").is_not_null())
    if rows.height <= ROW or not _have_several(rows):
        return
    steps = (
        _with_passes(log, rows)
        .group_by(*row_of, "step", maintain_order=True)
        .agg(
            pl.col("value").n_unique().alias("values"),
            pl.col("line").last(),
            pl.col("line").first().alias("opens"),
        )
    )
    begins = log.records.group_by("phase", "attempt").agg(pl.col("line").min().alias("begins"))
    steps = steps.join(begins, on=["phase", "attempt"], how="left", maintain_order="left")
    is_last = pl.col("step") == pl.col("step").max().over(row_of)
    is_first = (pl.col("step") == pl.col("step").min().over(row_of)) & (
        pl.col("opens") < pl.col("begins").fill_null(0)
    )
    has_one = (pl.len().over(row_of) > ROW) & ((pl.col("values") == 1).mean().over(row_of) >= ONE)
    twice = steps.filter((pl.col("values") > 1) & ~is_last & ~is_first & has_one)
    for name, step, line in twice.select("name", "step", "line").head(1).rows():
        yield about_reading(
            "evaluated-twice",
            f"step {step:,} has two values of {name}, and nearly all others have one",
            "one of them is of another step or of another set",
            {"name": name, "step": step},
            line,
        )


def other_numbers(log: ParsedRows) -> Iterator[Doubt]:
    """Values on lines whose words have other numbers than the name they got: `t2m_120h RMSE` as `t2m_72h_RMSE`."""
    lines = [float(line.number) for line in log.unread.taken]  # what a training sends stands between lines
    looked_at = log.evals.filter(pl.col("line").cast(pl.Float64).is_in(lines))
    numbered = looked_at.filter(pl.col("name").str.contains(r"[A-Za-z_]\d"))
    names = dict(numbered.group_by("line").agg("name").rows())
    strange = [
        (name, line)
        for line in (log.unread.taken if names else ())
        for name in names.get(line.number, ())
        if _is_named_otherwise(measure_of(name), legal(line.line.decode(errors="replace")).lower())
    ]
    if strange:
        name, line = strange[0]
        count = sum(other == name for other, _ in strange)
        yield about_reading(
            "two-names",
            f"{text.counted(count, 'value')} of {name} stand on lines with other numbers in that name",
            "they are of other measures, which have no names of their own",
            {"name": name, "values": count},
            line.number,
        )


def _is_named_otherwise(name: str, printed: str) -> bool:
    return name not in printed and _DIGITS.sub("0", name) in _DIGITS.sub("0", printed)


def unparted(log: ParsedRows) -> Iterator[Doubt]:
    """Evaluations that number trainings, `Fold 2 acc: 0.8`, beside records of one attempt without a place."""
    rows = log.records
    if (
        rows.is_empty()
        or rows["step"].count()
        or epochs(log)
        or rows.select("phase", "attempt").n_unique() > 1
    ):
        return
    taken = log.unread.taken
    lines = [line for line, is_ in zip(taken, are_in(taken, log.evals), strict=True) if is_]
    numbered = {found[1].lower(): line.number for line in lines if (found := _NUMBERED.search(line.line))}
    if len(numbered) > 1:
        yield about_reading(
            "several-trainings",
            f"evaluations are of {len(numbered):,} trainings, and {rows.height:,} records have neither a step "
            "nor an epoch",
            "several trainings were read as one",
            {"trainings": len(numbered), "records": rows.height},
            min(numbered.values()),
        )


def listed(log: ParsedRows) -> Iterator[Doubt]:
    """Values of one measure below one of several trainings, of which most have fewer: a list of all."""
    if log.evals.is_empty():
        return
    run = ["phase", "attempt"]
    lasts = log.records.group_by(run, maintain_order=True).agg(pl.col("line").max().alias("last"))
    if lasts.height < 2:
        return
    below = (
        log.evals.filter(pl.col("rank").is_null()).join(lasts, on=run).filter(pl.col("line") > pl.col("last"))
    )
    values = below.group_by(*run, "name", maintain_order=True).agg(
        pl.col("line").n_unique().alias("values"), pl.col("line").first()
    )
    several = values.filter(pl.col("values") > 1)
    lists = several.filter(2 * pl.len().over("name") <= lasts.height)
    for name, count, line in lists.select("name", "values", "line").head(1).rows():
        yield about_reading(
            "listed-evaluations",
            f"{count:,} values of {name} stand below one of {lasts.height:,} trainings, and fewer below most",
            "each is of another training, or of another set",
            {"values": count, "name": name},
            line,
        )


def of_next(log: ParsedRows) -> Iterator[Doubt]:
    """A measure above the first record that every training but the last has once more at its last step.

    Each of these stands above the next training, and may have been made before it.
    """
    run = ["phase", "attempt"]
    begins: Any = log.records["line"].min() or 0
    above = log.evals.filter(pl.col("line") < begins)
    opening = above.group_by("name", maintain_order=True).len().filter(pl.col("len") == 1)
    if opening.is_empty():
        return
    records = log.records.filter(pl.col("step").is_not_null())
    lasts = records.group_by(run, maintain_order=True).agg(pl.col("step").last().alias("reached"))
    if lasts.height < 2:
        return
    at_end = pl.col("step") == pl.col("reached")
    each = lasts.join(log.evals, on=run, how="left", maintain_order="left")
    for name in opening["name"]:
        is_named = pl.col("name") == name
        values = each.group_by(run, maintain_order=True).agg(
            (is_named & at_end).sum().alias("values"), pl.col("line").filter(is_named & at_end).last()
        )
        *before, last = values["values"].to_list()
        others = log.evals.filter(name=name).height - sum(before) - 1
        if set(before) == {last + 1} and (last or not others):
            yield about_reading(
                "evaluations-of-next",
                f"the last step of {text.counted(len(before), 'training')} has {last + 1} values of {name}, "
                f"and that of the last one {last}",
                "one of them was made before the training that follows",
                {"name": name, "trainings": len(before)},
                values["line"][0],
            )
            return


def _with_passes(log: ParsedRows, evaluations: pl.DataFrame) -> pl.DataFrame:
    """The evaluations with the `pass` through the data that they stand in, where each counts its steps anew."""
    records = log.records.filter(pl.col("step").is_not_null()).sort("line")
    begins = records.filter((pl.col("step").diff() <= 0).over("phase", "attempt"))["line"]
    counts_anew = bool(epochs(log)) and records.height > FEWEST and 0 < 2 * len(begins) < records.height
    lines = begins.to_numpy() if counts_anew else np.empty(0, dtype=np.int64)
    return evaluations.with_columns(pl.Series("pass", np.searchsorted(lines, evaluations["line"].to_numpy())))
