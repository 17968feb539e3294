"""A run folder as one recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs.recording import open_recording, total
from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.errors import DamagedFile, GputelError
from tests.recordings.printed import clock


def test_downtime_is_the_time_between_segments(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "run", "started": clock(0), "ended": clock(10)})
    run_folder.add_segment(tmp_path / "run", {"run": "run", "started": clock(14), "ended": clock(20)})
    recording = open_recording(tmp_path / "run")
    assert (recording.duration_s, recording.downtime_s) == (16, 4)
    assert recording.segments["attempt"].to_list() == [1, 2]
    assert recording.simulated is None
    assert recording.events.is_empty()


def moment(wall_s: float, boot_s: float) -> dict[str, object]:
    return Stamp(round(wall_s * 1e9), 0, round(boot_s * 1e9)).as_json()


@pytest.mark.parametrize(
    ("boots", "downtime_s"),
    [(("a", "a"), 4), (("a", "b"), None), ((None, None), None)],
    ids=["one boot", "two boots", "unknown"],
)
def test_durations_survive_a_clock_that_is_set_back(
    tmp_path: Path, boots: tuple[str | None, str | None], downtime_s: float | None
) -> None:
    """Only within one boot: otherwise a negative time is unknown."""
    first, second = ({"name": "n", "boot": boot} for boot in boots)
    run_folder.create(
        tmp_path / "run",
        {"run": "run", "host": first, "started": moment(10_000, 0), "ended": moment(6_410, 10)},
    )
    run_folder.add_segment(
        tmp_path / "run",
        {"run": "run", "host": second, "started": moment(2_000, 14), "ended": moment(2_006, 20)},
    )
    recording = open_recording(tmp_path / "run")
    assert recording.segments["duration_s"].to_list() == [10, 6]
    assert recording.downtime_s == downtime_s


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GputelError):
        open_recording(tmp_path / "missing")


def test_total_of_unknown_values_is_unknown() -> None:
    assert total([None, None]) is None
    assert total([1.0, None, 2.0]) == 3


def test_segment_after_one_without_a_description_has_no_downtime(tmp_path: Path) -> None:
    first = run_folder.create(tmp_path / "run", {"run": "a"})
    run_folder.add_segment(tmp_path / "run", {"run": "a"})
    first.index.touch()
    (first.path / run_folder.DESCRIPTION).unlink()
    with pytest.warns(DamagedFile, match=r"run\.json: cannot be read"):
        recording = open_recording(tmp_path / "run")
    assert recording.segments["downtime_s"].to_list() == [None, None]


@pytest.mark.parametrize("code", [2**63, -(2**200), "0", {}, True])
def test_exit_code_that_no_process_has_is_left_out(tmp_path: Path, code: object) -> None:
    run_folder.create(tmp_path / "run", {"run": "a", "exit_code": code})
    with pytest.warns(DamagedFile, match="exit_code"):
        recording = open_recording(tmp_path / "run")
    assert recording.segments["exit_code"].to_list() == [None]
