"""The checks are run against this machine; real limits make it a bad one."""

import os
import resource
import sys
from pathlib import Path

import pytest

from gputel.telemetry import doctor

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")


def test_every_check_answers_on_this_machine(tmp_path: Path) -> None:
    findings = list(doctor.examine(tmp_path))
    assert {finding.check for finding in findings} >= {"platform", "disk speed", "disk space"}
    assert all(finding.found for finding in findings)


def test_check_that_is_not_good_has_a_hint(tmp_path: Path) -> None:
    assert [f for f in doctor.examine(tmp_path) if (f.state == "good") == bool(f.hint)] == []


def test_disk_check_leaves_no_file(tmp_path: Path) -> None:
    list(doctor.examine(tmp_path / "not" / "there" / "yet"))
    assert list(tmp_path.iterdir()) == []


@linux
def test_real_time_priority_is_given_back() -> None:
    before = os.sched_getscheduler(0)
    doctor.realtime()
    assert os.sched_getscheduler(0) == before


def in_a_child(limit: int, value: int, question: str) -> str:
    """The answer of a process that lives under the limit."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(limit, (value, value))
        os.write(writing, repr(eval(question)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


@linux
def test_disk_that_takes_nothing_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = in_a_child(resource.RLIMIT_FSIZE, 4096, "doctor.disk_speed(Path())")
    assert "state='bad'" in text
    assert f"cannot write in {tmp_path} (File too large)" in text
    assert "hint='choose another --out'" in text
