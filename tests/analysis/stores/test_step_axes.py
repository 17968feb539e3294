"""Tags of one store that count different things become two phases, and are never joined by their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gputel.analysis import stores
from gputel.analysis.logs.log import DEFAULT_PHASE
from gputel.analysis.stores.points import from_rows
from gputel.analysis.stores.step_axes import step_axes
from tests.analysis.stores.compose_events import event, simple, version
from tests.analysis.stores.test_tensorboard import write

BATCHES, A_EPOCH, START = 1000, 100, 1.7e9


def both(every: int) -> bytes:
    """A loss of batches, a second for each, and an evaluation whose step is the epoch."""
    content = version()
    for batch in range(1, BATCHES + 1):
        if batch % every == 0:
            content += event(batch, [simple("loss/train", 5 - batch / 1000)], START + batch)
        if batch % A_EPOCH == 0:
            values = [simple("epoch/loss", 4.0), simple("loss/val", 9 - batch / 1000)]
            content += event(batch // A_EPOCH, values, START + batch + 0.5)
    return content


@pytest.mark.parametrize("every", [1, 50], ids=["every batch", "every 50th"])
def test_epochs_beside_batches_are_a_phase_of_their_own(tmp_path: Path, every: int) -> None:
    log = stores.read(write(tmp_path / "tb", both(every)))
    batches = log.records.filter(log.records["phase"] == DEFAULT_PHASE)
    assert batches["step"].to_list() == list(range(every, BATCHES + 1, every))
    assert set(log.evals["phase"]) == {"epochs"}
    assert log.evals["step"].to_list() == list(range(1, 11))
    assert log.evals["value"][-1] == pytest.approx(8.0)
    (note,) = (note for note in log.notes if "count different things" in note)
    assert "loss/val go to 10 and those of loss/train to 1,000" in note
    lines = [*log.records["line"], *log.evals["line"]]
    assert len(set(log.records["line"])) == log.records.height
    assert max(lines) >= log.records.height


def test_tag_that_ends_early_is_of_the_same_count(tmp_path: Path) -> None:
    content = version()
    for batch in range(1, 1001):
        values = [
            simple("loss", 5.0),
            *([simple("warmup/rate", 0.1)] if batch < 100 and batch % 3 == 0 else []),
        ]
        content += event(batch, values, START + batch)
    log = stores.read(write(tmp_path / "tb", content))
    assert set(log.records["phase"]) == {DEFAULT_PHASE}
    assert log.notes == ()


def test_evaluation_at_some_batches_is_of_the_same_count(tmp_path: Path) -> None:
    content = version()
    for batch in range(1, 1001):
        content += event(batch, [simple("loss", 5.0)], START + batch)
        if batch in (3, 50, 150):
            content += event(batch, [simple("val/loss", 5.0)], START + batch + 0.2)
    assert set(stores.read(write(tmp_path / "tb", content)).evals["phase"]) == {DEFAULT_PHASE}


@pytest.mark.parametrize(("every", "phases"), [(50, 2), (1, 1)])
def test_without_moments_steps_of_neither_must_be_those_of_the_other(every: int, phases: int) -> None:
    rows = [(batch, 0, {"loss": 1.0}) for batch in range(every, 1001, every)]
    epochs = [(epoch, 0, {"val_loss": 2.0}) for epoch in range(10)]
    axes, notes = step_axes(from_rows([*rows, *(epochs if every > 1 else epochs[1:])]))
    assert (len(axes), len(notes)) == (phases, phases - 1)
    assert sum(len(axis.points) for axis in axes) == len(rows) + len(epochs[1:]) + (every > 1)


def test_store_without_values_has_one_count() -> None:
    axes, notes = step_axes(from_rows([]))
    assert [len(axis.points) for axis in axes] == [0]
    assert notes == ()
    assert np.array_equal(axes[0].points.step, [])
