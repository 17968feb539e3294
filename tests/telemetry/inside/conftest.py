import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.telemetry.inside import environment


@pytest.fixture
def meeting() -> Iterator[Path]:
    """A folder in memory, as a recorder makes it."""
    inside = environment.enter("stacks")
    assert inside.folder, inside.reason
    yield inside.folder
    environment.leave(inside)


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A folder with an empty package torch."""
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "torch.py").write_text("ones = [1]\n")
    return tmp_path / "stub"


@pytest.fixture
def this_python() -> Path:
    return Path(sys.executable)
