"""Start times in the names of files."""

from datetime import datetime, timezone

import pytest

from gputel.analysis.logs.file_times import time_in_name

START = int(datetime(2025, 12, 21, 7, 3, 19, tzinfo=timezone.utc).timestamp()) * 10**9


@pytest.mark.parametrize(
    "name",
    [
        "training_20251221_070319.log",
        "runs/gpu_2025-12-21_07-03-19.csv",
        "20251221-070319-d16",
        "a.2025-12-21T07:03:19.txt",
    ],
)
def test_time_in_a_name_is_read_in_the_usual_forms(name: str) -> None:
    assert time_in_name(name) == START


@pytest.mark.parametrize(
    "name", ["train.log", "step_0000200000.log", "run_20251399_070319.log", "8h100-2048.log"]
)
def test_name_without_a_date_has_no_time(name: str) -> None:
    assert time_in_name(name) is None
