"""A job that runs already: the GPUs are sampled, its log is copied and its new lines are stamped."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry.process import output_index
from tests.recordings import Recorder, until

Record = Callable[..., Recorder]


def stamped(recorder: Recorder) -> list[tuple[int | None, bytes]]:
    return list(output_index.lines(recorder.folder / "output.log", recorder.folder / "output.idx"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_bytes(b"old 1\nold 2\n")
    return path


def follow(record: Record, log: Path, *more: str) -> Recorder:
    recorder = record(options=("--simulate", "1xH100", "--follow", str(log), *more))
    until(lambda: recorder.output() == log.read_bytes(), "a copy of what was there")
    return recorder


def test_new_lines_are_stamped_and_old_ones_are_not(record: Record, log: Path) -> None:
    recorder = follow(record, log)
    before = time.time_ns()
    with log.open("ab") as more:
        more.write(b"new 1\n")
    recorder.printed(b"new 1\n")
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 0
    (first, _), (second, _), (third, text) = stamped(recorder)
    assert (first, second, text) == (None, None, b"new 1\n")
    assert third is not None
    assert before < third < time.time_ns()
    assert recorder.facts()["exit_code"] is None
    assert recorder.facts()["ended"]


def test_new_lines_behind_a_big_old_log_are_stamped_at_once(record: Record, log: Path) -> None:
    """Before the old text has been copied: the new lines' stamps are older than the copy."""
    log.write_bytes((b"x" * 999 + b"\n") * 60_000)
    recorder = record(options=("--simulate", "1xH100", "--follow", str(log)))
    until(lambda: len(recorder.output()) > 0, "the begin of the copy")
    before = time.time_ns()
    with log.open("ab") as more:
        more.write(b"new\n")
    recorder.printed(b"\nnew\n")
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 0
    assert recorder.output() == log.read_bytes()
    stamps = [wall for wall, _ in stamped(recorder)]
    assert stamps[:60_000] == [None] * 60_000
    assert stamps[60_000] is not None
    assert stamps[60_000] > before


def test_log_is_followed_without_a_gpu(record: Record, log: Path) -> None:
    recorder = record(options=("--gpus", "99", "--simulate", "1xH100", "--follow", str(log)))
    until(lambda: "GPUs are not" in recorder.said.read_text(), "a word about the GPU")
    with log.open("ab") as more:
        more.write(b"new\n")
    recorder.printed(b"new\n")
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 0


def test_recording_ends_with_the_process_and_has_its_last_line(record: Record, log: Path) -> None:
    writer = subprocess.Popen(["bash", "-c", f"read; echo last >> {log}"], stdin=subprocess.PIPE)
    recorder = follow(record, log, "--pid", str(writer.pid))
    writer.communicate(b"go\n")
    assert recorder.wait() == 0
    assert recorder.output() == b"old 1\nold 2\nlast\n"


def test_rotated_log_is_followed_under_its_name(record: Record, log: Path) -> None:
    recorder = follow(record, log)
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"rotated\n")
    recorder.printed(b"rotated\n")
    log.write_bytes(b"cut\n")
    recorder.printed(b"cut\n")
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 0
    assert recorder.output() == b"old 1\nold 2\nrotated\ncut\n"


def test_killed_keeper_is_replaced(record: Record, log: Path) -> None:
    recorder = follow(record, log)
    recorder.kill_keeper()
    with log.open("ab") as more:
        more.write(b"new\n")
    recorder.printed(b"new\n")
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 0
    assert recorder.output() == b"old 1\nold 2\nnew\n"


def test_process_alone_is_followed_too(record: Record) -> None:
    process = subprocess.Popen(["sleep", "600"])
    recorder = record(options=("--simulate", "1xH100", "--pid", str(process.pid)))
    until(lambda: list(recorder.folder.glob("gpu/fast*")), "the first samples")
    process.kill()
    process.wait()
    assert recorder.wait() == 0


def test_missing_log_or_process_fails_with_one_line(record: Record, tmp_path: Path) -> None:
    recorder = record(options=("--follow", str(tmp_path / "none.log")))
    assert recorder.wait() == 1
    assert "none.log: cannot be read: No such file or directory" in recorder.said.read_text()
    recorder = record(options=("--pid", str(2**22 - 1)))
    assert recorder.wait() == 1
    assert "no such process" in recorder.said.read_text()
