"""events.jsonl and marks."""

import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import events, run_folder
from gputel.telemetry.errors import DamagedFile, GputelError


def test_event_cut_short_is_left_out_and_counted(tmp_path: Path) -> None:
    events.append(tmp_path, 0, "mark", "first", gpu="0")
    with (tmp_path / events.NAME).open("ab") as file:
        file.write(b'{"time": "20\n')
    events.append(tmp_path, 1, "xid", "second")
    with pytest.warns(DamagedFile, match=r"are left out \(1 of 3 lines\)"):
        texts = [(event["kind"], event["text"]) for event in events.read(tmp_path)]
    assert texts == [("mark", "first"), ("xid", "second")]


def test_line_without_a_kind_is_no_event(tmp_path: Path) -> None:
    (tmp_path / events.NAME).write_text('{"kind": null, "text": "a"}\n{"text": "b"}\n{"kind": "c"}\n')
    with pytest.warns(UserWarning, match="2 of 3 lines"):
        assert list(events.read(tmp_path)) == [{"kind": "c"}]


def test_last_event_may_still_be_written(tmp_path: Path) -> None:
    events.append(tmp_path, 0, "mark", "first", gpu="0")
    with (tmp_path / events.NAME).open("ab") as file:
        file.write(b'{"time": "20')
    assert len(list(events.read(tmp_path))) == 1


def test_new_events_come_once_each_and_whole(tmp_path: Path) -> None:
    new = events.NewEvents(tmp_path)
    assert new.take() == []
    events.append(tmp_path, 0, "mark", "first")
    line = b'{"kind": "mark", "text": "second"}\n'
    with (tmp_path / events.NAME).open("ab", buffering=0) as file:
        file.write(line[:9])
        assert [event["text"] for event in new.take()] == ["first"]
        file.write(line[9:])
    assert [event["text"] for event in new.take()] == ["second"]
    assert new.take() == []


def test_event_after_one_that_a_full_disk_cut_short_is_read(tmp_path: Path) -> None:
    """The disk takes half of a line, and has room for the next one."""
    program = (
        "import resource, sys; from pathlib import Path; from gputel.telemetry import events\n"
        "folder = Path(sys.argv[1])\n"
        "events.append(folder, 0, 'mark', 'first')\n"
        "size = (folder / events.NAME).stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))\n"
        "try: events.append(folder, 0, 'mark', 'second')\n"
        "except OSError as error: print(error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "events.append(folder, 0, 'mark', 'third')\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert child.stdout == "No space left on device\n"
    with pytest.warns(DamagedFile, match="1 of 3 lines"):
        assert [event["text"] for event in events.read(tmp_path)] == ["first", "third"]


def test_run_without_events_has_none(tmp_path: Path) -> None:
    assert list(events.read(tmp_path)) == []


def test_mark_goes_into_the_segment_that_is_being_recorded(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", {"run": "a", "ended": {"wall_ns": 1}})
    segment = run_folder.add_segment(tmp_path / "a", {"run": "a", "ended": None})
    events.mark(tmp_path / "a", "new data from here; token=abc")
    (mark,) = events.read(segment.path)
    assert (mark["kind"], mark["text"]) == ("mark", "new data from here; token=***")


def test_run_that_has_ended_takes_no_marks(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", {"run": "a", "ended": {"wall_ns": 1}})
    with pytest.raises(GputelError, match="this run has ended"):
        events.mark(tmp_path / "a", "late")
