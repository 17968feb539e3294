"""A run that is followed, judged as it grows."""

import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live import alarms
from gputel.analysis.live.alarms import AlarmLog, RunAlarms, folder_for
from gputel.analysis.live.follower import Follower
from gputel.analysis.logs import open_files
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.store import parquet
from gputel.telemetry.store.tiers import Tier, TierColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Compose

ALARM = Alarm("nan", "NaN or infinite loss", "on", "loss", "loss is NaN", 61, 1e9)


class Scene:
    """One log, one judge, a clock in hand."""

    def __init__(self, path: Path) -> None:
        self.now = 1e9
        self.path = path
        path.touch()
        self.follower = Follower([str(path)], now=lambda: self.now)
        self.judge: RunAlarms | None = None

    def write(self, *losses: float, start: int) -> None:
        with self.path.open("a") as log:
            for step, loss in enumerate(losses, start):
                log.write(f"step {step} | loss: {loss} | dt: 100.00ms | tok/sec: 1000\n")

    def say(self, text: str) -> None:
        with self.path.open("a") as log:
            log.write(text)

    @property
    def status(self) -> str:
        return self.follower.runs[0].state.view().status

    def look(self) -> list[tuple[str, str]]:
        """A second later."""
        found: list[Alarm] = []
        self.now += 1
        while news := self.follower.read():
            for one in news:
                found += self._judge(self.follower.runs[0]).take(one)
        for followed in self.follower.runs:
            found += self._judge(followed).look(followed.state.view())
        return [(alarm.rule, alarm.state) for alarm in found]

    def _judge(self, followed: object) -> RunAlarms:
        if self.judge is None:
            self.judge = RunAlarms(followed, rules.load(), lambda: self.now)  # type: ignore[arg-type]
        return self.judge


@pytest.fixture
def scene(tmp_path: Path) -> "Iterator[Scene]":
    opened = Scene(tmp_path / "train.log")
    yield opened
    opened.follower.close()


def test_alarm_and_its_end_are_raised_while_a_run_is_followed(scene: Scene) -> None:
    scene.write(3.0, 2.9, start=0)
    assert scene.look() == []
    scene.write(math.nan, math.nan, start=2)
    assert scene.look() == [("nan", "on")]
    scene.write(*[2.8] * 11, start=4)
    assert scene.look() == [("nan", "off")]


def test_last_line_is_judged_once_after_a_pause(scene: Scene) -> None:
    scene.write(3.0, 2.9, math.nan, start=0)
    assert scene.look() == []
    scene.now += alarms.QUIET_S
    assert scene.look() == [("nan", "on")]
    scene.write(math.nan, *[2.8] * 11, start=3)
    assert scene.look() == [("nan", "off")]
    assert scene.judge is not None
    assert [alarm.step for alarm in scene.judge.history] == [2, 4]


def test_line_that_has_long_been_the_last_is_judged_at_once(scene: Scene) -> None:
    scene.write(3.0, 2.9, math.nan, start=0)
    os.utime(scene.path, (1e9 - 60, 1e9 - 60))
    assert scene.look() == [("nan", "on")]


def test_value_that_a_later_line_adds_to_a_judged_record_is_judged_too(scene: Scene) -> None:
    scene.say("[batch=3/100]:\n         Train lr/main: 0.25\n")
    scene.look()
    scene.now += alarms.QUIET_S
    assert scene.look() == []
    scene.say("         Train loss/train/total: nan\n[batch=4/100]:\n         Train lr/main: 0.25\n")
    assert scene.look() == [("nan", "on")]


def test_end_of_a_log_is_judged_though_no_line_follows(scene: Scene) -> None:
    scene.write(3.0, 2.9, start=0)
    scene.look()
    scene.say("Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n")
    result = scene.look()
    scene.now += alarms.QUIET_S
    result += scene.look()
    assert ("oom", "on") in result
    scene.say("bye\nbye\n")
    assert scene.look() == []


def test_bar_is_judged_once_it_is_not_drawn_any_more(scene: Scene) -> None:
    bar = "\r{0}/9 [====>.....] - ETA: 9s - loss: {1}"
    scene.say("Epoch 1/2\n" + "".join(bar.format(at, 3 - at / 10) for at in range(1, 5)))
    scene.look()
    scene.say(bar.format(5, "nan") + bar.format(6, "nan"))
    scene.look()
    scene.now += alarms.QUIET_S
    assert scene.look() == []
    scene.now += alarms.BAR_S
    assert scene.look() == [("nan", "on")]


def test_alarm_from_before_the_start_is_news_only_if_it_still_holds(scene: Scene) -> None:
    scene.write(*[3.0] * 60, 9.0, *[3.0] * 20, math.nan, math.nan, start=0)
    assert scene.look() == [("nan", "on")]
    assert scene.judge is not None
    assert [alarm.rule for alarm in scene.judge.history] == ["spike", "spike", "nan"]
    assert [alarm.rule for alarm in scene.judge.active] == ["nan"]


def test_log_is_silent_by_the_clock_and_not_by_its_own_stamps(scene: Scene) -> None:
    for step in range(8):
        scene.write(3.0, start=step)
        assert scene.look() == []
    scene.now += 55
    assert scene.look() == []
    scene.now += 10
    assert scene.look() == [("stalled", "on")]


@pytest.mark.skipif(sys.platform != "linux", reason="who writes a file is told by /proc alone")
def test_log_is_stalled_while_a_process_holds_it_open_and_else_it_has_ended(scene: Scene) -> None:
    """It was silent for two minutes when we came: much longer than its ten records took."""
    scene.write(*[3.0] * 10, start=0)
    scene.now = time.time()
    with scene.path.open("a"):
        open_files._snapshot.cache_clear()  # of who writes what, which is some seconds old at most
        os.utime(scene.path, (scene.now - 120, scene.now - 120))
        assert scene.look() == [("stalled", "on")]
        assert scene.status == "running"
    assert scene.look() == [("stalled", "off")]
    assert scene.status == "ended"


