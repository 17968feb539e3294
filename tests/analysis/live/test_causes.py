"""What an alarm says of the machine around a run that has just become slow or silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import ClockTick, Record
from gputel.analysis.alarms.watch import Alarm, RuleEngine
from gputel.analysis.live.alarms import UNSEEN, cause_now
from gputel.telemetry import run_folder
from tests.telemetry.host.machine import MachineRecording, write_process


def recorded(tmp_path: Path, state: str) -> Path:
    """A minute of a process that computes and reads; in the last twenty seconds it is in this state."""
    run = tmp_path / "run"
    run_folder.create(run, {"run": "made"})
    recording = MachineRecording(tmp_path, command=10)
    for second in range(60):
        slow = second >= 40
        write_process(
            recording.root, 10, 1, cpu=second * 40 - slow * (second - 40) * 30, state=state if slow else "S"
        )
        io = recording.root / "proc" / "10" / "io"
        io.write_text(io.read_text().replace("read_bytes: 8192", f"read_bytes: {second << 20}"))
        recording.run(10)
    recording.recorder.close()
    return run


@pytest.mark.parametrize(
    ("state", "words"), [("D", "input: slow storage: its processes waited for"), ("S", UNSEEN)]
)
def test_cause_of_the_last_seconds_is_named_or_said_to_be_unseen(
    tmp_path: Path, state: str, words: str
) -> None:
    answer = cause_now(recorded(tmp_path, state), 15.0)
    assert answer is not None
    assert answer.startswith(words)


def test_run_without_its_machine_has_no_cause(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "made"})
    assert cause_now(tmp_path / "run", 15.0) is None
    assert cause_now(tmp_path / "train.log", 15.0) is None


def test_alarm_that_begins_is_explained_once() -> None:
    explained: list[Alarm] = []

    def explain(alarm: Alarm) -> Alarm:
        explained.append(alarm)
        return alarm

    engine = RuleEngine([rule for rule in rules.load() if rule.name == "stalled"], explain)
    for step in range(10):
        assert not list(engine.see(Record(step, {"loss": 2.0}, float(step + 1))))
    states = [
        alarm.state
        for second in (500.0, 501.0, 900.0)
        for alarm in engine.see(ClockTick(second, is_awaited=True))
    ]
    assert states == ["on"]
    assert [alarm.rule for alarm in explained] == ["stalled"]
