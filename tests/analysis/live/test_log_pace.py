"""How fast a followed log goes, by what it prints and by its timestamps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from gputel.analysis.live.log_pace import LogPace
from gputel.analysis.live.log_state import LogState
from gputel.analysis.logs.incremental import Increments

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
EVAL, SAVE = "validation loss: 2.5", "saved checkpoint to out/step_{}.pt"


def run(
    steps: int,
    step_s: float,
    eval_every: int = 999,
    eval_s: float = 0.0,
    save_every: int = 999,
    save_s: float = 0.0,
)  -> Iterator[tuple[float, str, float | None]]:  # fmt: skip
    """When each line of a run is printed, in seconds, and the step time in it, where it has one."""
    now = 0.4
    for step in range(steps):
        if step and step % eval_every == 0:
            now += eval_s
            yield now, EVAL, None
        if step and step % save_every == 0:
            now += save_s
            yield now, SAVE.format(step), None
        now += step_s * (1 + 0.01 * (step % 3 - 1))
        yield now, f"step {step}/900 | loss: 2.{step:03d}", step_s


def pace_of(
    lines: Iterator[tuple[float, str, float | None]], *, dt: bool, pieces: int = 1
) -> tuple[LogPace, int]:
    """Follows the lines with whole-second timestamps, in one piece or line by line."""
    growing, log = Increments(), LogState()
    texts = [
        f"{NOW + timedelta(seconds=int(at)):%Y-%m-%d %H:%M:%S} {line}"
        + (f" | dt: {1000 * step_s:.2f}ms" if dt and step_s else "")
        for at, line, step_s in lines
    ]
    for piece in [texts] if pieces == 1 else [[text] for text in texts]:
        growing.feed("".join(f"{text}\n" for text in piece).encode())
        log.take(growing.take(NOW), 0.0, live=False)
    return log.pace, log.step or 0


@pytest.mark.parametrize("dt", [True, False])
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("step_s", [0.31, 0.645, 1.217, 2.94])
def test_whole_second_stamps_do_not_round_the_time_of_a_step(step_s: float, dt: bool, pieces: int) -> None:
    pace, _ = pace_of(run(60, step_s), dt=dt, pieces=pieces)
    assert pace.seconds_a_step() == pytest.approx(step_s, rel=0.001 if dt else 0.06)


def test_time_ahead_counts_rare_evaluations_beside_frequent_saves() -> None:
    pace, step = pace_of(run(221, 0.3, eval_every=100, eval_s=15.0, save_every=40, save_s=1.4), dt=True)
    assert pace.seconds_ahead(200, step) == pytest.approx(200 * (0.3 + (2 * 15 + 5 * 1.4) / 220), rel=0.02)


def test_pauses_shorter_than_a_second_count_where_a_line_explains_them() -> None:
    pace, step = pace_of(run(201, 0.3, eval_every=20, eval_s=0.7), dt=True)
    assert pace.seconds_ahead(200, step) == pytest.approx(200 * 0.3 + 10 * 0.7, rel=0.05)


def test_single_stall_that_no_line_explains_counts_as_a_few_pauses() -> None:
    def stalled() -> Iterator[tuple[float, str, float | None]]:
        for at, line, step_s in run(201, 0.3, eval_every=20, eval_s=5.0):
            yield at + 7200 * ("step " in line and int(line.split("/")[0][5:]) > 110), line, step_s

    pace, step = pace_of(stalled(), dt=True)
    assert 200 * 0.3 + 10 * 5 <= (pace.seconds_ahead(200, step) or 0) <= 200 * 0.3 + 14 * 5


def test_evaluation_behind_every_second_step_is_no_part_of_the_step() -> None:
    """Half the printed times hold one."""

    def held() -> Iterator[tuple[float, str, float | None]]:
        for at, line, step_s in run(60, 2.9, eval_every=2, eval_s=2.8):
            behind = step_s is not None and int(line.split("/")[0][5:]) % 2 == 0
            yield at, line, step_s and step_s + 2.8 * behind

    pace, step = pace_of(held(), dt=True)
    assert pace.seconds_a_step() == pytest.approx(2.9, rel=0.01)
    assert pace.seconds_ahead(60, step) == pytest.approx(60 * 2.9 + 30 * 2.8, rel=0.05)


@pytest.mark.parametrize("pieces", [1, 2])
def test_without_printed_times_gaps_with_an_evaluation_do_not_count(pieces: int) -> None:
    pace, _ = pace_of(run(62, 2.94, eval_every=2, eval_s=6.0), dt=False, pieces=pieces)
    assert pace.seconds_a_step() == pytest.approx(2.94, rel=0.06)
