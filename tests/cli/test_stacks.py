"""`gputel stacks` asks a training that is being recorded, and says why where it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import run_folder
from tests.command import gputel
from tests.recordings import Recorder, children, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")

TRAINING = """
import sys, time, torch
def slow_read(api_key="x"):
    print("step 1", flush=True)
    sys.stdin = None
    time.sleep(1000)
slow_read()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "torch.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))
    (tmp_path / "train.py").write_text(TRAINING)
    return tmp_path / "train.py"


@pytest.fixture
def recorder(script: Path, tmp_path: Path) -> Iterator[Recorder]:
    words = (sys.executable, str(script), "--token", "hunter2hunter2")
    recorder = Recorder(tmp_path / "run", *words, options=("--no-host", "--inside", "stacks"))
    recorder.printed(b"step 1")
    yield recorder
    recorder.stop()


def test_stacks_of_a_recorded_training_name_its_line(recorder: Recorder) -> None:
    answer = gputel("stacks", recorder.folder, "--every", "100ms")
    assert answer.stdout.startswith("the process stands in train.py:6 slow_read\n")
    assert "train.py:6 slow_read\n" in answer.stdout
    described = json.loads(gputel("stacks", recorder.folder, "--rounds", "1", "--json").stdout)
    assert described["verdict"] is None
    (process,) = described["processes"]
    assert process["answered_by"] == "listener"
    assert process["command"].endswith("train.py --token ***")


