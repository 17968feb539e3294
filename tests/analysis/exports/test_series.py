"""A run as trackers take it: tags, steps, moments, energy and readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.exports.series import ExportedRun, exported
from gputel.analysis.runs import read_run
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.store.tiers import Tier, TierColumn

LOG = """step 0 | loss 9.5 | lr 0.1
step 0 | val_loss 9.0 | hellaswag_acc 0.25
step 1 | loss 8.5 | lr 0.2
step 1 | val_loss 8.0
"""
POWER = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))


def of_log(folder: Path, text: str = LOG) -> ExportedRun:
    (folder / "a.log").write_text(text)
    return exported(read_run(folder / "a.log"))


def test_tags_name_training_and_evaluations(tmp_path: Path) -> None:
    series = {each.tag: (each.steps.tolist(), each.values.tolist()) for each in of_log(tmp_path).series}
    assert series["train/loss"] == ([0, 1], [9.5, 8.5])
    assert series["train/lr"] == ([0, 1], [0.1, 0.2])
    assert series["val/loss"] == ([0, 1], [9.0, 8.0])


def test_moment_that_no_line_says_is_nan(tmp_path: Path) -> None:
    assert all(np.isnan(each.times).all() for each in of_log(tmp_path).series)


def test_later_attempt_supersedes_the_earlier_one(tmp_path: Path) -> None:
    run = of_log(
        tmp_path, "".join(f"step {n} | loss {v}.0\n" for n, v in ((0, 9), (1, 8), (2, 7), (1, 6), (2, 5)))
    )
    assert [each.values.tolist() for each in run.series if each.tag == "train/loss"] == [[9, 6, 5]]


def test_key_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    assert of_log(tmp_path).key == of_log(tmp_path).key


def test_key_of_a_log_without_times_is_of_its_name_and_first_values(tmp_path: Path) -> None:
    """It stays while the log grows; another run of that name has another."""
    lines = [f"step {n} | loss {9 - n}.0 | lr 0.1\n" for n in range(6)]
    key = of_log(tmp_path, "".join(lines[:3])).key
    assert of_log(tmp_path, "".join(lines) + "step 6 | val_loss 3.0\n").key == key
    assert of_log(tmp_path, "".join(lines).replace("loss 9.0", "loss 9.5")).key != key


def test_secret_setting_is_masked(tmp_path: Path) -> None:
    (
        run_folder.create(tmp_path / "run", {"tags": {"api_key": "correct-horse-9"}}).path / "output.log"
    ).write_text(LOG)
    settings = exported(read_run(tmp_path / "run")).settings
    assert "correct-horse" not in str(settings["tag.api_key"])


def test_log_without_a_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match="no value at a step"):
        of_log(tmp_path, "hello\n")


def test_readings_are_means_of_whole_seconds_of_the_run(tmp_path: Path, compose: Callable[..., None]) -> None:
    segment = run_folder.create(tmp_path / "run", {"simulated": "2xH100"})
    ticks = [(0, n * SECOND // 10, [70_000 + 1000 * (n // 10), 50_000]) for n in range(30)]
    compose(segment.gpu, [POWER], ticks, seal_after_s=5)
    run = exported(read_run(tmp_path / "run"))
    by_tag = {each.tag: each for each in run.series}
    assert set(by_tag) == {"gpu0/power_w", "gpu1/power_w"}
    power = by_tag["gpu0/power_w"]
    assert (power.axis, np.diff(power.steps).tolist()) == ("second", [1] * (len(power.steps) - 1))
    assert power.values.sum() == pytest.approx(70 + 71 + 72, rel=0.35)
    assert np.diff(power.times).tolist() == [1.0] * (len(power.steps) - 1)
    assert run.name == "run-SIMULATED"
    assert run.settings["gputel.simulated"] == "2xH100"
