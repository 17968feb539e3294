"""Doubts about steps that come at one distance throughout, and then not: a record or an evaluation was not read.

In an excerpt steps are missing with their lines, and nothing stands in a gap. Here the lines are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.doubts import Doubt, about_reading

if TYPE_CHECKING:
    from gputel.analysis.logs.parsed_rows import ParsedRows

FEWEST = 5  # gaps of a row show their usual width
USUAL = 0.8  # share of the gaps that are alike
CROWDED = 0.75  # of the lines that stand in so wide a gap elsewhere


def records(log: ParsedRows) -> Iterator[Doubt]:
    """Records that are missing where lines stand, but not between two epochs."""
    rows, row_of = log.records, ["phase", "attempt", "rank"]
    if "epoch" in rows.columns and (rows["epoch"] != rows["step"]).any():
        rows, row_of = rows.with_columns(within=pl.col("epoch").floor()), [*row_of, "within"]
    yield from _missing(log, rows, row_of, "records")


def evaluations(log: ParsedRows) -> Iterator[Doubt]:
    """Evaluations that are missing where lines stand."""
    yield from _missing(log, log.evals, ["phase", "attempt", "rank", "name"], "evaluations")


def _missing(log: ParsedRows, rows: pl.DataFrame, row_of: list[str], kind: str) -> Iterator[Doubt]:
    rows = rows.select(*row_of, "step", "line").filter(pl.col("step").is_not_null())
    if rows.height <= FEWEST or rows["step"].diff().n_unique() <= 2:  # null and one gap
        return
    rows = rows.unique([*row_of, "step"], keep="first", maintain_order=True)
    gaps = rows.with_columns(gap=pl.col("step").diff().over(row_of), lines=pl.col("line").diff().over(row_of))
    gaps = gaps.drop_nulls("gap").with_columns(
        usual=pl.col("gap").median().over(row_of), usual_lines=pl.col("lines").median().over(row_of)
    )
    times = pl.col("gap") / pl.col("usual")
    is_row = (pl.len().over(row_of) >= FEWEST) & ((times == 1).mean().over(row_of) >= USUAL)
    is_wide = (
        (times > 1)
        & (times % 1 == 0)
        & (pl.col("lines") >= times.clip(times * CROWDED * pl.col("usual_lines")))
    )
    wide = gaps.filter(is_row & (pl.col("usual") > 0) & is_wide)
    told = _told(log) if wide.height else pl.Series()
    for step, line, gap, lines, usual in wide.select("step", "line", "gap", "lines", "usual").rows():
        if not told.is_between(line - lines, line).any():
            yield about_reading(
                f"missing-{kind}",
                f"{kind} are {usual:,.0f} steps apart, and {step:,} comes {gap:,} after the one before",
                "lines between the two were not read",
                {"usual": usual, "gap": gap, "step": step},
                line,
            )
            return


def _told(log: ParsedRows) -> pl.Series:
    """The lines that are told of elsewhere: rejects, and records without a step."""
    without_step = log.records.filter(pl.col("step").is_null())["line"]
    return pl.concat([pl.Series([reject.line for reject in log.rejects], dtype=pl.Int64), without_step])
