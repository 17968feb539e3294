"""Stamps and ranks before a record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from gputel.analysis.parse import prefixes


def when(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=timezone.utc)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("head", "moment"),
    [
        ("2026-03-01 10:00:01,250 - root - INFO - ", when(2026, 3, 1, 10, 0, 1, 250_000)),
        ("[2026-03-01 10:00:01] ", when(2026, 3, 1, 10, 0, 1)),
        ("2026-03-01T10:00:01.250000Z stdout F ", when(2026, 3, 1, 10, 0, 1, 250_000)),
        ("2026-03-01T12:00:01+02:00 ", when(2026, 3, 1, 10, 0, 1)),
        ("10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: ", when(2025, 10, 17, 16, 31, 56)),
        ("[INFO|2024-11-26 22:09:01] logging.py:157 >> ", when(2024, 11, 26, 22, 9, 1)),
        (
            "I0317 10:00:13.224641 125344476638336 metric_logger.py:181] ",
            when(2026, 3, 17, 10, 0, 13, 224_641),
        ),
        ("12/24 08:57:08 - mmengine - INFO - ", when(2025, 12, 24, 8, 57, 8)),
        ("Mar  7 09:08:07 node1 train[12]: ", when(2026, 3, 7, 9, 8, 7)),
        ("[11:59:58] ", when(2026, 11, 21, 11, 59, 58)),
        ("13:00:00 ", when(2026, 11, 20, 13, 0, 0)),
        ("1772359201.5: ", when(2026, 3, 1, 10, 0, 1, 500_000)),
        ("no stamp at all: ", None),
        ("2026-13-45 10:00:01 ", None),
    ],
)
def test_a_stamp_of_any_kind_is_the_time_of_its_record(
    head: str, moment: datetime | None, read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    """The log was not written after noon of 21 November 2026: that is what a missing year or date is told from."""
    assert read(iteration(1, 2.5, head)).records["time"].to_list() == [moment]


def test_midnight_is_crossed_between_stamps_without_a_date(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(
        iteration(1, 2.5, "23:59:59 ") + iteration(2, 2.5, "00:00:01 ") + iteration(3, 2.5, "00:00:02 ")
    )
    gaps = log.records["time"].diff().dt.total_seconds().to_list()
    assert gaps == [None, 2, 1]


def test_new_year_is_crossed_between_stamps_without_a_year(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(iteration(1, 2.5, "12/31 23:59:59 - INFO - ") + iteration(2, 2.5, "01/01 00:00:01 - INFO - "))
    assert log.records["time"].to_list() == [when(2025, 12, 31, 23, 59, 59), when(2026, 1, 1, 0, 0, 1)]


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        (b"[rank3]: ", "3"),
        (b"[default7]: ", "7"),
        (b"2026-03-01 [Rank 0] ", "0"),
        (b"12: ", "12"),
        (b"[INFO|DP=5|PP=0|TP=0]: ", "5"),
        (b"node-2: ", "node-2"),
        (b"2026-03-01 10:00:01,250 - root - INFO - ", None),
        (b"", None),
    ],
)
def test_a_rank_is_read_from_what_stands_before(prefix: bytes, rank: str | None) -> None:
    found = prefixes.rank(prefix)
    assert (found.rstrip(": ") if found else found) == rank
