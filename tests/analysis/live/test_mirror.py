"""A run in object storage that is followed: it grows, falls silent, is sealed, and is away for a while."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.alarms import AlarmLog, folder_for, last_segment
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.mirror import SILENT_S, Mirror
from gputel.analysis.logs.open_files import has_writer
from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import courier
from gputel.telemetry.remote.storage import Storage

pytest.importorskip("obstore", reason="the extra s3 is not installed")


class Pod:
    """A machine that records a run and sends it when it is asked to."""

    def __init__(self, folder: Path, address: str) -> None:
        self.segment = run_folder.create(folder, {"run": "d16", "started": {"wall_ns": 5}})
        self._storage = Storage(address, create=True)
        self._lock = recorder_lock.hold(self.segment.path)
        self._steps = 0

    def train(self, steps: int) -> None:
        with self.segment.output.open("a") as output:
            for _ in range(steps):
                self._steps += 1
                output.write(f"step {self._steps} | loss {9 / self._steps:.3f}\n")
        self.send()

    def send(self) -> None:
        courier.send(self.segment.path, self._storage)

    def end(self) -> None:
        os.close(self._lock)
        run_folder.update_end(self.segment.path, {"ended": {"wall_ns": 9}, "exit_code": 0})
        self.send()


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    return f"file://{tmp_path}/bucket/d16"


@pytest.fixture
def pod(tmp_path: Path, address: str) -> Pod:
    pod = Pod(tmp_path / "pod", address)
    pod.train(3)
    return pod


def test_alarms_of_a_viewer_are_kept_beside_the_copy_and_those_of_the_recorder_are_known(
    pod: Pod, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bundles are poured into the copy's events by offset, over whatever a viewer had written there."""
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/state")
    nan, spike = (Alarm(rule, rule, "on", "loss", f"{rule} it is", 3, None) for rule in ("nan", "spike"))
    with closing(Mirror(address, print)) as mirror:

        def alarm_log() -> AlarmLog:
            return AlarmLog(folder_for(mirror.path), last_segment(mirror.path))

        assert [alarm_log().is_new(nan), alarm_log().is_new(nan)] == [True, False]
        assert AlarmLog(pod.segment.path).is_new(spike)
        pod.send()
        mirror.look()
        assert not alarm_log().is_new(spike)
        assert (mirror.path / "events.jsonl").read_bytes() == (pod.segment.path / "events.jsonl").read_bytes()


class Now:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def mirror(pod: Pod, address: str, notes: list[str], now: Now) -> Iterator[Mirror]:
    with closing(Mirror(address, notes.append, now=now, every_s=3600)) as mirror:
        yield mirror


def is_held(mirror: Mirror) -> bool:
    output = mirror.path / "output.log"
    return has_writer(output, output.stat().st_mtime)


def steps(follower: Follower) -> list[int]:
    increments = [update.increment for update in follower.read() if update.increment]
    return [step for increment in increments for step in increment.records["step"]]


def test_growth_is_followed_until_the_run_is_sealed(pod: Pod, mirror: Mirror, notes: list[str]) -> None:
    with closing(Follower([str(mirror.path)])) as follower:
        assert steps(follower)[:2] == [1, 2]
        assert is_held(mirror)
        pod.train(2)
        mirror.look()
        assert 4 in steps(follower)
        pod.end()
        mirror.look()
        assert not is_held(mirror)
        follower.runs[0].look()
        steps(follower)
        assert follower.is_over
    assert notes == []


def test_silent_run_is_noted_once_and_its_output_is_let_go(
    pod: Pod, mirror: Mirror, notes: list[str], now: Now
) -> None:
    now.seconds = SILENT_S - 1
    mirror.look()
    assert is_held(mirror)
    now.seconds = SILENT_S
    mirror.look()
    now.seconds = 2 * SILENT_S
    mirror.look()
    assert not is_held(mirror)
    (note,) = notes
    assert "d16: the run was last heard of at 2" in note
    pod.train(1)
    mirror.look()
    assert is_held(mirror)
    assert len(notes) == 1


def test_storage_that_cannot_be_read_for_a_while_is_noted_once(
    tmp_path: Path, pod: Pod, mirror: Mirror, notes: list[str]
) -> None:
    (tmp_path / "bucket").rename(tmp_path / "away")
    mirror.look()
    mirror.look()
    (note,) = notes
    assert note.endswith("; trying again")
    (tmp_path / "away").rename(tmp_path / "bucket")
    pod.train(1)
    mirror.look()
    assert (mirror.path / "output.log").read_bytes() == pod.segment.output.read_bytes()
    assert len(notes) == 1


def test_address_that_holds_nothing_is_refused(tmp_path: Path, address: str) -> None:
    (tmp_path / "bucket").mkdir()
    with pytest.raises(GputelError, match="nothing is here"):
        Mirror(address, print)
