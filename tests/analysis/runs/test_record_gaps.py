"""The time between records, and the time of a step by it."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone

import polars as pl
import pytest

from gputel.analysis.runs.record_gaps import printed_median, record_gaps, time_by_gaps

START = datetime(2026, 3, 1, 10, tzinfo=timezone.utc)


def log(every: int, eval_every: int, step_s: float, seed: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Records with stamps of whole seconds, and evaluations of 14 s each before some of them."""
    rng, at, line = random.Random(seed), 0.3, 0
    records, evals = [], []
    for step in range(400):
        if step and step % eval_every == 0:
            at, line = at + 14 * rng.uniform(0.95, 1.05), line + 1
            evals.append({"line": line})
        at += step_s * rng.uniform(0.99, 1.01)
        if step % every == 0:
            line += 1
            records.append(("train", 1, line, step, START + timedelta(seconds=int(at))))
    names = ["phase", "attempt", "line", "step", "time"]
    return pl.DataFrame(records, schema=names, orient="row"), pl.DataFrame(evals)


@pytest.mark.parametrize(("every", "eval_every"), [(1, 20), (10, 20), (10, 50)])
def test_gaps_with_an_evaluation_do_not_lengthen_the_step(every: int, eval_every: int) -> None:
    estimate = time_by_gaps(record_gaps(*log(every, eval_every, 0.64)), 1.0)
    assert estimate is not None
    assert abs(estimate.seconds - 0.64) < 2 * estimate.error_s
    assert estimate.error_s < 0.1 * 0.64


def test_stated_error_holds_the_truth_in_nine_of_ten_logs() -> None:
    times = [time_by_gaps(record_gaps(*log(1, 50, 0.645, seed)), 1.0) for seed in range(40)]
    held = sum(abs(time.seconds - 0.645) <= time.error_s for time in times if time)
    assert 30 <= held <= 40


def test_no_gap_is_between_attempts_or_ranks() -> None:
    records, _ = log(1, 1000, 1.0)
    again = records.with_columns(attempt=pl.lit(2, pl.Int64), line=pl.col("line") + records.height)
    rank = records.with_columns(line=pl.col("line") + 2 * records.height)
    assert record_gaps(pl.concat([records, again, rank])).height == 2 * (records.height - 1)


def test_clock_in_step_with_the_run_cuts_all_gaps_alike_and_the_error_says_so() -> None:
    """Every gap of ten steps of 0.65 s begins at the same part of a second, so all of them read 7 s."""
    gaps = pl.DataFrame({"chain": range(9), "steps": [10] * 9, "seconds": [7.0] * 9})
    estimate = time_by_gaps(gaps, 1.0)
    assert estimate is not None
    assert abs(estimate.seconds - 0.65) <= estimate.error_s < 0.1


def test_median_of_what_is_printed_counts_finite_values_above_the_bound() -> None:
    records = pl.DataFrame({"mfu": [0.0, 0.0, 4.0, None, math.nan, math.inf]})
    assert printed_median(records, "mfu") == 0.0
    assert printed_median(records, "mfu", above=0.0) == 4.0
    assert printed_median(records, "mfu", above=4.0) is None
    assert printed_median(records, "loss") is None
