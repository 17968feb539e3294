"""Damaged run folders under the commands: an answer or one line, never a traceback."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.live.follower import Follower
from tests.command import gputel
from tests.sources import ROOT

FUZZER = ROOT / "benchmarks" / "fuzz.py"


@pytest.mark.long
def test_commands_survive_all_that_is_read_damaged_at_random() -> None:
    command = [sys.executable, str(FUZZER), "--seconds", "15", "--seed", "7"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_fault_of_tail_after_its_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer ends `tail` by a signal, which raises nothing that could be taken for a fault or hide one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(FUZZER.parent)
    fault_of = runpy.run_path(str(FUZZER))["fault_of"]
    (tmp_path / "train.log").write_text("step 1 loss 2.5\n")
    command = ["tail", "--plain", str(tmp_path / "train.log")]
    assert fault_of(command) is None
    monkeypatch.setattr(Follower, "close", lambda _follower: 1 / 0)
    assert fault_of(command).startswith("tail: ZeroDivisionError at ")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    recording = runpy.run_path(str(FUZZER.with_name("fuzz_changes.py")))["recording"]
    recording(tmp_path / "run", compacted=True)
    return tmp_path / "run"


def answer(*words: str | Path) -> subprocess.CompletedProcess[str]:
    answer = gputel(*words)
    assert answer.returncode == 0, answer.stderr
    return answer


def test_info_names_a_damaged_part_in_one_line_and_tells_the_rest(run: Path) -> None:
    part = run / "gpu" / "fast-000002.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    info = answer("info", run)
    lines = [line for line in info.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {part}: cannot be read and is left out (")
    assert "power_w" in info.stdout


def test_energy_says_what_share_of_the_time_is_left_when_a_part_is_lost(run: Path) -> None:
    for part in (run / "gpu").glob("*-000003.parquet"):
        part.unlink()
    text = answer("report", run).stdout
    assert "energy  4,800.0 J over 68 % of the time, 0.62" in text
    assert "Time and energy by phase: 11.7 s, 4,800.0 J over 68 % of the time" in text
    rows = [line for line in text.splitlines() if line.startswith(("  0 ", "  1 "))]
    assert [row.split()[-2:] for row in rows] == [["68", "%"], ["68", "%"]]


def test_run_whose_description_is_lost_is_not_said_to_be_running(run: Path) -> None:
    (run / "run.json").unlink()
    report = answer("report", run)
    assert f"warning: {run / 'run.json'}: cannot be read and is left out (no run is here)" in report.stderr
    assert "7,020.0 J" in report.stdout
    assert "running" not in report.stdout
