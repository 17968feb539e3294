"""Step time, hours and overheads of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.plan import timing
from gputel.analysis.runs import read_run
from tests.analysis.plan.scenes import START, STEP, Write, stamped


def sparse(every: int, *, inside: bool, clock: bool) -> str:
    """200 steps of two seconds, every n-th printed, and an evaluation of 20 after each 20th step."""
    now, waited, lines = START + timedelta(seconds=30), 0.0, ["loading"]
    moments = [START]
    for step in range(200):
        if step and step % 20 == 0:
            now, waited = now + timedelta(seconds=20), 20.0
            lines.append(f"Step {step:05d} | Validation bpb: 1.000000")
            moments.append(now)
        now += timedelta(seconds=2)
        if step % every == 0:
            took = 2000 + 1000 * waited * inside
            lines.append(STEP.format(step, took, 524_288e3 / took, 0).partition(" | total time")[0])
            moments.append(now)
        waited = 0.0
    stamps = [f"{moment:%Y-%m-%dT%H:%M:%S}Z " if clock else "" for moment in moments]
    return "".join(f"{stamp}{line}\n" for stamp, line in zip(stamps, lines, strict=True))


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("every", [1, 10])
def test_step_time_and_hours_leave_out_evaluations_that_a_step_contains(
    tmp_path: Path, every: int, clock: bool
) -> None:
    path = tmp_path / "d12.log"
    path.write_text(sparse(every, inside=True, clock=clock))
    trained = timing.training_time(read_run(path))
    assert trained.step
    assert trained.step.seconds == pytest.approx(2, rel=0.01)
    assert trained.hours
    assert trained.hours == pytest.approx(trained.steps * 2 / 3600, rel=0.02)


def test_steps_between_two_lines_are_no_part_of_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "d12.log"
    path.write_text(sparse(10, inside=False, clock=True))
    did = timing.training_time(read_run(path)).did
    assert did.evaluation_s == pytest.approx(20, abs=1)
    assert did.start_s == pytest.approx(30, abs=1)


def test_compiling_belongs_to_the_start(tmp_path: Path) -> None:
    moments = [START, *(START + timedelta(seconds=100 + 2 * n) for n in range(60))]
    lines = [
        STEP.format(n, 40_000 if n == 0 else 2000, 262_144, 0).partition(" | total")[0] for n in range(60)
    ]
    path = tmp_path / "d12.log"
    text = zip(moments, ["loading", *lines], strict=True)
    path.write_text("".join(f"{moment:%Y-%m-%dT%H:%M:%S}Z {line}\n" for moment, line in text))
    trained = timing.training_time(read_run(path))
    assert trained.did.start_s == pytest.approx(98, abs=1)
    assert trained.hours == pytest.approx(120 / 3600, rel=0.01)


def test_phase_with_the_most_steps_is_not_that_with_the_most_lines() -> None:
    steps = [*range(0, 1000, 100), *range(30)]
    rows = pl.DataFrame({"phase": ["base"] * 10 + ["sft"] * 30, "step": steps})
    assert timing.longest_phase(rows)["phase"].unique().to_list() == ["base"]


def test_first_ten_steps_are_dropped_however_few_lines_they_have() -> None:
    rows = pl.DataFrame({"step": range(0, 200, 10)})
    assert timing.settled(rows)["step"].to_list() == list(range(10, 200, 10))


def test_timestamps_give_the_time_of_evaluations_and_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "stamped.log"
    path.write_text(f"{START:%Y-%m-%dT%H:%M:%S}Z Vocab size: 65,536\n" + stamped())
    did = timing.training_time(read_run(path)).did
    assert (did.evaluations, did.evaluation_s, did.checkpoints, did.checkpoint_s) == (4, 6.0, 4, 4.0)
    assert did.start_s == pytest.approx(32, abs=1)


def test_log_without_timestamps_has_no_overheads(write: Write) -> None:
    assert timing.training_time(write()).did == timing.Overheads(None, 0, None, 0, None)


@pytest.mark.parametrize(
    ("numbers", "completed"),
    [
        (range(60), 60),
        (range(1, 61), 60),
        (range(0, 600, 10), 591),
        (range(10, 610, 10), 600),
        (range(1, 600, 10), 591),
        (range(5000, 5600, 10), 591),
        ([7], 1),
        ([], 0),
    ],
)
def test_rows_of_every_tenth_step_stand_for_all_steps(numbers: Sequence[int], completed: int) -> None:
    rows = pl.DataFrame({"step": pl.Series(list(numbers), dtype=pl.Int64)})
    assert timing.steps_completed(rows) == completed


def test_rows_without_a_step_are_counted() -> None:
    assert timing.steps_completed(pl.DataFrame({"step": pl.Series([None] * 9, dtype=pl.Int64)})) == 9
