"""`tail` shows and judges what a training gives by `gputel.log` beside what it prints, each step once."""

from __future__ import annotations

import math
from pathlib import Path

from gputel.analysis.alarms import rules
from gputel.analysis.live.alarms import RunAlarms
from gputel.analysis.live.follower import Follower
from gputel.telemetry import run_folder
from gputel.telemetry.inside import environment
from tests.analysis.runs.test_api_rows import given, ns, said
from tests.command import gputel
from tests.recordings.printed import clock, fill, step


def begin(tmp_path: Path, printed: list[int], **inside: str) -> run_folder.Segment:
    facts = {"run": "run", "started": clock(0), "ended": None, "argv": ["train"], "inside": inside}
    segment = run_folder.create(tmp_path / "run", facts)
    fill(segment, [(0.5, "hello"), *((float(number), step(number, 4.0)) for number in printed)])
    return segment


def give(folder: Path, *rows: str) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "1-1.jsonl").open("a") as file:
        file.write("".join(f"{row}\n" for row in rows))


def test_given_values_come_first_and_steps_count_once(tmp_path: Path) -> None:
    """The last step counts once another follows."""
    segment = begin(tmp_path, [2, 4])
    give(segment.path / "inside", *(given(number, number, loss=1.0, lr=number) for number in range(1, 6)))
    follower = Follower([str(segment.path)])
    follower.read()
    view = follower.runs[0].state.view()
    assert (view.step, view.records, view.last["loss"], view.last["lr"]) == (5, 4, 1.0, 5)
    assert (view.last["lrm"], view.total_steps) == (1.0, 9999)
    assert view.curves["loss"].step.tolist() == [1, 2, 3, 4]
    follower.close()


def test_training_that_prints_nothing_is_followed(tmp_path: Path) -> None:
    segment = begin(tmp_path, [])
    follower = Follower([str(segment.path)], now=iter(range(0, 10**6, 100)).__next__)
    follower.read()
    give(segment.path / "inside", given(1, 1, loss=3.0), given(2, 2, loss=2.0))
    follower.read()
    view = follower.runs[0].state.view()
    assert (view.step, view.last["loss"], view.seconds_a_step) == (2, 2.0, None)
    follower.close()


def test_rows_that_still_are_in_memory_are_seen(tmp_path: Path) -> None:
    inside = environment.enter("off")
    memory = inside.folder
    assert memory
    segment = begin(tmp_path, [], folder=str(memory))
    give(memory, given(1, 1, loss=3.0), given(2, 2, loss=2.0))
    follower = Follower([str(segment.path)])
    follower.read()
    assert follower.runs[0].state.view().step == 2
    follower.close()
    environment.leave(inside)


def test_wrong_value_of_a_step_that_was_not_printed_raises_the_alarm(tmp_path: Path) -> None:
    segment = begin(tmp_path, [2, 6])
    values = [given(number, number, loss="nan" if number == 4 else 4.0) for number in range(1, 6)]
    give(segment.path / "inside", *values)
    follower = Follower([str(segment.path)])
    updates = follower.read()
    alarms = RunAlarms(follower.runs[0], [rule for rule in rules.load() if rule.name == "nan"])
    for update in updates:
        alarms.take(update)
    assert [(alarm.rule, alarm.step) for alarm in alarms.active] == [("nan", 4)]
    follower.close()


def test_printed_lines_are_not_repeated_and_those_of_a_silent_training_are_shown(tmp_path: Path) -> None:
    loud, silent = begin(tmp_path / "loud", [1, 2]), begin(tmp_path / "silent", [])
    for segment in (loud, silent):
        give(segment.path / "inside", *(given(number, number, loss=1.5) for number in (1, 2, 3)))
        run_folder.update(segment.path, ended=clock(60), exit_code=0)
    printed = gputel("tail", loud.path, "--plain").stdout
    assert (printed.count("step 1"), "1.5" in printed) == (1, False)
    assert "step 2  loss 1.5" in gputel("tail", silent.path, "--plain").stdout


def test_settings_are_known_while_the_run_lives(tmp_path: Path) -> None:
    segment = begin(tmp_path, [1])
    row = said("config", 0.1, settings={"depth": 4})
    give(segment.path / "inside", row, given(1, 1, loss=math.pi))
    follower = Follower([str(segment.path)])
    follower.read()
    assert follower.runs[0].state.view().config["depth"] == 4
    assert ns(0) == clock(0)["wall_ns"]
    follower.close()
