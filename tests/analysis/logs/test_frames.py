"""Rows become frames: missing and NaN stay apart, phases get their names, times their dates."""

from __future__ import annotations

import math
from datetime import datetime, timezone

import numpy as np
import pytest

from gputel.analysis.logs import frames
from gputel.analysis.logs.date_order import UNSHIFTED, Calendar
from gputel.analysis.logs.frames import EVALS, RECORDS, RowBlock, Rows, Together

FIRST = ("line", "step", "loss")
ROW: frames.Row = {"phase": 0, "attempt": 1, "line": 1, "step": 1, "loss": 2.5, "rank": None}


def block(size: int, **same: float | str | None) -> RowBlock:
    columns = {"line": np.arange(size), "loss": np.linspace(0, 1, size)}
    return RowBlock(size, columns, {"phase": 0, "attempt": 1, **same})


def test_missing_value_is_null_and_a_printed_nan_is_a_nan() -> None:
    rows = Rows()
    rows.append({"line": 1, "loss": math.nan})
    rows.append({"line": 2})
    loss = rows.frame(FIRST)["loss"]
    assert (loss.is_nan().to_list(), loss.is_null().to_list()) == ([True, None], [False, True])


@pytest.mark.parametrize("at_once", [1, 1 << 16], ids=["spread at once", "spread at the end"])
def test_rows_and_blocks_keep_the_order_in_which_they_came(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "AT_ONCE", at_once)
    rows = Rows()
    rows.append({"line": 7, "loss": 9.0})
    rows.extend(block(3, rank="1"))
    rows.append({"line": 8, "step": 4, "rank": "2"})
    frame = rows.frame(FIRST)
    assert frame["line"].to_list() == [7, 0, 1, 2, 8]
    assert frame["loss"].to_list() == [9.0, 0.0, 0.5, 1.0, None]
    assert frame["step"].to_list() == [None, None, None, None, 4]
    assert frame["rank"].to_list() == [None, "1", "1", "1", "2"]


def test_whole_number_too_large_for_its_column_is_null() -> None:
    rows = Rows()
    rows.append({"line": 1, "step": float(2**63)})
    assert rows.frame(FIRST)["step"].to_list() == [None]


def test_first_columns_are_there_even_without_rows() -> None:
    assert Rows().frame(RECORDS.first).columns == list(RECORDS.first)


def test_rows_of_many_logs_become_one_frame_each_with_their_own_columns() -> None:
    together, plain, paced = Together(), Rows(), Rows()
    plain.append(ROW)
    paced.append({**ROW, "lr": 0.5})
    places = {(0, 1): ("train", 1)}
    made = [together.add(RECORDS, rows, places, UNSHIFTED) for rows in (plain, paced)]
    together.make()
    first, second = (frame() for frame in made)
    assert "lr" not in first.columns
    assert second["lr"].to_list() == [0.5]
    assert first["phase"].to_list() == second["phase"].to_list() == ["train"]


def test_rows_of_several_phases_get_their_names() -> None:
    rows = Rows()
    rows.append(ROW)
    rows.append({**ROW, "phase": 1, "line": 2})
    frame = frames.readable(
        frames.unnamed(RECORDS, rows), {(0, 1): ("base", 1), (1, 1): ("sft", 2)}, UNSHIFTED
    )
    assert frame.select("phase", "attempt").rows() == [("base", 1), ("sft", 2)]
    assert list(frames.begun(frames.unnamed(RECORDS, rows))) == [(0, 1), (1, 1)]


def test_times_without_a_date_are_shifted_and_dated_ones_are_not() -> None:
    rows = Rows()
    dated = 1_700_000_000 * 10**9
    rows.append({**ROW, "time": 60 * 10**9})
    rows.append({**ROW, "line": 2, "time": dated})
    frame = frames.readable(frames.unnamed(RECORDS, rows), {(0, 1): ("train", 1)}, Calendar(dated))
    moment = datetime.fromtimestamp(1_700_000_000, timezone.utc)
    assert [(time - moment).total_seconds() for time in frame["time"]] == [60, 0]


def test_rows_are_sorted_by_line() -> None:
    rows = Rows()
    rows.append({**ROW, "line": 5})
    rows.append({**ROW, "line": 2})
    assert frames.unnamed(EVALS, rows)["line"].to_list() == [2, 5]
