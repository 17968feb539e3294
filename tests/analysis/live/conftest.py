"""A clock that a test moves."""

from __future__ import annotations

import pytest

from tests.analysis.live.scenes import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
