"""Planned figures beside those of a run."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from gputel.analysis.plan import calibrate, check, inputs
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.runs import read_run
from gputel.telemetry.errors import GputelError
from tests.analysis.plan.scenes import BANNER, D16, D24, STEP, Write, stamped


def test_check_sets_planned_figures_beside_the_runs_own(write: Write) -> None:
    result = check.check_plan(write(dt_ms=200.0), Recipe(1))
    lines = {line.name: line for line in result.lines}
    assert lines["parameters"].error_percent == 0
    assert lines["parameters"].within is None
    assert lines["steps"].happened == 7080
    dt_ms = lines["dt_ms"]
    assert dt_ms.error_percent
    assert dt_ms.error_percent == pytest.approx(100 * (dt_ms.planned.value / 200 - 1))
    assert dt_ms.within == (dt_ms.planned.low <= 200 <= dt_ms.planned.high)
    assert lines["power_w"].happened is None
    assert lines["power_w"].error_percent is None
    assert "dollars" not in lines
    assert "hours are those of the 60 completed steps, of 7,080" in result.notes


def test_check_measures_evaluations_checkpoints_and_cost(tmp_path: Path) -> None:
    path = tmp_path / "stamped.log"
    path.write_text(BANNER + stamped())
    lines = {line.name: line for line in check.check_plan(read_run(path), Recipe(1), price=4.0).lines}
    assert lines["eval_hours"].happened == pytest.approx(4 * 6 / 3600)
    assert lines["save_hours"].happened == pytest.approx(4 * 4 / 3600)
    hours = lines["train_hours"].happened
    assert hours
    assert lines["dollars"].happened == pytest.approx(8 * 4 * hours)
    assert lines["dollars"].error_percent == pytest.approx(lines["train_hours"].error_percent)


def test_check_of_depth_24_is_right_when_depth_16_came_before_it() -> None:
    like = calibrate.calibration(read_run(D16), Recipe(8))
    lines = {line.name: line for line in check.check_plan(read_run(D24), Recipe(1), like=like).lines}
    for name in ("dt_ms", "tok_per_sec", "mfu", "train_hours"):
        error = lines[name].error_percent
        assert error is not None
        assert abs(error) < 10
        assert lines[name].within


def test_log_without_a_size_is_checked_by_the_named_one(write: Write) -> None:
    subject = write(banner="")
    result = check.check_plan(subject, Recipe(1), machine("8xH100"), named=inputs.of_depth(12))
    lines = {line.name: line for line in result.lines}
    assert lines["parameters"].happened is None
    assert lines["mfu"].happened == pytest.approx(100 * 1_038_090_240 * 524_288 / 0.18 / (8 * 989e12))


def test_memory_out_of_range_is_noted_with_the_nearest_recipe(write: Write) -> None:
    result = check.check_plan(write(end="Peak memory usage: 75000.00MiB\n"), Recipe(1))
    (note,) = [note for note in result.notes if "it used" in note]
    assert "GiB more than planned; the nearest other recipe is" in note


def test_run_without_named_gpus_needs_them_named(write: Write) -> None:
    nameless = [line for line in BANNER.splitlines(keepends=True) if not re.search("GPU|world|FLOPs", line)]
    subject = write(banner="".join(nameless))
    with pytest.raises(GputelError, match=r"^d12: does not name its GPUs; name them, such as --on 2xH100"):
        check.check_plan(subject, Recipe(1))


def test_composed_log_says_so_wherever_it_is_used() -> None:
    caution = "d16-base: synthetic log"
    assert gzip.decompress(D16.read_bytes()).startswith(b"# COMPOSED")
    assert caution in calibrate.calibration(read_run(D16), Recipe(8)).notes
    assert caution in check.check_plan(read_run(D16), Recipe(8)).notes


def test_answer_has_every_figure_with_its_error(write: Write) -> None:
    checked = check.check_plan(write(), Recipe(1))
    answer = check.answer(checked)
    assert [figure["name"] for figure in answer["figures"]] == [line.name for line in checked.lines]
    (parameters,) = (figure for figure in answer["figures"] if figure["name"] == "parameters")
    assert parameters == {
        "name": "parameters",
        "planned": 185_597_952,
        "low": 185_597_952,
        "high": 185_597_952,
        "origin": "computed",
        "from": ["the shape"],
        "happened": 185_597_952,
        "happened_error": None,
        "error_percent": 0,
        "within": None,
    }


@pytest.mark.parametrize("clock", ["total time", "dt"])
@pytest.mark.parametrize("every", [1, 10, 100])
def test_hours_of_a_log_of_every_tenth_step_are_those_of_all_steps(
    tmp_path: Path, every: int, clock: str
) -> None:
    lines = [STEP.format(n, 180.0, 524_288e3 / 180, n * 0.18 / 60) for n in range(0, 6001, every)]
    if clock == "dt":
        lines = [line.partition(" | total time")[0] + "\n" for line in lines]
    path = tmp_path / "d12.log"
    path.write_text(BANNER + "".join(lines))
    checked = check.check_plan(read_run(path), Recipe(1))
    hours = {line.name: line for line in checked.lines}["train_hours"]
    assert hours.happened == pytest.approx(6000 * 0.18 / 3600, rel=1e-3)
    assert hours.error_percent == pytest.approx(-5.9, abs=0.2)
    assert "hours are those of the 6,001 completed steps, of 7,080" in checked.notes


def test_measured_figures_have_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stamped.log"
    path.write_text(BANNER + stamped())
    result = check.check_plan(read_run(path), Recipe(1), price=4.0)
    errors = {line.name: line.error for line in result.lines}
    for name in ("dt_ms", "tok_per_sec", "mfu", "train_hours", "dollars", "eval_hours", "save_hours"):
        assert errors[name] is not None, name
    assert errors["parameters"] is None
    shown = check.answer(result)["figures"]
    assert {row["name"]: row["happened_error"] for row in shown}["dt_ms"] == pytest.approx(errors["dt_ms"])
