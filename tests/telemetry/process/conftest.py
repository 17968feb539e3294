"""Real recorders for the tests of this folder.

They sample no GPU unless a test asks for one, and print no closing report: both would take most of the time.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import Recorder

SIMULATED = ("--simulate", "1xH100")


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Start real recorders; none outlives the test."""
    started: list[Recorder] = []

    def begin(*command: str, **how: Any) -> Recorder:
        how.setdefault("options", ())
        started.append(Recorder(tmp_path / f"run{len(started)}", *command, **how))
        return started[-1]

    yield begin
    for recorder in started:
        recorder.stop()
