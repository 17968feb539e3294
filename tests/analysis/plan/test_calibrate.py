"""A plan corrected by a finished run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.plan import calibrate, inputs, rows
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import GIB, Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.runs import read_run
from tests.analysis.plan.scenes import BANNER, Write, stamped


def test_measured_mfu_replaces_the_assumed_one(write: Write) -> None:
    like = calibrate.calibration(write(dt_ms=200.0), Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, like=like)
    same = rows.row(asked, inputs.of_depth(12)).figures
    assert same["dt_ms"].value == pytest.approx(200)
    assert same["dt_ms"].origin == "measured"
    assert same["dt_ms"].sources == ("MFU of d12",)
    two = rows.row(Question(machine("2xH100"), Recipe(32), device_batch=32, like=like), inputs.of_depth(12))
    assert two.figures["dt_ms"].value == pytest.approx(800)


def test_run_on_other_gpus_is_carried_over_with_a_wider_range(write: Write) -> None:
    like = calibrate.calibration(write(dt_ms=200.0), Recipe(32))
    asked = Question(machine("8xA100"), Recipe(32), device_batch=32, like=like)
    figure = rows.row(asked, inputs.of_depth(12)).figures["mfu"]
    assert figure.low < 0.5 * figure.value
    assert any("no measurement on this GPU" in source for source in figure.sources)


def test_measured_memory_is_met_at_its_own_size_and_a_range_at_others(write: Write) -> None:
    subject = write(end="Peak memory usage: 40960.00MiB\n")
    like = calibrate.calibration(subject, Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, like=like)
    parts = rows.memory_parts(asked, inputs.of_depth(12), Recipe(32))
    seen = sum(part.value for name, part in parts.items() if name != "reserve") / GIB
    assert seen == pytest.approx(40)
    assert parts["activations"].origin == parts["logits"].origin == "measured"
    same_size = parts["activations"].high / parts["activations"].low
    deeper = rows.memory_parts(asked, inputs.of_depth(24), Recipe(32))["activations"]
    assert deeper.high / deeper.low > same_size


@pytest.mark.parametrize(
    ("banner", "note"),
    [
        (BANNER, "d12 has no memory figures; memory stays assumed"),
        (
            BANNER.replace("Tokens / micro-batch / rank: 32 x 2048 = 65,536\n", ""),
            "d12 does not name its GPUs or device batch, so its memory cannot be transferred to other sizes",
        ),
    ],
)
def test_figure_that_a_run_lacks_stays_assumed_with_a_note(write: Write, banner: str, note: str) -> None:
    end = "" if "micro-batch" in banner else "Peak memory usage: 40960.00MiB\n"
    like = calibrate.calibration(write(banner=banner, end=end), Recipe(32))
    assert like.moving is None
    assert note in like.notes
    assert "d12 has no power; it stays assumed" in like.notes


def test_evaluations_and_checkpoints_are_carried_to_other_sizes(tmp_path: Path) -> None:
    """An evaluation by its tokens at the other size's pace, a checkpoint by its bytes."""
    path = tmp_path / "stamped.log"
    path.write_text(BANNER + stamped())
    like = calibrate.calibration(read_run(path), Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, save_every=10, like=like)
    same = rows.row(asked, inputs.of_depth(12)).figures
    steps = same["steps"].value
    assert same["eval_hours"].value * 3600 == pytest.approx(steps / 10 * 6)
    assert same["save_hours"].value * 3600 == pytest.approx(steps / 10 * 4)
    assert same["eval_hours"].origin == same["save_hours"].origin == "measured"
