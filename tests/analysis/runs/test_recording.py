"""A run folder as one recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs.recording import open_recording, total
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from tests.recordings.printed import clock


def test_downtime_is_the_time_between_segments(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "run", "started": clock(0), "ended": clock(10)})
    run_folder.add_segment(tmp_path / "run", {"run": "run", "started": clock(14), "ended": clock(20)})
    recording = open_recording(tmp_path / "run")
    assert (recording.duration_s, recording.downtime_s) == (16, 4)
    assert recording.segments["attempt"].to_list() == [1, 2]
    assert recording.simulated is None
    assert recording.events.is_empty()


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GputelError):
        open_recording(tmp_path / "missing")


def test_total_of_unknown_values_is_unknown() -> None:
    assert total([None, None]) is None
    assert total([1.0, None, 2.0]) == 3
