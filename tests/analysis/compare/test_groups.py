"""Runs of one setting become one row."""

from __future__ import annotations

import polars as pl
import pytest

from gputel.analysis.compare import groups
from gputel.telemetry.errors import GputelError

MEMBERS = {"a": "lr=1", "b": "lr=1", "c": "lr=2"}


def test_groups_are_named_by_setting_and_value() -> None:
    assert groups.by("lr", {"a": {"lr": 1}, "b": {"lr": 2}}) == {"a": "lr=1", "b": "lr=2"}


def test_group_by_a_setting_that_a_run_lacks_is_refused() -> None:
    with pytest.raises(GputelError, match="--group seed: b does not have it; group by lr"):
        groups.by("seed", {"a": {"lr": 1, "seed": 0}, "b": {"lr": 2}})


def test_settings_that_vary_within_a_group_are_dropped() -> None:
    runs = {"a": {"lr": 1, "seed": 0}, "b": {"lr": 1, "seed": 1}, "c": {"lr": 2, "seed": 0}}
    assert groups.stated(runs, MEMBERS) == {"lr=1": {"lr": 1}, "lr=2": {"lr": 2, "seed": 0}}


def test_group_of_one_run_has_no_deviation() -> None:
    frame = pl.DataFrame({"run": ["a", "b", "c"], "x": [0, 0, 0], "value": [1.0, 3.0, 5.0]})
    banded = groups.banded(frame, MEMBERS, ["x"])
    assert banded["value"].to_list() == [2, 5]
    assert banded["deviation"].to_list() == [pytest.approx(2**0.5), None]
    assert groups.differences(banded, ["x"], "lr=1")["difference"].to_list() == [None, 3]


def test_text_stays_if_all_runs_of_a_group_agree() -> None:
    frame = pl.DataFrame(
        {"run": ["a", "b", "c"], "status": ["completed", "failed", "failed"], "steps": [1, 3, 5]}
    )
    assert groups.averaged(frame, MEMBERS).rows() == [("lr=1", None, 2.0, 2), ("lr=2", "failed", 5.0, 1)]
