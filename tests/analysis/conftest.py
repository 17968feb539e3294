"""A text is read as a log would be; a line of a small trainer is made; pages have a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from gputel.analysis.logs import result
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import Parser, make_parser
from tests import browser
from tests.browser import Browser

LATEST = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.fixture
def conclude() -> Callable[[Parser], Log]:
    """The log of a parser that has read to the end; it was not written after noon of 21 November 2026."""
    return lambda parser: result.conclude(parser, "x", "x.log", LATEST)


@pytest.fixture
def read(conclude: Callable[[Parser], Log]) -> Callable[[str], Log]:
    """The log that a text is."""

    def read(text: str) -> Log:
        parser = make_parser()
        parser.feed(text.encode())
        parser.finish()
        return conclude(parser)

    return read


@pytest.fixture
def rows(read: Callable[[str], Log]) -> Callable[..., list[tuple[Any, ...]]]:
    """Some columns of the records that a text holds."""
    return lambda text, *columns: read(text).records.select(columns).rows()


@pytest.fixture
def evals(read: Callable[[str], Log]) -> Callable[[str], list[tuple[Any, ...]]]:
    """Step, name and value of the evaluations that a text holds."""
    return lambda text: read(text).evals.select("step", "name", "value").rows()


@pytest.fixture(scope="session")
def one_browser() -> Iterator[Browser]:
    with browser.started() as opened:
        yield opened


@pytest.fixture
def chromium(one_browser: Browser) -> Iterator[Browser]:
    """One browser for all tests of pages; what a test leaves open is closed, and a live page asks no longer."""
    yield one_browser
    for tab in [*one_browser.tabs]:
        tab.close()


@pytest.fixture
def iteration() -> Callable[..., str]:
    """A line as nanoGPT prints it."""
    return lambda step, loss, head="": f"{head}iter {step}: loss {loss}, time 10.00ms, mfu 20.00%\n"
