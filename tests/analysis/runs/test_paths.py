"""Which files and run folders lie below a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputel.analysis import spread
from gputel.analysis.logs import summary
from gputel.analysis.logs.files import SMALL
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from tests.sources import ROOT


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
    skipped: list[paths.Skipped] = []
    assert [path.name for path in paths.walk(inside, skipped)] == ["c.log"]
    assert sorted(each.path.name for each in skipped) == ["gone", "passwd", "pipe.log", "up", "zero.log"]
    assert {each.why for each in skipped} == {paths.FOREIGN}


def test_walk_ends_where_links_lead_in_circles(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).symlink_to(".")
    assert [path.name for path in paths.walk(folder)] == ["a", "b.log", "notes.txt"]


def test_link_to_itself_is_skipped_and_the_others_are_found(folder: Path) -> None:
    (folder / "a.log").symlink_to("a.log")
    skipped: list[paths.Skipped] = []
    assert [path.name for path in paths.walk(folder, skipped)] == ["a", "b.log", "notes.txt"]
    assert [(each.path.name, each.why.split(":")[0]) for each in skipped] == [("a.log", "cannot be opened")]


def test_file_that_links_lead_to_is_found_once_by_its_own_name(folder: Path) -> None:
    (folder / "0-latest.log").symlink_to("b.log")
    (folder / "again").symlink_to(folder)
    (folder / "a" / "up").symlink_to("..")
    skipped: list[paths.Skipped] = []
    assert [path.name for path in paths.walk(folder, skipped)] == ["a", "b.log", "notes.txt"]
    assert [(each.path.name, each.why) for each in skipped] == [
        ("0-latest.log", f"the same as {folder / 'b.log'}"),
        ("again", f"the same as {folder}"),
    ]


def test_checkpoint_beside_a_log_is_no_log(folder: Path) -> None:
    (folder / "model.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    (folder / "gone.log").symlink_to("nothing")
    skipped: list[paths.Skipped] = []
    assert "model.pt" not in [path.name for path in paths.walk(folder, skipped)]
    assert [(each.path.name, each.why) for each in skipped] == [
        ("model.pt", "zip archive or PyTorch checkpoint"),
        ("gone.log", paths.FOREIGN),
    ]
    (log,) = paths.read_logs([folder / "model.pt"])
    assert isinstance(log, Log)
    assert (log.binary, log.is_empty) == ("zip archive or PyTorch checkpoint", True)


def test_python_environment_below_a_folder_is_passed_over(folder: Path) -> None:
    (folder / "venv" / "lib").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "venv" / "lib" / "rules.txt").write_text("step 1 | loss: 2.0\n" * 9)
    skipped: list[paths.Skipped] = []
    assert [path.name for path in paths.walk(folder, skipped)] == ["a", "b.log", "notes.txt"]
    assert paths.Skipped(folder / "venv", "a folder of installed programs") in skipped
    assert [path.name for path in paths.walk(folder / "venv")] == ["rules.txt", "pyvenv.cfg"]


def test_files_of_a_folder_come_in_natural_order(tmp_path: Path) -> None:
    for name in ("run10.log", "run2.log", "run1.log", "b.log"):
        (tmp_path / name).write_text("step 1 loss 2\n")
    assert [path.name for path in paths.walk(tmp_path)] == ["b.log", "run1.log", "run2.log", "run10.log"]


def answers(logs: list[Log | GputelError]) -> list[object]:
    return [
        str(log) if isinstance(log, GputelError) else (log.doubts, list(summary.rows(log))) for log in logs
    ]


@pytest.mark.long
def test_several_processes_read_what_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = run_folder.create(tmp_path / "a", {"run": "a"})
    segment.output.write_text("step 1 | loss: 2.0\nstep 2 | loss: 1.9\n")
    (tmp_path / "random.bin").write_bytes(b"\0" + os.urandom(100))
    logs = [
        tmp_path / "a",
        *sorted((ROOT / "sample_logs").glob("*.log")),
        tmp_path / "gone.log",
        tmp_path / "random.bin",
    ]
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: 2)
    assert answers(list(paths.read_many(logs))) == answers(list(paths.read_logs(logs)))


def test_few_small_logs_are_read_without_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("step 1 | loss: 2.0\n")
    monkeypatch.delattr(spread, "spread")
    (log,) = paths.read_many([tmp_path / "a.log"])
    assert isinstance(log, Log)
    assert log.records.height == 1


def test_what_is_left_goes_to_workers_when_the_first_logs_took_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(4)]
    for log in logs:
        log.write_text("x" * SMALL + "\nstep 1 | loss: 2.0\n")
    spread_over: list[Path] = []
    workers = iter([1, 2])

    def keep(_work: object, items: list[Path], *_others: object) -> list[Log | GputelError]:
        spread_over.extend(items)
        return [*paths.read_logs(items)]

    monkeypatch.setattr(spread, "LOOK_S", 0)
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: next(workers))
    monkeypatch.setattr(spread, "spread", keep)
    assert len(list(paths.read_many(logs))) == 4
    assert spread_over == logs[1:]
