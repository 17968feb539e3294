"""Positions: where a tail stopped, and what the next one shows."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis.live import lines, resume
from gputel.analysis.live.files import FilePosition
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.replays import Replays
from gputel.analysis.live.resume import Position, Positions
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND

STEP = "step {:05d}/00900 (0.1%) | loss: {} | lrm: 1.00 | dt: 500.00ms | tok/sec: 796,060\n"
UNKNOWN = "[it {}] cross_entropy -> {:.2f} @ lr 0.1 (1234 tok/s)\n"
COMMAND = "import sys, time; print(open(sys.argv[1]).read(), end='', flush=True); time.sleep(99)"


def steps(first: int, last: int, form: str = STEP) -> str:
    return "".join(form.format(step, 5 - step / 100) for step in range(first, last))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def tail(log: Path, folder: Path, *, killed: bool = False, until: int = 0) -> list[str]:
    """Everything that one tail prints; killed, it saves nothing when it ends."""
    positions = Positions(folder)
    follower = Follower([str(log)], positions=positions)
    printer = lines.Printer(lines.rows_json)
    found = list(shown(follower, printer, until))
    assert positions.trouble is None
    if killed:
        positions.close()
        follower.wakeups.close()
    else:
        follower.close()
    return found


def shown(follower: Follower, printer: lines.Printer, until: int = 0) -> Iterator[str]:
    while news := follower.read():
        for one in news:
            yield from printer.lines(one)
        follower.shown()
        if until and len(news) >= until:
            return


def rows(lines: list[str]) -> list[tuple[int, int | None]]:
    return [(row["line"], row["step"]) for row in map(json.loads, lines)]


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_next_tail_prints_what_came_since_with_its_line_numbers(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    assert rows(tail(log, folder)) == [(step + 1, step) for step in range(5)]
    assert tail(log, folder) == []
    add(log, steps(5, 7))
    assert rows(tail(log, folder)) == [(6, 5), (7, 6)]


def test_half_a_line_is_printed_once_it_is_whole(log: Path, folder: Path) -> None:
    text = steps(0, 3)
    add(log, text[:-20])
    assert rows(tail(log, folder)) == [(1, 0), (2, 1)]
    add(log, text[-20:])
    assert rows(tail(log, folder)) == [(3, 2)]


def test_value_that_a_later_line_adds_to_a_printed_record_is_a_revised_row(log: Path, folder: Path) -> None:
    add(log, "[batch=3/100]:\n         Train loss/train/total: 10.5\n")
    assert len(tail(log, folder)) == 1
    add(log, "         Train lr/main: 0.25\n")
    (row,) = map(json.loads, tail(log, folder))
    assert (row["line"], row["loss"], row["lr_main"], row["revised"]) == (1, 10.5, 0.25, True)


def test_attempts_are_counted_from_the_beginning_of_the_log(log: Path, folder: Path) -> None:
    add(log, steps(0, 50) + steps(20, 40))
    tail(log, folder)
    add(log, steps(40, 41))
    (row,) = map(json.loads, tail(log, folder))
    assert (row["attempt"], row["step"]) == (2, 40)


def test_after_a_kill_unsaved_rows_are_printed_again_and_none_is_lost(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    add(log, steps(5, 7))
    positions = Positions(folder, now=lambda: 0.0)
    positions._due = 1.0
    follower = Follower([str(log)], positions=positions)
    assert rows(list(shown(follower, lines.Printer(lines.rows_json)))) == [(6, 5), (7, 6)]
    positions.close()
    follower.wakeups.close()
    assert rows(tail(log, folder)) == [(6, 5), (7, 6)]


def test_rows_that_were_read_and_not_printed_are_printed_by_the_next_tail(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    follower = Follower([str(log)], positions=Positions(folder))
    assert follower.read()
    follower.close()
    assert len(tail(log, folder)) == 5


def test_tail_that_stops_while_it_reads_the_log_again_keeps_its_position(
    log: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gputel.analysis.live import runs

    add(log, steps(0, 50))
    tail(log, folder)
    add(log, steps(50, 51))
    monkeypatch.setattr(runs, "PIECE", 1000)
    assert tail(log, folder, until=1) == []
    assert rows(tail(log, folder)) == [(51, 50)]


def test_rotated_log_is_found_under_its_new_name_and_line_numbers_go_on(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    add(log, steps(5, 6))
    log.rename(log.with_name("train.log.1"))
    add(log, steps(6, 8))
    assert rows(tail(log, folder)) == [(6, 5), (7, 6), (8, 7)]
    add(log, steps(8, 9))
    assert rows(tail(log, folder)) == [(9, 8)]


def test_log_that_begins_otherwise_is_another_and_printed_whole(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    log.write_text(steps(100, 110))
    assert [step for _, step in rows(tail(log, folder))] == list(range(100, 110))


@pytest.mark.parametrize("killed", [False, True])
def test_log_of_unknown_format_is_printed_once(log: Path, folder: Path, *, killed: bool) -> None:
    add(log, steps(0, 40, UNKNOWN))
    first = rows(tail(log, folder, killed=killed))
    add(log, steps(40, 60, UNKNOWN))
    assert [*first, *rows(tail(log, folder))] == [(step + 1, step) for step in range(60)]


def test_compressed_log_that_was_read_to_its_end_prints_nothing_more(log: Path, folder: Path) -> None:
    bar = "\r 10%|# | 1/10 [00:01<00:09,  1.0it/s, loss=2.1]"
    packed = log.with_name("train.log.gz")
    with gzip.open(packed, "wt") as file:
        file.write(steps(0, 5) + bar)
    assert (6, 1) in rows(tail(packed, folder))
    assert tail(packed, folder) == []


def test_events_of_a_recorder_are_printed_once(tmp_path: Path, folder: Path) -> None:
    run_folder.create(tmp_path / "d16", {"run": "d16", "started": {"wall_ns": SECOND}, "gpus": []})
    events.append(tmp_path / "d16", SECOND, "xid", "Xid 79 on GPU 0")
    assert len(tail(tmp_path / "d16", folder)) == 1
    events.append(tmp_path / "d16", 2 * SECOND, "xid", "Xid 31 on GPU 0")
    (row,) = map(json.loads, tail(tmp_path / "d16", folder))
    assert row["text"] == "Xid 31 on GPU 0"


def test_command_that_prints_its_log_again_gives_what_is_new(log: Path, folder: Path) -> None:
    def following(steps_there: int, wanted: int) -> list[tuple[int, int | None]]:
        log.write_text(steps(0, steps_there))
        command = ("rank0", [sys.executable, "-c", COMMAND, str(log)])
        follower = Follower([], [command], positions=Positions(folder))
        printer, found = lines.Printer(lines.rows_json), list[str]()
        while len(found) < wanted:
            found += shown(follower, printer)
            follower.wait(5)
        follower.close()
        return rows(found)

    assert following(5, 5) == [(step + 1, step) for step in range(5)]
    # the same command, whose log has grown
    assert following(7, 2) == [(6, 5), (7, 6)]


def test_position_is_what_was_saved(folder: Path) -> None:
    replays = Replays()
    replays.feed(b"one\ntwo\nthr")
    file = Position(FilePosition(1, 2, 300, 7, "abc"), None, 4, 9, 120, finished=True)
    first = Positions(folder)
    first.save({"train.log": {"": file}, "kubectl": {"rank0": Position(replays=replays, next_line=3)}})
    first.close()
    again = Positions(folder)
    assert again.position("train.log", "") == file
    command = again.position("kubectl", "rank0")
    assert command
    assert command.replays
    assert command.replays.as_json() == replays.as_json()
    assert again.position("other.log", "") is None
    again.close()


DAMAGED = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no object": lambda text: "[1, 2]",
    "nested": lambda text: "[" * 100_000,
    "another version": lambda text: text.replace('"version": 1', '"version": 2'),
    "a negative offset": lambda text: text.replace('"position": ', '"position": -'),
    "a number in words": lambda text: text.replace('"position": ', '"position": "x", "was": '),
    "no place": lambda text: text.replace('"place"', '"plaice"'),
    "runs that are a list": lambda text: '{"version": 1, "runs": []}',
    "a stream that is a number": lambda text: '{"version": 1, "runs": {"a": {"": 1}}}',
    "a pickle": lambda text: "cposix\nsystem\n(S'touch harm'\ntR.",
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damaged_positions_are_ignored_with_one_line(log: Path, folder: Path, damage: object) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    path = folder / resume.NAME
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    positions = Positions(folder)
    assert positions.trouble == f"{path}: not a readable positions file; all rows are shown"
    positions.close()


def test_fresh_tail_ignores_the_positions(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    positions = Positions(folder, fresh=True)
    assert positions.sources == []
    positions.close()


def test_second_tail_of_the_same_words_has_no_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = resume.open_positions(["plain", "train.log"])
    with pytest.raises(BlockingIOError):
        resume.open_positions(["plain", "train.log"])
    other = resume.open_positions(["json", "train.log"])
    for positions in (first, other):
        positions.close()


def test_full_disk_ends_the_saving_and_not_the_following(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    positions = Positions(folder)
    follower = Follower([str(log)], positions=positions)
    (folder / resume.NAME).mkdir()  # no file can be renamed to it
    assert len(list(shown(follower, lines.Printer(lines.rows_json)))) == 5
    assert follower.notes == [f"{positions.path}: Is a directory; the next tail will repeat rows of this one"]
    follower.close()


def test_log_that_is_gone_for_a_while_keeps_its_position(log: Path, folder: Path) -> None:
    add(log, steps(0, 5))
    tail(log, folder)
    aside = log.parent / "elsewhere"
    shutil.move(log, aside)
    assert tail(log, folder) == []
    shutil.move(aside, log)
    assert tail(log, folder) == []
