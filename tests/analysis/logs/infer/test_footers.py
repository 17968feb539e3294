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