def test_log_without_a_writer_has_ended_and_is_not_stalled(scene: Scene) -> None:
    scene.write(*[3.0] * 10, start=0)
    scene.now = time.time()
    os.utime(scene.path, (scene.now - 3600, scene.now - 3600))
    assert scene.look() == []
    assert scene.status == ("ended" if sys.platform == "linux" else "unknown")


def test_log_that_grew_without_a_visible_writer_may_stall(scene: Scene) -> None:
    scene.now = time.time()
    os.utime(scene.path, (scene.now - 3600, scene.now - 3600))
    for step in range(8):
        scene.write(3.0, start=step)
        assert scene.look() == []
    assert scene.status == "running"
    scene.now += 70
    assert scene.look() == [("stalled", "on")]


def of_a_recording(folder: Path, seconds: float) -> tuple[str, float, bool]:
    """Its status so long after the start, how long it took, and whether it is called stalled."""
    began = time.time() - seconds
    run_folder.create(folder, {"run": "d16", "started": {"wall_ns": int(began * 1e9)}, "gpus": []})
    follower = Follower([str(folder)])
    follower.read()
    (followed,) = follower.runs
    view = followed.state.view()
    result = RunAlarms(followed, rules.load(), time.time).look(view)
    follower.close()
    assert view.elapsed_s is not None
    return view.status, round(view.elapsed_s, -2), "stalled" in [alarm.rule for alarm in result]


def test_recording_without_a_command_misses_no_step(tmp_path: Path) -> None:
    assert of_a_recording(tmp_path / "d16", 3600) == ("running", 3600, False)


@pytest.mark.skipif(sys.platform != "linux", reason="who writes a file is told by /proc alone")
def test_recording_whose_recorder_was_killed_is_over(tmp_path: Path) -> None:
    folder = tmp_path / "d16"
    folder.mkdir()
    (folder / "output.log").write_text("step 1 | loss: 3.0\nstep 2 | loss: 3.0\n")
    os.utime(folder / "output.log", (time.time() - 1800, time.time() - 1800))
    assert of_a_recording(folder, 3600) == ("ended", 1800, False)


def test_alarm_is_news_once_among_all_followers(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "d16", {"run": "d16"})
    folder = folder_for(tmp_path / "d16")
    assert folder is not None
    assert AlarmLog(folder).is_new(ALARM)
    assert not AlarmLog(folder).is_new(ALARM)
    (event,) = events.read(folder)
    assert {name: event[name] for name in ("kind", "text", "rule", "state", "step")} == {
        "kind": "alarm",
        "text": "loss is NaN",
        "rule": "nan",
        "state": "on",
        "step": 61,
    }


def test_alarm_that_cannot_be_kept_is_news_once_and_a_warning(tmp_path: Path) -> None:
    """The disk may be full, or the run another user's."""
    folder = tmp_path / "file" / "d16"
    folder.parent.write_text("no folder")
    log = AlarmLog(folder)
    with pytest.warns(DamagedFile, match=r"events.jsonl: alarms are sent, and not kept \(Not a directory\)"):
        assert log.is_new(ALARM)
    assert not log.is_new(ALARM)


def test_nothing_is_written_beside_a_log_and_one_that_was_replaced_is_another(tmp_path: Path) -> None:
    log, state = tmp_path / "logs" / "a.log", tmp_path / "state"
    log.parent.mkdir()
    log.write_text("x")
    first = folder_for(log, state)
    assert AlarmLog(first).is_new(ALARM)
    assert not AlarmLog(folder_for(log, state)).is_new(ALARM)
    log.rename(tmp_path / "logs" / "a.log.1")
    log.write_text("y")
    assert folder_for(log, state) != first
    assert sorted(path.name for path in log.parent.iterdir()) == ["a.log", "a.log.1"]


def test_alarms_of_a_pipe_are_kept_in_memory() -> None:
    result = AlarmLog(None)
    assert [result.is_new(ALARM), result.is_new(ALARM)] == [True, False]


@pytest.mark.parametrize("viewed", [True, False])
@pytest.mark.parametrize("ended", [True, False])
def test_gpus_are_judged_while_a_run_goes_on_and_not_after_its_end(
    tmp_path: Path, compose: "Compose", monkeypatch: pytest.MonkeyPatch, ended: bool, viewed: bool
) -> None:
    monkeypatch.setattr(run_folder, "now_ns", lambda _: 10**18 + 700 * SECOND)
    folder = tmp_path / "d16"
    gpu = {"gpu": "0", "memory_total_mib": 1000}
    run_folder.create(folder, {"run": "d16", "started": {"wall_ns": 10**18}, "gpus": [gpu]})
    if ended:
        run_folder.update(folder, ended={"wall_ns": 10**18 + 700 * SECOND})
    memory = Tier("slow", 1.0, (TierColumn("mem_used_mib", "MiB", 1, "0"),))
    compose(folder / "gpu", [memory], [(0, at * SECOND, (999,)) for at in range(700)])
    if viewed:  # without a view only the journals are read
        parquet.compact(folder / "gpu", everything=ended)
    follower = Follower([str(folder)], viewed=viewed)
    news = follower.read()
    (followed,) = follower.runs
    judge = RunAlarms(followed, rules.load(), lambda: 1e9 + 700)
    for one in news:
        judge.take(one)
    result = [alarm.rule for alarm in judge.look(followed.state.view())]
    assert ("memory" in result) is not ended
    follower.close()
