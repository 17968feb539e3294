"""Figures above the line that closes their block are of the step that it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log
from tests.analysis.logs.infer.epochs import EPOCHS, log_of

Read = Callable[[str], Log]


@pytest.mark.parametrize(
    ("lines", "each"),
    [
        ("loss: {loss:.4f}\nlr: {lr:.2e}\n[finished step {s}]\n", 10),
        ("  loss: {loss:.4f}\n  acc: {acc:.3f}\n--- end of step {s} ---\n", 10),
        ("loss: {loss:.4f}\nStep {s} done in 3.2s\n", 10),
        ("train loss {loss:.4f}\nval loss {val:.4f}\nEpoch {e} finished\n", 1),
        ("Training...\nloss: {loss:.4f}\naccuracy: {acc:.3f}\nEpoch {e}/30 completed in 12.3s\n", 1),
        ("loss = {loss:.4f}\nacc = {acc:.3f}\n========= Epoch {e} =========\n", 1),
    ],
)
def test_figures_are_of_the_step_below_them(lines: str, each: int, read: Read) -> None:
    log = read(log_of(lines))
    assert log.records["step"].to_list() == [each * e for e in EPOCHS]
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]
    losses = log.evals.filter(name="val_loss")
    assert losses["step"].to_list() == [e for e in EPOCHS if "val" in lines]
    assert losses["value"].to_list() == [round(3.3 / e, 4) for e in EPOCHS if "val" in lines]


@pytest.mark.parametrize(
    "lines",
    [
        "[step {s}]\nloss: {loss:.4f}\nlr: {lr:.2e}\n",
        "Epoch {e}\nloss: {loss:.4f}\nEpoch {e} finished\n",
        "Epoch {e}\n  loss: {loss:.4f}\n  acc: {acc:.3f}\nTime taken: 3.2s\n",
    ],
)
def test_figures_below_a_header_are_of_its_step(lines: str, read: Read) -> None:
    log = read(log_of(lines))
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]
    assert log.records["step"].to_list() == [10 * e if "{s}" in lines else e for e in EPOCHS]


def test_headers_of_a_log_without_its_beginning_are_no_footers(read: Read) -> None:
    text = log_of("[step {s}]\nloss: {loss:.4f}\n", range(20, 50)).partition("\n")[2] + "[step 500]\n"
    log = read(text)
    known = log.records.filter(log.records["step"].is_not_null())
    assert known["loss"].to_list() == [round(3 / e, 4) for e in range(21, 50)]
    assert known["step"].to_list() == [10 * e for e in range(21, 50)]


def passes(below: str, epochs: range, above: str = "") -> str:
    """Three batches of each epoch, with a line above and one below them."""
    batches = "".join(f"Batch {batch}/300, Loss: {{loss{batch}:.4f}}\n" for batch in (0, 100, 200))
    return "".join(
        (above + batches + below).format(
            e=e, val=3.3 / e, **{f"loss{batch}": 3 / (e + batch / 300) for batch in (0, 100, 200)}
        )
        for e in epochs
    )


@pytest.mark.parametrize(
    "below",
    [
        "Epoch {e}/30:\n  Val Loss: {val:.4f}\n  Time: 3.2s\n",
        "Finished epoch {e}\nVal Loss: {val:.4f}\n",
        "Epoch [{e}/30] - val loss: {val:.4f}\n",
    ],
)
def test_batches_are_of_the_epoch_below_them(below: str, read: Read) -> None:
    log = read(passes(below, EPOCHS))
    assert log.records["epoch"].to_list() == [e for e in EPOCHS for _ in range(3)]
    assert log.records["attempt"].n_unique() == 1
    losses = log.evals.filter(name="val_loss")
    assert losses["step"].to_list() == ([*EPOCHS] if "- val" in below else [200] * 30)
    assert losses["value"].to_list() == [round(3.3 / e, 4) for e in EPOCHS]
    assert not log.doubts


def test_batches_are_of_the_epoch_above_them_although_its_first_line_is_lost(read: Read) -> None:
    text = passes("", EPOCHS, above="Epoch {e}/30:\n").removeprefix("Epoch 1/30:\n")
    assert read(text).records["epoch"].to_list()[3:] == [e for e in EPOCHS[1:] for _ in range(3)]


def test_batches_of_a_log_that_is_cut_at_its_beginning_are_of_the_epoch_below_them(read: Read) -> None:
    text = passes("Epoch {e}/30:\n", range(7, 12)).removeprefix("Batch 0/300, Loss: 0.4286\n")
    assert read(text).records["epoch"].to_list() == [e for e in range(7, 12) for _ in range(3)][1:]
