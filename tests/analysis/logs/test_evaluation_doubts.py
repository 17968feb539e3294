"""Steps with two values of a measure, where others have one, and steps that count something else."""

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


def test_first_step_with_two_values_is_doubtful_where_no_record_stands_below(read: Read) -> None:
    lines = [f"Epoch {e}: val_loss = {1 / e:.4f}" for e in range(1, 13)]
    log = read("\n".join([lines[0].replace("1.0", "1.5"), "Loading weights", *lines]) + "\n")
    assert twice(log) == ["step 1 has two values of val_loss, and nearly all others have one"]


@pytest.mark.parametrize("log", [training(), training(6), training(11, 0.5)], ids=["one", "same", "last"])
def test_repeated_values_and_the_last_step_are_not(log: str, read: Read) -> None:
    assert twice(read(log)) == []


@pytest.mark.parametrize("name", ["val_loss", "val_f1"])
def test_two_values_on_neighboring_lines_of_each_step_are_doubtful(read: Read, name: str) -> None:
    log = read(training(sets=2).replace("val_loss", name))
    doubts = [doubt for doubt in log.doubts if doubt.what == "two-losses"]
    assert [doubt.evidence.split(" of ")[0] for doubt in doubts] == ["12"]


def test_two_evaluations_of_a_step_with_records_between_them_are_not(read: Read) -> None:
    epoch = "Epoch {0} [10/20] loss: 2.{0}\nval_f1: 0.5{0}\nEpoch {0} [20/20] loss: 2.1{0}\nval_f1: 0.6{0}\n"
    assert not [
        d for d in read("".join(epoch.format(e) for e in range(1, 9))).doubts if d.what == "two-losses"
    ]


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


def kinds(log: Log) -> list[str]:
    return [doubt.what for doubt in log.doubts]


@pytest.mark.parametrize(("length", "doubts"), [(2500, ["two-counters"]), (1, [])])
def test_evaluations_at_steps_far_behind_the_last_record_are_doubtful(
    length: int, doubts: list[str], read: Read
) -> None:
    """A network that was trained in epochs is then trained in minibatches."""
    trained = "".join(f"Pre-training layer 0, epoch {e}, cost {90.5 - e}\n" for e in range(9))
    tested = "epoch {e}, minibatch {n}/{n}, validation error {error} %\n"
    log = read(trained + "".join(tested.format(e=e, n=length, error=9.5 - e) for e in range(1, 9)))
    assert kinds(log) == doubts


@pytest.mark.parametrize(("samples", "doubts"), [(32, ["two-counters"]), (1, [])])
def test_evaluations_that_count_samples_beside_records_that_count_updates_are_doubtful(
    samples: int, doubts: list[str], read: Read
) -> None:
    """The last record may be of a step beyond most of them."""
    pass_ = "update {n}: loss = {loss:.4f}\neval after {at}: val_loss = {loss:.4f}\n"
    log = read("".join(pass_.format(n=n, at=samples * n, loss=2 + 1 / n) for n in range(10, 900, 20)))
    assert kinds(log) == doubts


def test_last_step_of_an_epoch_above_the_first_of_the_next_one_is_not_doubtful(read: Read) -> None:
    epochs = "".join(
        "".join(f"Epoch {e} step {step} loss {3 / e + 1 / step:.4f}\n" for step in range(10, 500, 10))
        + f"val at step 490: loss {3.1 / e:.4f}\n"
        for e in range(1, 8)
    )
    assert "two-counters" not in kinds(read(epochs))


@pytest.mark.parametrize(
    ("second", "doubted"), [("t2m_72h", ["3 values of val_t2m_24h_RMSE"]), ("z_850", []), ("t2m_24h", [])]
)
def test_value_whose_name_has_other_numbers_is_doubtful(second: str, doubted: list[str], read: Read) -> None:
    epoch = "Epoch {0}/9 | loss: 1.{0}\n  val t2m_24h RMSE: 2.{0}\nsaved\n\n  val {1} RMSE: 3.{0}\n"
    log = read("".join(epoch.format(e, second) for e in range(1, 4)))
    named = [doubt.evidence for doubt in log.doubts if doubt.what == "two-names"]
    assert [evidence.split(" stand")[0] for evidence in named] == doubted