def test_silent_training_becomes_an_incident_of_its_run(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silence is that of the alarm `stalled`, as the user's settings have it."""
    (tmp_path / "gputel").mkdir()
    (tmp_path / "gputel" / "config.toml").write_text("[alarms.stalled]\nstart_s = 0.5\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = (sys.executable, str(script))
    recorder = Recorder(tmp_path / "run", *words, options=("--no-host", "--inside", "stacks"))
    try:
        event = until(lambda: _incident(recorder), "an incident")
        assert event
    finally:
        recorder.stop()
    assert event["text"].startswith("the process stands in train.py:6 slow_read since ")
    report = json.loads(gputel("report", recorder.folder, "--json").stdout)
    assert [each["text"] for each in report["incidents"]] == ["the process stands in train.py:6 slow_read"]
    assert "stands in train.py:6 slow_read" in gputel("report", recorder.folder).stdout


NODE = """
import os, sys, time, torch.distributed
def slow_read():
    time.sleep(1000)
print("step 1", flush=True)
torch.distributed.all_reduce() if os.environ["RANK"] == "0" else slow_read()
"""
DISTRIBUTED = """
import os, time
def is_available(): return True
def is_initialized(): return True
def get_rank(): return int(os.environ["RANK"])
def get_world_size(): return 2
def all_reduce(): time.sleep(1000)
"""


def test_hang_of_two_nodes_names_the_one_that_holds_up_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gputel").mkdir()
    (tmp_path / "gputel" / "config.toml").write_text("[alarms.stalled]\nstart_s = 0.5\n")
    package = tmp_path / "lib" / "site-packages" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text(DISTRIBUTED)
    (tmp_path / "train.py").write_text(NODE)
    settings = {"XDG_CONFIG_HOME": tmp_path, "PYTHONPATH": package.parents[1], "WORLD_SIZE": 2, "NNODES": 2}
    nodes: list[Recorder] = []
    try:
        for rank in (0, 1):
            env = {name: str(value) for name, value in {**settings, "RANK": rank, "NODE_RANK": rank}.items()}
            words = (sys.executable, str(tmp_path / "train.py"))
            options = ("--no-host", "--inside", "stacks")
            nodes.append(Recorder(tmp_path / "run", *words, options=options, env=env))
        until(
            lambda: len([*tmp_path.glob("run/nodes/*/incidents/*/incident.json")]) == 2, "an incident a node"
        )
        (hang,) = json.loads(gputel("report", tmp_path / "run", "--json").stdout)["incidents"]
    finally:
        for recorder in nodes:
            recorder.stop()
    assert hang["text"] == "rank 1 on node 1 stands in train.py:4 slow_read; 1 rank waits in all_reduce"
    assert hang["nodes"] == ["0", "1"]


def _incident(recorder: Recorder) -> dict[str, Any] | None:
    return next((event for event in recorder.events() if event["kind"] == "incident"), None)


def test_recording_without_stacks_says_how_to_have_them(script: Path, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", sys.executable, str(script), options=("--no-host",))
    try:
        recorder.printed(b"step 1")
        answer = gputel("stacks", recorder.folder)
        assert (recorder.facts()["inside"]["level"], recorder.facts()["inside"]["reason"]) == ("off", "")
    finally:
        recorder.stop()
    assert answer.returncode == 1
    assert "was recorded without stacks; record with --inside stacks" in answer.stderr


def test_run_that_has_ended_has_no_stacks_and_leaves_no_folder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", "true", options=("--no-host", "--inside", "stacks"))
    assert recorder.wait() == 0
    answer = gputel("stacks", recorder.folder)
    assert "has ended; what was seen of a hang is in" in answer.stderr
    assert not Path(recorder.facts()["inside"]["folder"]).exists()


def test_report_says_why_a_recording_could_not_have_stacks(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", "true", options=("--no-host", "--inside", "stacks"))
    assert recorder.wait() == 0
    (segment,) = run_folder.open_folder(recorder.folder).segments
    run_folder.update(
        segment.path, inside={"level": "off", "folder": None, "reason": "no folder is in memory"}
    )
    assert "\nnot seen  no stacks: no folder is in memory\n" in gputel("report", recorder.folder).stdout


def test_failure_inside_is_one_event_and_is_named_by_stacks(script: Path, tmp_path: Path) -> None:
    script.write_text("import sys\nsys.modules['ctypes'] = None\n" + TRAINING)
    recorder = Recorder(
        tmp_path / "run", sys.executable, str(script), options=("--no-host", "--inside", "stacks")
    )
    try:
        recorder.printed(b"step 1")
        answer = gputel("stacks", recorder.folder, "--rounds", "1")
        until(lambda: _unseen(recorder), "an event")
    finally:
        recorder.stop()
    assert "no stacks of process " in answer.stderr
    assert "has imported torch" not in answer.stderr
    (event,) = _unseen(recorder)
    assert event["text"].startswith("no stacks of process ")
    assert json.loads(gputel("report", recorder.folder, "--json").stdout)["unseen"] == [event["text"]]
    assert "\nnot seen  no stacks of process " in gputel("report", recorder.folder).stdout


def test_killed_watcher_is_started_again_and_the_run_says_so(recorder: Recorder) -> None:
    first = until(lambda: _watcher(recorder), "a watcher")
    assert first
    until(lambda: "watched" in _meeting(recorder), "the watcher's beginning")
    os.kill(first, signal.SIGKILL)
    until(lambda: _unseen(recorder), "an event")
    assert _watcher(recorder) not in (None, first)
    (event,) = _unseen(recorder)
    assert event["text"].startswith("what watches for hangs was killed, and is started again")


def test_removed_folder_is_said_by_the_run_and_by_stacks(recorder: Recorder) -> None:
    until(lambda: "watched" in _meeting(recorder), "the watcher's beginning")
    folder = recorder.facts()["inside"]["folder"]
    shutil.rmtree(folder)
    until(lambda: _unseen(recorder), "an event")
    answer = gputel("stacks", recorder.folder)
    assert answer.returncode == 1
    assert f"its folder {folder} is not here; ask on the machine where" in answer.stderr
    recorder.stop()
    (event,) = _unseen(recorder)
    assert event["text"] == f"no stacks of any process: {folder} was removed"


def _unseen(recorder: Recorder) -> list[dict[str, Any]]:
    return [event for event in recorder.events() if event["kind"] == "unseen"]


def _watcher(recorder: Recorder) -> int | None:
    return next((pid for pid in children(recorder.process.pid) if b"incidents.watcher" in _argv(pid)), None)


def _argv(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _meeting(recorder: Recorder) -> list[str]:
    return os.listdir(recorder.facts()["inside"]["folder"])  # noqa: PTH208
