"""Which files and run folders lie below a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs import paths
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.log").write_text("step 1 | loss: 3.0\n")
    (tmp_path / ".hidden.log").write_text("step 1 | loss: 3.0\n")
    (tmp_path / "notes.txt").write_text("nothing\n")
    segment = run_folder.create(tmp_path / "a", {"run": "a"})
    segment.output.write_text("step 1 | loss: 2.0\n")
    return tmp_path


def test_walk_takes_a_run_folder_whole_and_skips_hidden_files(folder: Path) -> None:
    assert [path.name for path in paths.walk(folder)] == ["a", "b.log", "notes.txt"]


def test_parse_all_leaves_out_files_without_a_run(folder: Path) -> None:
    assert [log.name for log in paths.parse_all(folder)] == ["a", "b"]


def test_one_unreadable_path_does_not_stop_the_others(folder: Path) -> None:
    missing, log = paths.read_logs([folder / "missing.log", folder / "b.log"])
    assert isinstance(missing, GputelError)
    assert not isinstance(log, GputelError)
    assert log.records.height == 1
