"""Many logs read in one go are what each of them is when it is read alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from gputel.analysis.logs import files
from gputel.analysis.logs.files import read_file
from gputel.analysis.logs.log import Log
from gputel.analysis.runs.paths import parse_all, read_log, read_logs, walk
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError

SAMPLES = Path(__file__).parents[3] / "sample_logs"
STEP = "step {:05d}/00900 (0.00%) | loss: {:.6f} | lrm: 1.00 | dt: 18077.85ms | tok/sec: 29,001 | mfu: 2.5\n"


def assert_alike(together: Log, alone: Log) -> None:
    for table in ("records", "evals", "partials", "events"):
        assert_frame_equal(getattr(together, table), getattr(alone, table), check_exact=True)
    for name in ("name", "source", "format", "lines", "config", "summary", "rejects", "sources", "places"):
        assert getattr(together, name) == getattr(alone, name), name
    for name in ("status", "cause", "inferred", "learned", "composed", "fault", "formats"):
        assert getattr(together, name) == getattr(alone, name), name


def all_of(paths: list[Path]) -> Iterator[Log]:
    for log in read_logs(paths):
        assert not isinstance(log, GputelError)
        yield log


def test_sample_logs_read_together_equal_each_read_alone() -> None:
    paths = list(walk(SAMPLES))
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


def test_real_logs_read_together_equal_each_read_alone(real_logs: Path) -> None:
    paths = [path for path in walk(real_logs) if path.stat().st_size < files.SMALL]
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no line feed at the end", STEP.format(1, 3.25) + STEP.format(2, 3.125)[:-20]),
        ("carriage returns", STEP.format(1, 3.25).replace("\n", "\r\n") * 3),
        ("colors", "\x1b[32m" + STEP.format(1, 3.25) + STEP.format(2, 3.125)),
        ("nothing", ""),
        ("one line feed", "\n"),
        ("other fields", STEP.format(0, 3.5).replace("lrm", "zeta") + STEP.format(1, 3.25)),
        ("a reject", STEP.format(1, 3.25) + "step 00002/00900 (0.00%) | loss: what | dt: 1.00ms\n"),
    ],
)
def test_unusual_log_does_not_change_its_neighbors(tmp_path: Path, name: str, text: str) -> None:
    plain = "".join(STEP.format(step, 3 - step / 1000) for step in range(40))
    for place, one in enumerate((plain, text, plain)):
        (tmp_path / f"{place}.log").write_bytes(one.encode())
    paths = list(walk(tmp_path))
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


def test_unreadable_file_gives_its_error_in_its_place(tmp_path: Path) -> None:
    for name in ("a.log", "c.log"):
        (tmp_path / name).write_text(STEP.format(1, 3.25))
    found = list(read_logs([tmp_path / "a.log", tmp_path / "b.log", tmp_path / "c.log"]))
    assert [log.name if isinstance(log, Log) else log.fault for log in found] == [
        "a",
        "cannot be read: No such file or directory",
        "c",
    ]


def test_large_files_keep_their_place_among_small_ones(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(STEP.format(1, 3.25))
    (tmp_path / "b.log").write_text(STEP.format(1, 3.25) * (files.SMALL // 100))
    shutil.copy(tmp_path / "a.log", tmp_path / "c.log")
    assert [log.name for log in parse_all(tmp_path)] == ["a", "b", "c"]


def test_run_folders_keep_their_place_among_files(tmp_path: Path) -> None:
    for name in ("a.log", "c.log"):
        (tmp_path / name).write_text(STEP.format(1, 3.25))
    run_folder.create(tmp_path / "b", {"run": "d12"}).output.write_text(STEP.format(2, 3.25))
    (tmp_path / "bare").mkdir()
    assert [log.name for log in parse_all(tmp_path)] == ["a", "d12", "c"]
    faults = [log.fault for log in read_logs([tmp_path / "bare", tmp_path / "b"])]
    assert faults == ["no run is here", None]


def test_read_file_rejects_a_run_folder(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "b", {"run": "d12"})
    with pytest.raises(GputelError, match="cannot be read: Is a directory"):
        read_file(tmp_path / "b")
