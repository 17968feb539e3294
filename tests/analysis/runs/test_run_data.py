"""A path becomes a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs import from_table_and_log, one_line, read_run
from gputel.telemetry.errors import GputelError

LOG = "step 1 | loss: 3.0\n"


def test_bare_log_has_no_recording_and_no_readings(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    run = read_run(tmp_path / "a.log")
    assert (run.name, run.recording, run.gpu, run.command, run.caution) == ("a", None, None, None, None)


def test_table_without_gpu_readings_cannot_stand_beside_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    with pytest.raises(GputelError, match="no GPU readings were found"):
        from_table_and_log(tmp_path / "a.log", tmp_path / "a.log")


def test_inline_script_is_cut_within_a_command() -> None:
    line = one_line(["python", "-c", "import time\n" * 50, "--out", "a b"])
    assert line.startswith("python -c 'import time import time")
    assert line.endswith("…' --out 'a b'")
    assert len(line) < 100


def test_table_of_elapsed_seconds_begins_at_the_time_in_its_name(tmp_path: Path) -> None:
    table = tmp_path / "gpu_20260301_100000.csv"
    table.write_text("elapsed_sec,gpu0_power_w\n0.0,300\n1.5,310\n")
    (tmp_path / "a.log").write_text(LOG)
    readings = from_table_and_log(table, tmp_path / "a.log").readings
    assert readings is not None
    assert [f"{time:%Y-%m-%d %H:%M:%S.%f}" for time in readings["time"]] == [
        "2026-03-01 10:00:00.000000",
        "2026-03-01 10:00:01.500000",
    ]
