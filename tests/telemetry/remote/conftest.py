"""A folder that plays object storage, and runs to send there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from tests.conftest import ROOT

pytest.importorskip("obstore", reason="the extra s3 is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    return tmp_path / "cache"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket/d12"


@pytest.fixture
def sample_run(tmp_path: Path) -> Path:
    """A finished recording, with a second segment."""
    run = tmp_path / "h100"
    shutil.copytree(ROOT / "sample_runs" / "h100-depth12", run)
    shutil.copytree(ROOT / "sample_runs" / "h100-depth12", run / "segments" / "2")
    return run


@pytest.fixture
def live_run(tmp_path: Path) -> Path:
    """A recording that has printed two lines."""
    segment = run_folder.create(tmp_path / "live", {"run": "live", "started": {"wall_ns": 5}})
    segment.output.write_bytes(b"step 1\nstep 2\n")
    segment.index.write_bytes(bytes(32))
    return segment.path


Files = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def files() -> Files:
    """The visible files below a folder, by their paths."""

    def found(folder: Path) -> dict[str, bytes]:
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.name[0] != "."
        }

    return found
