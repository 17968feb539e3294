"""The process that ends a recording: it compacts, then reports, and a failure of one does not cost the other."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from gputel.cli import final_report, record
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process.exit_limit import ExitLimit
from gputel.telemetry.process.viewer import CommandEnd
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.telemetry.conftest import SteppedClock

FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"),))
ENDED = CommandEnd(
    exit_code=3,
    signal=None,
    fault=None,
    sampled=True,
    lost=0,
    missing=0,
    left_behind=False,
    unsealed=None,
    cut_short=False,
)


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    """A recording of three seconds whose telemetry is a journal."""
    clock = SteppedClock()
    segment = run_folder.create(tmp_path / "run", {"name": "run", "started": clock.stamp().as_json()})
    writer = Writer(PartWriter(segment.gpu, [FAST], clock, on_trouble=print, compactor=None))
    for tick in range(30):
        clock.advance(SECOND // 10)
        writer.append(0, clock.now, clock.now, [tick])
    writer.close()
    run_folder.update(segment.path, ended=clock.stamp().as_json(), exit_code=3)
    return segment


def names(segment: Segment) -> list[str]:
    return sorted(path.name for path in segment.gpu.iterdir() if not path.name.startswith("."))


def finish(segment: Segment, run: Path) -> None:
    record._finish(run, segment, ENDED, [], as_json=False)


def test_telemetry_is_compacted_before_the_report(
    segment: Segment, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own polars.py is not imported instead of ours."""
    (tmp_path / "polars.py").write_text("raise SystemExit('this is the user’s own polars.py')")
    monkeypatch.chdir(tmp_path)
    finish(segment, Path("run"))
    assert names(segment) == ["fast-000001.parquet", "seconds-000001.parquet"]
    assert "next: gputel report run" in capfd.readouterr().err


def test_recording_without_a_tick_keeps_its_journals(
    segment: Segment, capfd: pytest.CaptureFixture[str]
) -> None:
    record._finish(segment.path, segment, replace(ENDED, sampled=False), [], as_json=False)
    assert names(segment) == ["fast-000001.gtb"]
    assert "next: gputel report" in capfd.readouterr().err


def test_report_is_made_though_compaction_failed(segment: Segment, capfd: pytest.CaptureFixture[str]) -> None:
    (segment.gpu / ".compact.lock").mkdir()
    finish(segment, segment.path)
    said = capfd.readouterr().err
    assert f"{segment.path}: telemetry was not compacted: " in said
    assert "; it is whole, and read as it is" in said
    assert "next: gputel report" in said
    assert names(segment)[0] == "fast-000001.gtb"


def test_damaged_file_is_one_line_beside_the_report(
    segment: Segment, capfd: pytest.CaptureFixture[str]
) -> None:
    segment.output.write_text("a line without a time\n")
    (segment.path / "output.idx").touch()
    finish(segment, segment.path)
    said = capfd.readouterr().err
    assert f"warning: {segment.path / 'output.idx'}: is incomplete" in said
    assert "DamagedFile" not in said


def test_ctrl_z_during_the_report_stops_the_recorder_and_fg_continues_both() -> None:
    stops = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    script = f"from gputel.cli import final_report as f; f.START = {stops!r}; "
    script += "print(f.show_report(f.ReportOrder('run', [], [], False)))"
    recorder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert os.WIFSTOPPED(os.waitpid(recorder.pid, os.WUNTRACED)[1])
    recorder.send_signal(signal.SIGCONT)
    assert recorder.communicate()[0] == "None\n"
    assert recorder.returncode == 0


@dataclass
class Impatient:
    """Stands in for the limit of time: interrupts the process as soon as it exists."""

    @property
    def child(self) -> int | None:
        return None

    @child.setter
    def child(self, pid: int) -> None:
        os.kill(pid, signal.SIGINT)


def test_ctrl_c_while_the_process_starts_is_one_line(
    segment: Segment, capfd: pytest.CaptureFixture[str]
) -> None:
    """It was the traceback of an import."""
    order = final_report.ReportOrder("run", [str(segment.gpu)], [], as_json=False)
    assert final_report.show_report(order, cast("ExitLimit", Impatient())) is None
    assert capfd.readouterr().err == "error: run: no report: interrupted; see 'gputel info run'\n"
    assert names(segment) == ["fast-000001.gtb"]


def test_process_that_is_killed_is_two_lines(
    segment: Segment, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(final_report, "START", f"import os; os.kill(os.getpid(), {int(signal.SIGABRT)})")
    finish(segment, segment.path)
    run = segment.path
    assert capfd.readouterr().err.splitlines() == [
        f"{run}: telemetry was not compacted: its process ended by SIGABRT; it is whole, and read as it is",
        f"error: {run}: no report: its process ended by SIGABRT; see 'gputel info {run}'",
    ]
