"""Records taken column by column are those taken line by line, and bars count by their last redraws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from gputel.analysis.logs.hits import Aside, HitRun
from gputel.analysis.logs.open_records import Columnwise

LOGS = {
    "rising": "".join(f"iter {i}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "restart": "".join(f"iter {i % 15}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "copies": "".join(f"iter {i // 2}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "evaluations": "".join(
        f"iter {i}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n"
        + f"step {i}: train loss {i}.25, val loss {i}.5\n" * (i % 5 == 0)
        for i in range(40)
    ),
    "evaluations without a step": "".join(
        f"step {i:5d} | loss: {9 - i}.500000 | lr 6.0000e-04 | norm: 0.5 | dt: 400.00ms | tok/sec: 1280000.00\n"
        + f"validation loss: {i}.2500\n" * (i % 12 == 5)
        + f"HellaSwag accuracy: {i}/100=0.2500\n" * (i % 12 == 5)
        for i in range(40)
    ),
    "ranks": "".join(
        f"[rank{i % 2}]: iter {i // 2}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)
    ),
    "stepless": "".join(f"{{'loss': {9 - i}.5, 'learning_rate': 1e-05, 'epoch': {i}.25}}\n" for i in range(40)),
    "too large": "".join(f"iter {i * 10**18}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(12)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_columns_at_once_give_the_rows_of_one_line_after_the_other(
    name: str, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = read(LOGS[name])
    monkeypatch.setattr(Columnwise, "take", lambda *_: False)
    by_line = read(LOGS[name])
    for frame in ("records", "evals", "partials"):
        left, right = getattr(at_once, frame), getattr(by_line, frame)
        assert left.equals(right.select(left.columns), null_equal=True), frame
    assert at_once.records.height >= 12


@pytest.mark.parametrize(("name", "most"), [("rising", 38), ("evaluations without a step", 32)])
def test_columns_at_once_take_most_of_a_log_that_only_rises(
    name: str, most: int, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = Columnwise.take

    def counted(self: Columnwise, run: HitRun, asides: list[Aside]) -> bool:
        done = take(self, run, asides)
        taken.append(done * (run.end - run.first))
        return done

    monkeypatch.setattr(Columnwise, "take", counted)
    read(LOGS[name])
    assert sum(taken) == most


def test_redraws_before_the_last_are_partial_rows(read: Callable[[str], Any]) -> None:
    bar = "\r 10%|#| 1/10 [00:01<00:09,  1.0it/s, loss={}]"
    log = read(bar.format(2.5) + bar.format(2.25) + bar.format(2.0) + "\n")
    assert log.records["loss"].to_list() == [2.0]
    assert log.partials["loss"].to_list() == [2.5, 2.25]


def test_bar_of_another_length_after_a_finished_epoch_is_a_test(read: Callable[[str], Any]) -> None:
    train = "Epoch 1/2\n" + "".join(f"{i}/10 [==>..] - ETA: 3s - loss: 0.{i}\r" for i in (5, 10)) + "\n"
    log = read(train + "4/4 [====] - 3s 2ms/step - loss: 0.75\n")
    assert log.records.height == 1
    assert log.evals.filter(pl.col("name") == "val_loss")["value"].to_list() == [0.75]


def test_training_of_another_length_begins_where_its_epochs_do(read: Callable[[str], Any]) -> None:
    """A second `fit` in one script, whose data has another size, is no test of the first."""
    bar = "{0}/{0} [==============================] - 1s 5ms/step - loss: {1}\n"
    fits = ["".join(f"Epoch {e}/3\n{bar.format(size, 1 / e)}" for e in (1, 2, 3)) for size in (100, 70)]
    log = read("".join(fits))
    assert log.records.select("attempt", "step").rows() == [(a, e) for a in (1, 2) for e in (1, 2, 3)]
    assert log.evals.height == 0


def test_bar_that_begins_once_more_below_its_epoch_is_another_record(read: Callable[[str], Any]) -> None:
    """The lines of later epochs are missing: no step is made up for their bars."""
    bar = "{0:3d}%|{1:10}| {0}/100 [00:01<00:01, 9.5it/s, loss=0.{2}]\n"
    epoch = "".join(bar.format(done, "#" * (done // 10), "{0}") for done in (10, 50, 100))
    log = read("Epoch 1/3\n" + "".join(epoch.format(loss) for loss in (75, 5, 25)))
    assert log.records.select("step", "loss").rows() == [(1, 0.75), (None, 0.5), (None, 0.25)]
    assert log.partials.height == 6
    whole = read("".join(f"Epoch {at + 1}/3\n" + epoch.format(loss) for at, loss in enumerate((75, 5, 25))))
    assert whole.records.select("step", "loss").rows() == [(1, 0.75), (2, 0.5), (3, 0.25)]
