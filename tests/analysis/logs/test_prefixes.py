"""Stamps and ranks before a record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import prefixes


def when(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=timezone.utc)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("head", "moment"),
    [
        ("2026-03-01 10:00:01,250 - root - INFO - ", when(2026, 3, 1, 10, 0, 1, 250_000)),
        ("[2026-03-01 10:00:01] ", when(2026, 3, 1, 10, 0, 1)),
        ("2026年3月1日 10:00:01 ", when(2026, 3, 1, 10, 0, 1)),
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
        (" 57%|#### | 80/140 [10:04:40<7:33:30, 45.3s/it]", None),
        (" 5%|# | 20/400 [35:10<11:08:02, 105.5s/it]", None),
        ("2026-13-45 10:00:01 ", None),
    ],
)
def test_stamp_of_any_kind_is_the_time_of_its_record(
    head: str, moment: datetime | None, read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    """The log was not written after noon of 21 November 2026: that is what a missing year or date is told from."""
    assert read(iteration(1, 2.5, head)).records["time"].to_list() == [moment]


@pytest.mark.parametrize(
    "record",
    [
        '{{"time": "{:%Y-%m-%dT%H:%M:%SZ}", "step": {}, "loss": 2.5}}',
        '{{"step": {1}, "loss": 2.5, "timestamp": "{0:%Y-%m-%d %H:%M:%S}"}}',
        'level=info ts={:%Y-%m-%dT%H:%M:%S}.000Z msg="a step" step={} loss=2.5 lr=0.1',
        "time={seconds}.25 step={1} loss=2.5 lr=0.1",
    ],
)
def test_record_says_itself_when_it_was_printed(record: str, read: Callable[..., Any]) -> None:
    moments = [when(2026, 3, 1, 23, 59, 30) + timedelta(seconds=11 * i) for i in range(20)]
    log = read(
        "".join(
            record.format(moment, step, seconds=int(moment.timestamp())) + "\n"
            for step, moment in enumerate(moments)
        )
    )
    assert log.records["time"].dt.truncate("1s").to_list() == moments


def test_stamp_in_a_record_counts_more_than_one_before_it(read: Callable[..., Any]) -> None:
    lines = [f"10:00:0{i} ts=2026-03-01T12:00:0{i}Z step={i} loss=2.5 lr=0.1\n" for i in range(9)]
    hours = read("".join(lines)).records["time"].dt.hour().to_list()
    assert hours == [12] * 9


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
    ("heads", "gaps"),
    [
        (("12:00:05 ", "12:00:03 ", "12:00:04 "), [-2, 1]),
        (("02:59:59 ", "02:00:01 ", "02:00:02 "), [-3598, 1]),
        (("01:59:59 ", "03:00:01 ", "03:00:02 "), [3602, 1]),
        (("23:59:59 ", "00:00:02 ", "23:59:58 ", "00:00:03 "), [3, -4, 5]),
        (
            ("Dec 31 23:59:59 n1: ", "Jan  1 00:00:02 n1: ", "Dec 31 23:59:58 n1: ", "Jan  1 00:00:03 n1: "),
            [3, -4, 5],
        ),
        (("23:59:59 ", "00:00:02 ", "13:00:02 ", "13:00:03 "), [3, 46_800, 1]),
    ],
    ids=["NTP step back", "end of DST", "start of DST", "over midnight", "over New Year", "after a long gap"],
)
def test_clock_that_is_set_back_begins_no_new_day_or_year(
    read: Callable[..., Any], iteration: Callable[..., Any], heads: tuple[str, ...], gaps: list[int]
) -> None:
    log = read("".join(iteration(step, 2.5, head) for step, head in enumerate(heads, start=1)))
    assert log.records["time"].diff().dt.total_seconds().to_list() == [None, *gaps]


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
def test_rank_is_read_from_what_stands_before(prefix: bytes, rank: str | None) -> None:
    found = prefixes.rank(prefix)
    assert (found.rstrip(": ") if found else found) == rank


@pytest.mark.parametrize(
    "form",
    [
        "[%Y-%m-%d %H:%M:%S] ",
        "%m/%d/%Y %H:%M:%S - INFO - ",
        "%d/%m/%Y %H:%M ",
        "%d/%m/%Y %I:%M:%S %p ",
        "[rank3]: %Y-%m-%dT%H:%M:%S,250+02:00 ",
        "I%m%d %H:%M:%S.224641 ",
        "%b %d %H:%M:%S node7: ",
        "%H:%M:%S | ",
        "17%H%M%S00 ",
    ],
)
@given(st.integers(0, 86_399), st.lists(st.integers(0, 50_000), min_size=1, max_size=12))
def test_stamps_read_together_are_as_they_are_one_by_one(form: str, begin: int, gaps: list[int]) -> None:
    """Over midnight and New Year too; what cannot be read together is left to be read one by one."""
    first = datetime(2026, 12, 30, tzinfo=timezone.utc) + timedelta(seconds=begin)
    moments = [first + timedelta(seconds=sum(gaps[:i])) for i in range(len(gaps))]
    texts = [moment.strftime(form).encode() for moment in moments]
    one_by_one, together = prefixes.Stamps(), prefixes.Stamps()
    expected = [one_by_one.read(text) for text in texts]
    found = together.read_together(letters(*texts))
    assert ([together.read(text) for text in texts] if found is None else found.tolist()) == expected
    assert one_by_one.read(texts[-1]) == together.read(texts[-1])
    assert one_by_one.calendar(moments[-1]) == together.calendar(moments[-1])


def test_rank_that_is_part_of_what_varies_is_not_the_rank_of_all() -> None:
    assert prefixes.rank_of_all(letters(b"[rank1]: 10:00:01 ", b"[rank1]: 10:00:02 ")) == "1"
    assert prefixes.rank_of_all(letters(b"[rank1]: 10:00:01 ", b"[rank2]: 10:00:01 ")) is False
    assert prefixes.rank_of_all(letters(b"10:00:01 ", b"10:00:02 ")) is None


def letters(*texts: bytes) -> np.ndarray[Any, Any]:
    rows = np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)
    return np.ascontiguousarray(rows.T)


@pytest.mark.parametrize(
    "days", [("12/09/24", "13/09/24"), ("09/12/24", "09/13/24"), ("24-09-12", "24-09-13")]
)
def test_two_digits_of_a_year_are_no_day(days: tuple[str, str], read: Callable[..., Any]) -> None:
    clocks = [(days[0], "23:52:00"), (days[0], "23:56:00"), (days[1], "00:00:00"), (days[1], "00:04:00")]
    log = read(
        "".join(
            f"{day} {clock} INFO Epoch {e}: loss {3 / (e + 1):.3f}\n" for e, (day, clock) in enumerate(clocks)
        )
    )
    assert log.records["time"].diff().drop_nulls().dt.total_minutes().to_list() == [4, 4, 4]


def test_year_of_two_digits_in_front_of_dashes_is_the_year(read: Callable[..., Any]) -> None:
    log = read(
        "".join(f"22-05-{day} 10:00:00.123 - INFO: step {day} loss {3 / day:.3f}\n" for day in range(10, 20))
    )
    assert log.records["time"].dt.date().to_list() == [date(2022, 5, day) for day in range(10, 20)]
