"""Steps seen from inside are joined with those of the log by their times alone, or stay apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import gputel
from gputel.analysis.align.step_parts import SCHEMA, matches
from gputel.telemetry import run_folder
from gputel.telemetry.inside import step_records
from tests.recordings.printed import clock, fill, step
from tests.recordings.step_files import step_file

WAITS = [float(number) for number in range(1, 41)]  # ms: each step has its own


def recorded(
    tmp_path: Path,
    every: int = 1,
    *,
    ends_a_step: int = 1,
    begin: int = 1,
    count: int = 20,
    late_s: float = 0.01,
) -> run_folder.Segment:
    """A step a second, of which every so many is printed a little after its end."""
    segment = run_folder.create(
        tmp_path / "run", {"run": "run", "started": clock(0), "ended": clock(99), "exit_code": 0}
    )
    numbers = [number for number in range(begin, begin + count) if number % every == 0]
    fill(segment, [(number - begin + 1 + late_s, step(number)) for number in numbers])
    ends = [
        1 + number / ends_a_step - (ends_a_step - 1) / ends_a_step for number in range(count * ends_a_step)
    ]
    step_file(segment.path, ends, wait_ms=WAITS[: len(ends)])
    return segment


def waits(tmp_path: Path, name: str = "data_wait_ms") -> dict[int, Any]:
    return dict(gputel.open_run(tmp_path / "run").per_step().select("step", name).iter_rows())


def test_each_step_has_its_own_parts(tmp_path: Path) -> None:
    recorded(tmp_path)
    assert waits(tmp_path) == {number: float(number) for number in range(1, 21)}
    rows = gputel.open_run(tmp_path / "run").per_step().tail(1)
    parts = rows.select("step_ms", "backward_call_ms", "optimizer_call_ms", "other_ms", "gc_ms", "backwards")
    assert parts.row(0) == pytest.approx((1000.0, 2.0, 1.0, 977.0, 0.5, 1.0))


def test_printed_step_has_the_mean_of_all_since_the_one_before(tmp_path: Path) -> None:
    recorded(tmp_path, every=2)
    assert waits(tmp_path) == {number: number - 0.5 for number in range(2, 21, 2)}


def test_resumed_run_counts_from_its_own_step(tmp_path: Path) -> None:
    recorded(tmp_path, begin=501)
    assert waits(tmp_path)[520] == 20.0


def test_two_ends_are_one_step_where_the_log_counts_so(tmp_path: Path) -> None:
    """As a GAN with two optimizers in turn: the waits of both are added."""
    recorded(tmp_path, ends_a_step=2)
    (match,) = matches(gputel.open_run(tmp_path / "run").data)
    assert (match.ends, match.offset) == (2, 0)
    assert waits(tmp_path)[20] == 39.0 + 40.0


def test_step_with_an_evaluation_within_has_no_length(tmp_path: Path) -> None:
    segment = recorded(tmp_path)
    seen, evaluates = step_records.WAITS, step_records.WAITS | step_records.EVALUATES
    step_file(segment.path, range(1, 21), wait_ms=WAITS[:20], flags=[seen] * 9 + [evaluates] + [seen] * 10)
    assert waits(tmp_path)[10] == 10.0
    lengths = waits(tmp_path, "step_ms")
    assert [number for number, length in lengths.items() if length is None] == [1, 10]


@pytest.mark.parametrize(
    "change", [{"every": 3}, {"late_s": -1.5, "count": 7}], ids=["few lines", "fewer steps"]
)
def test_too_few_lines_stay_apart(tmp_path: Path, change: dict[str, Any]) -> None:
    recorded(tmp_path, **change)
    assert set(waits(tmp_path).values()) == {None}


def test_lines_that_contradict_stay_apart(tmp_path: Path) -> None:
    segment = recorded(tmp_path)
    step_file(segment.path, [1 + number * 0.7 for number in range(40)])
    assert set(waits(tmp_path).values()) == {None}


def test_longest_wait_of_the_ranks_is_named(tmp_path: Path) -> None:
    segment = recorded(tmp_path)
    (segment.path / "inside" / "71-9.steps").unlink()
    for rank in range(3):
        slow = [50.0 if rank == number % 3 else 1.0 for number in range(20)]
        ends = [1 + number + rank / 100 for number in range(20)]
        step_file(segment.path, ends, wait_ms=slow, rank=rank, process=f"{rank + 1}-9")
    assert set(waits(tmp_path, "data_wait_max_ms").values()) == {50.0}
    assert waits(tmp_path, "data_wait_rank") == {number + 1: number % 3 for number in range(20)}
    assert waits(tmp_path)[1] == 50.0
    assert waits(tmp_path)[2] == 1.0


def test_new_process_of_a_resumed_job_is_matched_anew(tmp_path: Path) -> None:
    """The log counts on; the second process counts its steps from one."""
    segment = recorded(tmp_path)
    step_file(segment.path, range(1, 11), wait_ms=[1.0] * 10, process="71-9")
    step_file(segment.path, range(11, 21), wait_ms=[2.0] * 10, process="80-9")
    assert [*waits(tmp_path).values()] == [1.0] * 10 + [2.0] * 10


def test_two_processes_that_fit_at_one_time_stay_apart(tmp_path: Path) -> None:
    segment = recorded(tmp_path)
    step_file(segment.path, range(1, 21), wait_ms=[2.0] * 20, process="80-9")
    assert set(waits(tmp_path).values()) == {None}


def test_run_without_steps_from_inside_has_the_columns(tmp_path: Path) -> None:
    segment = recorded(tmp_path)
    (segment.path / "inside" / "71-9.steps").unlink()
    rows = gputel.open_run(tmp_path / "run").per_step()
    assert dict(rows.select(*SCHEMA).schema) == SCHEMA
    assert rows.select(pl.col(*SCHEMA).is_null().all()).row(0) == (True,) * len(SCHEMA)
