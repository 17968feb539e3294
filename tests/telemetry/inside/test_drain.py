"""Each line of `gputel.log` reaches the run folder once, even if one of the recorder's processes is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import events
from gputel.telemetry.inside import drain

ROW = '{"kind": "log", "ns": 1, "step": %d, "values": {"loss": 1.0}}\n'
MARK = '{"kind": "mark", "ns": 1000000000, "text": "new data"}\n'
WAITS = [sys.executable, "-c", "input()"]


def say(meeting: Path, text: str) -> Path:
    """Appends to the file of a process."""
    path = meeting / "71-9.jsonl"
    with path.open("a") as file:
        file.write(text)
    return path


def copied(segment: Path) -> str:
    return (segment / "inside" / "71-9.jsonl").read_text()


def test_copy_goes_on_where_it_ended_and_waits_for_whole_lines(meeting: Path, tmp_path: Path) -> None:
    say(meeting, ROW % 1 + '{"kind": "lo')
    for _ in range(2):
        drain.drain(tmp_path, meeting)
        assert copied(tmp_path) == ROW % 1
    say(meeting, 'g"}\n')
    drain.drain(tmp_path, meeting)
    assert copied(tmp_path) == ROW % 1 + '{"kind": "log"}\n'


def test_copy_that_a_full_disk_cut_within_a_line_is_completed(meeting: Path, tmp_path: Path) -> None:
    say(meeting, ROW % 1 + ROW % 2)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "71-9.jsonl").write_text((ROW % 1)[:20])
    drain.drain(tmp_path, meeting)
    assert copied(tmp_path) == ROW % 1 + ROW % 2


def test_memory_is_given_back(meeting: Path, tmp_path: Path) -> None:
    path = say(meeting, "".join(ROW % step for step in range(20_000)))
    drain.drain(tmp_path, meeting)
    assert path.stat().st_blocks * 512 <= 2 * drain.PAGE
    say(meeting, ROW % 20_000)
    drain.drain(tmp_path, meeting)
    rows, wrong = drain.rows(tmp_path / "inside" / path.name)
    assert ([row["step"] for row in rows], wrong) == (list(range(20_001)), 0)


def test_mark_becomes_an_event_once(meeting: Path, tmp_path: Path) -> None:
    say(meeting, MARK)
    for _ in range(2):
        drain.drain(tmp_path, meeting)
    assert [(event["kind"], event["text"]) for event in events.read(tmp_path)] == [("mark", "new data")]


def test_rest_in_memory_follows_the_copy(meeting: Path, tmp_path: Path) -> None:
    """As after a recorder and a draining process that were killed."""
    path = say(meeting, ROW % 1)
    drain.drain(tmp_path, meeting)
    say(meeting, ROW % 2)
    copy = tmp_path / "inside" / path.name
    rows, _ = drain.rows(copy, meeting)
    assert [row["step"] for row in rows] == [1, 2]


def test_process_copies_the_rest_after_the_command_if_the_recorder_is_gone(
    meeting: Path, tmp_path: Path
) -> None:
    command = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
    argv = [*drain.order(tmp_path, meeting)(command.pid)]
    argv[-2] = "0"  # of the recorder
    process = subprocess.Popen(argv)
    say(meeting, ROW % 1)
    command.communicate(b"\n")
    assert process.wait() == 0
    assert copied(tmp_path) == ROW % 1


def test_process_leaves_the_rest_to_a_recorder_that_lives(meeting: Path, tmp_path: Path) -> None:
    command = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
    command.communicate(b"\n")
    assert subprocess.run(drain.order(tmp_path, meeting)(command.pid), check=True).returncode == 0
    say(meeting, ROW % 1)
    assert not (tmp_path / "inside").exists()


def test_memory_that_was_removed_is_no_run_folder_that_takes_nothing(meeting: Path, tmp_path: Path) -> None:
    argv = [*drain.order(tmp_path, meeting / "removed")(0)]
    argv[-2] = "0"  # of the recorder
    assert subprocess.run(argv, check=True).returncode == 0
    assert list(events.read(tmp_path)) == []


def test_file_that_leads_out_of_the_run_folder_is_not_written(meeting: Path, tmp_path: Path) -> None:
    say(meeting, ROW % 1)
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").write_text("")
    (tmp_path / "inside" / "71-9.jsonl").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic links"):
        drain.drain(tmp_path, meeting)
    assert (tmp_path / "outside").read_text() == ""


def test_lines_that_are_no_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "1-1.jsonl").write_text(ROW % 1 + "words\n[1]\n")
    rows, wrong = drain.rows(tmp_path / "1-1.jsonl")
    assert (rows, wrong) == ([json.loads(ROW % 1)], 2)
