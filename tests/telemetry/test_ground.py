"""The lowest room: errors, clocks, events, the board, settings, marks."""

import os
import pickle
import time
from pathlib import Path

import pytest

from gputel.telemetry import events, run_folder, settings
from gputel.telemetry.clock import SystemClock, iso
from gputel.telemetry.errors import GputelError
from gputel.telemetry.sampling.status import Board


def test_an_error_is_one_line_of_place_fault_and_mend() -> None:
    error = GputelError(
        "runs/a/output.log:812", "loss is 'nan?', expected a number", "see 'gputel formats nanogpt'"
    )
    assert (
        str(error) == "runs/a/output.log:812: loss is 'nan?', expected a number; see 'gputel formats nanogpt'"
    )


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(GputelError("a", "b", "c", exit_code=3)))
    assert (str(error), error.exit_code) == ("a: b; c", 3)


def test_a_stamp_is_written_with_all_nine_digits() -> None:
    assert iso(1_763_689_000_123_456_789) == "2025-11-21T01:36:40.123456789Z"


def test_the_three_clocks_are_read_together() -> None:
    before = time.time_ns(), time.monotonic_ns()
    stamp = SystemClock().stamp()
    assert before[0] <= stamp.wall <= time.time_ns()
    assert before[1] <= stamp.monotonic <= time.monotonic_ns()


def test_a_deadline_that_has_passed_is_not_slept_for() -> None:
    clock = SystemClock()
    clock.sleep_until(clock.monotonic() - 10**12)


def test_an_event_cut_short_is_passed_over(tmp_path: Path) -> None:
    events.append(tmp_path, 0, "mark", "first", gpu="0")
    with (tmp_path / events.NAME).open("ab") as file:
        file.write(b'{"time": "20\n')
    events.append(tmp_path, 1, "xid", "second")
    assert [(event["kind"], event["text"]) for event in events.read(tmp_path)] == [
        ("mark", "first"),
        ("xid", "second"),
    ]


def test_a_run_without_events_has_none(tmp_path: Path) -> None:
    assert list(events.read(tmp_path)) == []


def test_the_board_shows_a_child_to_its_parent() -> None:
    board = Board()
    assert (board.heartbeat, board.read()) == (0, None)
    child = os.fork()
    if child == 0:
        board.beat(42)
        board.publish({"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]})
        os._exit(0)
    os.waitpid(child, 0)
    assert board.heartbeat == 42
    assert board.read() == {"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]}


def test_half_a_message_on_the_board_is_no_message() -> None:
    board = Board()
    board.publish({"a": 1})
    board._memory[20] ^= 1
    assert board.read() is None


def test_the_nearest_settings_upwards_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    nested = tmp_path / "a" / "b"
    nested.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert settings.from_folder(nested).tables == {"record": {"hz": 50}}
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.gputel.record]\nhz = 200\n")
    place = str(tmp_path / "a" / "pyproject.toml")
    assert settings.from_folder(nested) == (place, {"record": {"hz": 200}}, ())


def test_settings_that_are_not_toml_are_named(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("hz: 100")
    with pytest.raises(GputelError, match=r"gputel\.toml: is not TOML"):
        settings.from_folder(tmp_path)


def test_settings_in_a_folder_that_any_user_may_write_to_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    tmp_path.chmod(0o1777)
    found = settings.from_folder(tmp_path)
    assert found.tables == {}
    assert found.unread[0] == (
        f"{tmp_path}/gputel.toml: it or its folder can be written by any user; its settings are ignored"
    )


def test_settings_of_another_user_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    if os.geteuid() == 0:
        os.chown(tmp_path / "gputel.toml", 4321, 4321)
        os.chown(tmp_path / "pyproject.toml", 4321, 4321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    found = settings.from_folder(tmp_path)
    assert found.tables == {}
    assert found.unread == (f"{tmp_path}/gputel.toml: belongs to another user; its settings are ignored",)


def test_the_users_own_settings_are_found_where_xdg_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.from_user() == (str(tmp_path / "gputel" / "config.toml"), {}, ())
    (tmp_path / "gputel").mkdir()
    (tmp_path / "gputel" / "config.toml").write_text("[tail]\non-alarm = 'true'\n")
    assert settings.from_user().tables == {"tail": {"on-alarm": "true"}}
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings.user_file() == Path.home() / ".config" / "gputel" / "config.toml"


def test_a_mark_goes_into_the_segment_that_is_being_recorded(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", {"run": "a", "ended": {"wall_ns": 1}})
    segment = run_folder.add_segment(tmp_path / "a", {"run": "a", "ended": None})
    events.mark(tmp_path / "a", "new data from here; token=abc")
    (mark,) = events.read(segment.path)
    assert (mark["kind"], mark["text"]) == ("mark", "new data from here; token=***")


def test_a_run_that_has_ended_takes_no_marks(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", {"run": "a", "ended": {"wall_ns": 1}})
    with pytest.raises(GputelError, match="this run has ended"):
        events.mark(tmp_path / "a", "late")
