"""The state of a followed run: where it stands, how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.live.view import Terms
from tests.analysis.live.scenes import (
    STEP,
    Clock,
    log_of,
    view_of,
)


def test_view_has_step_pace_and_cost(tmp_path: Path, clock: Clock) -> None:
    view = view_of(tmp_path, clock, log_of(range(201)), Terms(price=4.0, budget=1.0, gpus=8))
    assert (view.status, view.phase, view.step, view.total_steps) == ("unknown", "train", 200, 400)
    assert view.last["loss"] == 3.0
    assert view.seconds_a_step == 0.5
    assert view.eta_s == 100
    assert view.elapsed_s == pytest.approx(200 / 120 * 60, abs=0.5)
    assert view.cost.per_hour == 32
    assert view.cost.spent == pytest.approx(32 * view.elapsed_s / 3600)
    assert view.cost.is_over
    assert view.curves["loss"].least.min() == pytest.approx(3.01)
    assert len(view.evals["val_bpb"].step) >= 3
    assert [event.kind for event in view.upcoming][-1] == "end"


@pytest.mark.parametrize(
    ("text", "status", "cause"),
    [
        (log_of(range(400)), "completed", None),
        (
            log_of(range(9))
            + "Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n",
            "failed",
            "RuntimeError: CUDA out of memory.",
        ),
        (log_of(range(9)) + "KeyboardInterrupt\n", "interrupted", "KeyboardInterrupt"),
    ],
)
def test_view_has_the_status_and_its_cause(
    tmp_path: Path, clock: Clock, text: str, status: str, cause: str | None
) -> None:
    view = view_of(tmp_path, clock, text)
    assert (view.status, view.cause) == (status, cause)
    assert view.eta_s is None
    assert view.upcoming == []


def test_resumed_run_shows_its_later_attempt(tmp_path: Path, clock: Clock) -> None:
    later = "".join(STEP.format(step, 9.0, 1) for step in range(50, 60))
    view = view_of(tmp_path, clock, log_of(range(100)) + later)
    assert (view.attempt, view.step) == (2, 59)
    assert view.curves["loss"].step[-1] <= 59
    assert view.curves["loss"].largest.max() == 9.0
