"""Files of steps are read as they are; what was not seen is null."""

from __future__ import annotations

from pathlib import Path

import pytest

import gputel
from gputel.analysis.runs.inside_steps import SCHEMA, read
from gputel.telemetry import run_folder
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.inside import drain, environment, step_records
from tests.recordings.printed import clock
from tests.recordings.step_files import step_file


@pytest.fixture
def segment(tmp_path: Path) -> run_folder.Segment:
    return run_folder.create(tmp_path / "run", {"run": "run", "started": clock(0), "ended": clock(99)})


def test_times_of_a_step(segment: run_folder.Segment) -> None:
    step_file(segment.path, [1, 1.5], wait_ms=[4, 5], rank=3)
    first, second = gputel.open_run(segment.path).recording.inside.rows(named=True)  # type: ignore[union-attr]
    assert (first["step_ms"], first["data_wait_ms"], first["other_ms"]) == (None, 4.0, None)
    assert {name: second[name] for name in list(SCHEMA)[1:]} == {
        "inside": "71-9",
        "rank": 3,
        "step_ms": 500.0,
        "data_wait_ms": 5.0,
        "backward_call_ms": 2.0,
        "optimizer_call_ms": 1.0,
        "other_ms": 492.0,
        "gc_ms": 0.5,
        "fetches": 1,
        "backwards": 1,
        "evaluates": False,
    }


def test_process_that_read_no_loader_has_no_wait(segment: run_folder.Segment) -> None:
    """Zero would say that its data came at once."""
    step_file(segment.path, [1, 2], fetches=0)
    assert read(segment)["data_wait_ms"].to_list() == [None, None]
    assert read(segment)["other_ms"].to_list() == [None, 997.0]


def test_python_that_sees_optimizers_alone_has_no_other_parts(segment: run_folder.Segment) -> None:
    step_file(segment.path, [1, 2], flags=[0, 0])
    (_, row) = read(segment).rows(named=True)
    names = (
        "step_ms",
        "optimizer_call_ms",
        "data_wait_ms",
        "backward_call_ms",
        "other_ms",
        "fetches",
        "backwards",
    )
    assert [row[name] for name in names] == [1000.0, 1.0, None, None, None, None, None]


def test_optimizer_that_ran_the_model_has_no_time_of_its_own(segment: run_folder.Segment) -> None:
    step_file(segment.path, [1, 2], flags=[step_records.CLOSURE | step_records.WAITS] * 2)
    assert read(segment)["optimizer_call_ms"].to_list() == [None, None]


def test_torn_record_and_foreign_files_are_left_out(segment: run_folder.Segment) -> None:
    path = step_file(segment.path, [1, 2, 3])
    path.write_bytes(path.read_bytes()[:-5])
    path.with_name("1-1.steps").write_bytes(b"words")
    path.with_name("2-1.steps").write_bytes(b"")
    with pytest.warns(DamagedFile, match="no file of steps"):
        assert read(segment).height == 2


def test_rest_in_memory_follows_the_copy(segment: run_folder.Segment) -> None:
    inside = environment.enter("steps")
    assert inside.folder
    try:
        whole = step_file(segment.path, range(1, 401)).read_bytes()
        (segment.path / "inside" / "71-9.steps").unlink()
        with (inside.folder / "71-9.steps").open("ab", buffering=0) as file:
            file.write(whole[:20_000])  # ends within a record
            drain.drain(segment.path, inside.folder)
            file.write(whole[20_000:])
        assert read(segment, inside.as_json()).height == 400
        drain.drain(segment.path, inside.folder)
    finally:
        environment.leave(inside)
    assert (segment.path / "inside" / "71-9.steps").read_bytes() == whole


def test_copy_that_a_full_disk_cut_within_a_record_is_completed(segment: run_folder.Segment) -> None:
    inside = environment.enter("steps")
    assert inside.folder
    try:
        path = step_file(segment.path, range(1, 11))
        whole = path.read_bytes()
        (inside.folder / path.name).write_bytes(whole)
        path.write_bytes(whole[:100])
        drain.drain(segment.path, inside.folder)
    finally:
        environment.leave(inside)
    assert path.read_bytes() == whole
