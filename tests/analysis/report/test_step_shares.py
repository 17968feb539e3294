"""How much of a step each rank waits for data, as hooks in the training saw it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from gputel.analysis.report.step_shares import DATA_SHARE, longest_wait, printed_steps, shares_of_ranks
from gputel.analysis.runs.inside_steps import SCHEMA


def inside(*rows: dict[str, Any]) -> pl.DataFrame:
    """Steps of rank 0 that last 100 ms, 10 of which wait for data, but for what is given."""
    usual = {"rank": 0, "step_ms": 100.0, "data_wait_ms": 10.0, "evaluates": False}
    return pl.DataFrame([{name: (usual | row).get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)


def shares(frame: pl.DataFrame) -> dict[int, float | None]:
    return dict(shares_of_ranks(frame).select("rank", DATA_SHARE).iter_rows())


def test_share_is_of_the_time_of_all_steps() -> None:
    long = {"step_ms": 300.0, "data_wait_ms": 190.0}
    assert shares(inside({}, long, {"rank": 1})) == {0: pytest.approx(0.5), 1: pytest.approx(0.1)}


def test_first_steps_and_those_with_an_evaluation_do_not_count() -> None:
    rows = inside({"step_ms": None, "data_wait_ms": 90.0}, {"evaluates": True, "data_wait_ms": 90.0}, {})
    assert shares_of_ranks(rows)["steps"].to_list() == [1]
    assert shares(rows) == {0: pytest.approx(0.1)}


def test_step_whose_wait_was_not_seen_is_in_no_share() -> None:
    assert shares(inside({}, {"data_wait_ms": None})) == {0: pytest.approx(0.1)}
    unseen = inside({"data_wait_ms": None})
    assert shares(unseen) == {0: None}
    assert longest_wait(shares_of_ranks(unseen)) is None


def test_sentence_names_the_rank_that_waits_longest_where_there_are_several() -> None:
    slow = {"rank": 1, "data_wait_ms": 40.0}
    several, one = (longest_wait(shares_of_ranks(rows)) for rows in (inside({}, slow, slow), inside({}, {})))
    assert several
    assert several[1] == "40 % of a step rank 1 spends waiting for data, as seen from inside over 2 steps"
    assert one
    assert one[1] == "10 % of a step is spent waiting for data, as seen from inside over 2 steps"
    assert several[0] == pytest.approx(0.4)
    assert one[0] == pytest.approx(0.1)


def test_printed_steps_begin_with_the_first_that_a_record_stands_for() -> None:
    log = pl.DataFrame(
        {
            "step": [10, 20, 30],
            "steps": [10, 10, 10],
            "data_wait_ms": [None, 5.0, None],
            "optimizer_call_ms": [None, None, 1.0],
        }
    )
    assert printed_steps(log) == (11, 30)
    assert printed_steps(log.head(1)) is None
