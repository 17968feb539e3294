"""Which files and run folders lie below a path."""

from __future__ import annotations

import os
import warnings
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


def test_walk_skips_pipes_and_links_that_lead_out_and_names_them(folder: Path) -> None:
    inside = folder / "logs"
    inside.mkdir()
    os.mkfifo(inside / "pipe.log")
    for name, target in (("zero.log", "/dev/zero"), ("up", ".."), ("passwd", "/etc/passwd"), ("gone", "x")):
        (inside / name).symlink_to(target)
    (inside / "c.log").write_text("step 1 | loss: 3.0\n")
    (inside / "same.log").symlink_to("c.log")
    skipped: list[Path] = []
    assert [path.name for path in paths.walk(inside, skipped.append)] == ["c.log", "same.log"]
    assert [path.name for path in skipped] == ["gone", "passwd", "pipe.log", "up", "zero.log"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [log.name for log in paths.parse_all(inside)] == ["c", "same"]
    assert f"{inside}/zero.log: skipped: a link that leads out" in str(caught[-1].message)


def test_walk_ends_where_links_lead_in_circles(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).symlink_to(".")
    assert [path.name for path in paths.walk(folder)] == ["a", "b.log", "notes.txt"]
