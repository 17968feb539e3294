"""Steps with two values of a measure, where others have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.analysis.logs import files, formats
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def training(twice: int | None = None, again: float = 0.0, sets: int = 1) -> str:
    """A log with an evaluation at each step, but for one of them, which has a second."""
    return "".join(
        f"step {step} loss: {9 - step / 90:.4f}\n"
        + "".join(f"eval: step {step} val_loss: {9 - step / 80 + at / 10:.4f}\n" for at in range(sets))
        + f"eval: step {step} val_loss: {9 - step / 80 + again:.4f}\n" * (step == twice)
        for step in range(12)
    )


def twice(log: Log) -> list[str]:
    return [doubt.evidence for doubt in log.doubts if doubt.what == "evaluated-twice"]


def test_step_with_two_values_among_steps_with_one_is_doubtful(read: Read) -> None:
    said = "step 6 has two values of val_loss, and nearly all others have one"
    assert twice(read(training(6, 0.5))) == [said]


@pytest.mark.parametrize(
    "log", [training(), training(6), training(11, 0.5), training(sets=2)], ids=["one", "same", "last", "all"]
)
def test_repeated_values_the_last_step_and_two_sets_are_not(log: str, read: Read) -> None:
    assert twice(read(log)) == []


@pytest.mark.parametrize(("sets", "kinds"), [("train val", ["evaluations-as-records"]), ("dev", [])])
def test_format_that_takes_evaluations_for_records_is_doubtful(
    sets: str, kinds: list[str], tmp_path: Path
) -> None:
    """A word on every line, such as that of a program, says nothing."""
    loose = formats.load(
        "title = 'loose'\ngrammar = 'one of ours'\n[[lines]]\nname = 'record'\nrole = 'train'\n"
        "needle = 'loss'\nline = 'step <step> loss <loss>'\n",
        "loose",
        "loose.toml",
    )
    lines = (f"{name} step {step} loss {9 / step:.4f}\n" for step in range(1, 13) for name in sets.split())
    path = tmp_path / "train.log"
    path.write_text("".join(lines))
    log = files.read_file(path, (loose,))
    assert [doubt.what for doubt in log.doubts if doubt.what == "evaluations-as-records"] == kinds


def test_evaluations_that_count_epochs_among_those_that_count_steps_are_doubtful(read: Read) -> None:
    """Both are named, so each has the step that it names."""
    steps = "".join(
        f"iter {at} loss: {9 / at:.4f} val loss: {10 / at:.4f}\n" + "{}" * (at % 3 == 0)
        for at in range(1, 31)
    )
    epochs = [f"epoch {epoch} is over, val loss: {11 / (epoch + 1):.4f}\n" for epoch in range(10)]
    (doubt,) = (doubt for doubt in read(steps.format(*epochs)).doubts if doubt.what == "evaluations-fall")
    assert doubt.evidence == "the steps of val_loss fall 10 times, first to 0"
    assert not read(steps.format(*[""] * 10)).doubts
