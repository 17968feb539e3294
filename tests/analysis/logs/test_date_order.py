"""Dates whose day and month may stand in either order: what decides, and what stays open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from gputel.analysis.logs.date_order import DateOrder
from gputel.analysis.logs.log import Log

FORMS = ["%d/%m/%Y %H:%M:%S ", "%m/%d/%Y %H:%M:%S ", "%d-%m-%Y %H:%M ", "[%m/%d/%Y %I:%M:%S %p] "]


def stamped(form: str, first: datetime, hours: float, lines: int = 24) -> tuple[str, list[datetime]]:
    """A training with a line each so many hours."""
    moments = [first + timedelta(hours=hours * i) for i in range(lines)]
    rows = (f"{moment.strftime(form)}step {i} loss {9 / (i + 1):.4f}\n" for i, moment in enumerate(moments))
    return "".join(rows), moments


def at(month: int, day: int, hour: int = 23) -> datetime:
    return datetime(2024, month, day, hour, 50, tzinfo=timezone.utc)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("month", "day", "hours"), [(11, 23, 0.01), (4, 3, 0.05), (4, 10, 3), (12, 28, 11)])
def test_dates_are_in_the_order_that_the_log_shows(
    form: str, month: int, day: int, hours: float, read: Callable[[str], Log]
) -> None:
    text, moments = stamped(form, at(month, day), hours)
    log = read(text)
    whole = [moment if "%S" in form else moment.replace(second=0) for moment in moments]
    assert log.records["time"].to_list() == whole
    assert not log.doubts


@pytest.mark.parametrize(
    ("form", "doubts"),
    [("%d/%m/%Y %H:%M:%S ", ["date-order"]), ("%d.%m.%Y %H:%M:%S ", []), ("%m/%d/%Y %H:%M:%S - INFO - ", [])],
)
def test_one_day_that_may_be_of_two_months_is_a_doubt_unless_its_form_says_which(
    form: str, doubts: list[str], read: Callable[[str], Log]
) -> None:
    log = read(stamped(form, at(4, 3, 1), 0.01)[0])
    assert [doubt.what for doubt in log.doubts] == doubts
    month = (3, 4) if doubts else (4, 3)
    assert (log.records["time"][0].month, log.records["time"][0].day) == month


@pytest.mark.parametrize(("latest", "day_first"), [((4, 5), None), ((3, 5), False), ((2, 1), None)])
def test_order_in_which_a_date_is_after_the_last_change_of_the_log_is_excluded(
    latest: tuple[int, int], day_first: bool | None
) -> None:
    """03/04 is April the 3rd or March the 4th."""
    order = DateOrder()
    order.see(2024, 3, 4)
    assert order.day_first(datetime(2024, *latest, tzinfo=timezone.utc)) is day_first


def test_one_day_in_the_middle_of_a_year_is_no_doubt_where_both_numbers_are_the_same(
    read: Callable[[str], Log],
) -> None:
    assert not read(stamped("%d/%m/%Y %H:%M:%S ", at(4, 4, 1), 0.01)[0]).doubts
