"""A browser for the tests of pages; one for all of them, a tab for each."""

from collections.abc import Iterator

import pytest

from tests import browser
from tests.browser import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser.started() as opened:
        yield opened
