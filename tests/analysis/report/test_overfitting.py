"""Overfitting: validation that rises while the training loss falls, and the best checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import polars as pl
import pytest

from gputel.analysis.report.overfitting import overfitting_verdict
from gputel.analysis.report.verdicts import Case, Verdict
from gputel.analysis.runs import RunData

Make = Callable[..., RunData]


def training(
    steps: int, loss: Callable[[int], float], validation: Callable[[int], float], saved: int = 100
) -> list[str]:
    """Validated every 50 steps; a checkpoint every so many."""
    lines = []
    for n in range(steps + 1):
        if n % 50 == 0:
            lines.append(f"Step {n:05d} | Validation loss: {validation(n):.4f}")
        if n % saved == 0 and n:
            lines.append(f"Saved model file to: out/model_{n:06d}.pt")
        lines.append(f"step {n:05d}/09999 (1.00%) | loss: {loss(n):.6f} | dt: 100.00ms | tok/sec: 1,000")
    return lines


def falling(n: int) -> float:
    return 4 - n / 500


def judged(subject: RunData) -> Verdict:
    return overfitting_verdict(Case(subject, pl.DataFrame(), pl.DataFrame()))


def turning(n: int) -> float:
    """Falls until step 400."""
    return falling(n) if n <= 400 else 3.2 + (n - 400) / 1000


def test_validation_that_rises_while_the_training_loss_falls(subject: Make) -> None:
    log = training(1000, falling, turning)
    found = judged(subject(log))
    assert found.answer == "yes"
    assert (found.facts["best_step"], found.facts["rises_from_step"]) == (400, 400)
    assert found.facts["checkpoint"] == {
        "step": 400,
        "path": "out/model_000400.pt",
        "overwritten": False,
    }
    assert (
        found.evidence[0] == "val_loss is best at step 400 with 3.2000; at the last, step 1,000, it is 3.8000"
    )
    assert "checkpoint of the best step: out/model_000400.pt" in found.evidence
    assert found.facts["gap_last"] == pytest.approx(3.8 - 2.05, abs=0.01)


def test_nearest_checkpoint_is_named_if_the_best_step_has_none(subject: Make) -> None:
    log = training(
        1000, lambda n: 4 - n / 500, lambda n: 4 - n / 500 if n <= 400 else 3.2 + (n - 400) / 1000, saved=300
    )
    found = judged(subject(log))
    assert (
        "no checkpoint of that step was printed; the nearest before it is of step 300: out/model_000300.pt"
        in found.evidence
    )


def test_checkpoint_before_the_best_step_is_preferred_to_a_nearer_one_after_it(subject: Make) -> None:
    lines = [
        line for line in training(1000, falling, turning) if "_000400" not in line and "_000300" not in line
    ]
    found = judged(subject(lines))
    assert found.facts["checkpoint"]["path"] == "out/model_000200.pt"


def test_checkpoint_after_the_best_step_is_not_offered_for_it(subject: Make) -> None:
    lines = [line for line in training(1000, falling, turning) if not re.search("_000[1-4]00", line)]
    found = judged(subject(lines))
    assert found.facts["checkpoint"] is None
    assert "no checkpoint with a path was printed up to that step" in found.evidence


def test_save_without_a_number_has_the_step_of_the_evaluation_above_it(subject: Make) -> None:
    """nanoGPT prints every tenth iteration, and saves right behind an evaluation that is the best so far."""
    lines = []
    for n in range(0, 501, 10):
        if n % 50 == 0:
            lines.append(f"step {n}: train loss {turning(n):.4f}, val loss {turning(n):.4f}")
            if n <= 300:
                lines.append("saving checkpoint to out")
        if n < 500:
            lines.append(f"iter {n}: loss {falling(n):.4f}, time 100.00ms, mfu 40.00%")
    checkpoint = judged(subject(lines)).facts["checkpoint"]
    assert checkpoint == {"step": 300, "path": "out", "overwritten": False}


def test_checkpoint_that_a_later_step_overwrote_is_said_to_be_overwritten(subject: Make) -> None:
    lines = [re.sub(r"out/model_\d+.pt", "out-owt", line) for line in training(1000, falling, turning)]
    found = judged(subject(lines))
    assert "the checkpoint of that step was overwritten at step 1,000: out-owt" in found.evidence


def test_validation_that_still_falls_is_no_overfitting(subject: Make) -> None:
    log = training(500, lambda n: 4 - n / 500, lambda n: 4 - n / 600)
    found = judged(subject(log))
    assert (found.answer, found.facts["best_step"]) == ("no", 500)
    assert found.evidence[0] == "val_loss is best at its last, step 500: 3.1667"


def test_noise_is_no_rise(subject: Make) -> None:
    log = training(
        1000, lambda n: 3.0, lambda n: 3 + (0.05 if n // 50 % 2 else 0.0) + (0.01 if n > 500 else 0)
    )
    assert judged(subject(log)).answer == "no"


def test_both_losses_rising_is_instability(subject: Make) -> None:
    found = judged(subject(training(1000, turning, turning)))
    assert found.answer == "no"
    assert (
        found.evidence[-1]
        == "validation and training loss rise together: that is instability, not overfitting"
    )


def test_few_validations_are_unknown(subject: Make) -> None:
    found = overfitting_verdict(
        Case(subject(training(100, lambda n: 3.0, lambda n: 3.0)), pl.DataFrame(), pl.DataFrame())
    )
    assert (found.answer, found.evidence) == (
        "unknown",
        ("fewer than 4 validation losses of one phase were printed",),
    )


def attempts(*each: tuple[range, float]) -> Iterator[str]:
    """Attempts of one phase: their steps, and by how much a validation every ten steps falls in each."""
    for steps, falls in each:
        for n in steps:
            yield f"step {n} | loss: {4 - n / 500:.6f} | dt: 100.00ms"
            if n % 10 == 0:
                yield f"Step {n} | Validation loss: {4 - falls * n:.4f}"


def test_attempt_that_began_again_is_judged_by_itself(subject: Make) -> None:
    """Three attempts: together they would have thirty validation losses, and the last alone has three."""
    found = judged(subject(attempts((range(300), 0.001), (range(200), 0.002), (range(25), 0.003))))
    few = "fewer than 4 validation losses of one phase were printed since its last restart"
    assert (found.answer, found.evidence) == ("unknown", (few,))
    never = judged(subject(attempts((range(25), 0.001), (range(15), 0.002))))
    assert never.evidence == ("fewer than 4 validation losses of one phase were printed",)
    enough = judged(subject(attempts((range(300), 0.001), (range(55), 0.003))))
    assert (enough.answer, enough.facts["best_step"], enough.facts["last_step"]) == ("no", 50, 50)


def test_run_that_went_on_is_judged_as_one_but_not_called_sound_by_its_past(subject: Make) -> None:
    early = judged(subject(attempts((range(300), 0.001), (range(251, 275), 0.001))))
    assert early.answer == "unknown"
    assert early.evidence[-1] == "only 2 validation losses were printed since the last resume"
    assert early.facts["last_step"] == 270  # what the first attempt did behind step 251 was thrown away
    later = judged(subject(attempts((range(300), 0.001), (range(251, 400), 0.001))))
    assert (later.answer, later.facts["best_step"]) == ("no", 390)
