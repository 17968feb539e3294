"""A step ends when its work ends, not when the line about it comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.align.marks import log_marks
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import RunData, read_run
from tests.recordings.printed import step, validation

Recorded = Callable[..., RunData]
STEPS, EVERY, EVAL_S, LATE_S = 40, 10, 4.0, 0.8


def a_step_late(
    step_s: float = 1.0, last_s: float | None = None, late_s: float = LATE_S, timed: bool = True
) -> Iterator[tuple[float, str]]:
    """Steps with an evaluation before every tenth one; the last line before a pause comes at once."""
    now = 10.0
    for number in range(STEPS):
        if number and number % EVERY == 0:
            now += EVAL_S
            yield now, validation(number)
        alone = (number + 1) % EVERY == 0
        took = last_s if alone and last_s else step_s
        now += took
        yield now + (0 if alone else late_s), step(number, dt_ms=1000 * took if timed else None)


def seconds(subject: RunData, kind: str) -> list[float]:
    cut = cut_spans(subject).filter(kind=kind)
    return [round(value.total_seconds(), 3) for value in cut["end"] - cut["start"]]


@pytest.mark.parametrize("timed", [True, False])
def test_lines_that_come_late_move_to_the_ends_of_their_steps(timed: bool, recorded: Recorded) -> None:
    subject = recorded([(0, 80, list(a_step_late(timed=timed)))])
    assert seconds(subject, "train") == [1.0] * STEPS
    assert seconds(subject, "eval") == [EVAL_S] * 3
    assert seconds(subject, "start") == [10.0]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("late_s", [0.0, 0.05])
def test_lines_that_come_at_once_stay_where_they_are(recorded: Recorded, late_s: float, timed: bool) -> None:
    subject = recorded([(0, 80, list(a_step_late(late_s=late_s, timed=timed)))])
    assert timed_log(subject).records["time"].equals(subject.log.records["time"])


@pytest.mark.parametrize("timed", [True, False])
def test_short_step_before_an_evaluation_is_no_late_line(timed: bool, recorded: Recorded) -> None:
    """The last batch of an epoch is smaller."""
    subject = recorded([(0, 80, list(a_step_late(last_s=0.3, late_s=0.0, timed=timed)))])
    assert timed_log(subject).records["time"].equals(subject.log.records["time"])


@pytest.mark.parametrize("timed", [True, False])
def test_late_lines_of_whole_seconds_are_moved_by_what_all_stretches_lack(
    timed: bool, tmp_path: Path
) -> None:
    log, start = tmp_path / "train.log", datetime(2026, 10, 3, 7, 3, 19)
    lines = a_step_late(step_s=2.9, late_s=2.6, timed=timed)
    log.write_text(
        "".join(f"{start + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} {line}\n" for at, line in lines)
    )
    report = make_report(read_run(log))
    train = report.totals.filter(kind="train").row(0, named=True)
    assert train["duration_s"] == pytest.approx(STEPS * 2.9, abs=train["duration_error_s"])
    assert train["duration_error_s"] < 3


@pytest.mark.parametrize(("late_s", "start_s"), [(2.6, 10), (0.0, 10)])
def test_late_lines_of_whole_seconds_are_moved_in_a_log_without_any_pause(
    late_s: float, start_s: float, tmp_path: Path
) -> None:
    """The last line comes at once, within a second of the one before it, though its step took three."""
    log, start = tmp_path / "train.log", datetime(2026, 10, 3, 7, 3, 19)
    lines = [(0.0, "loading")]
    lines += [(start_s + 2.9 * (n + 1) + late_s * (n < 99), step(n, dt_ms=2900.0)) for n in range(100)]
    log.write_text(
        "".join(f"{start + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} {line}\n" for at, line in lines)
    )
    row = make_report(read_run(log)).totals.filter(kind="start").row(0, named=True)
    assert row["duration_s"] == pytest.approx(start_s, abs=2 * row["duration_error_s"])


def test_every_copy_of_a_late_line_is_moved(recorded: Recorded) -> None:
    lines = [
        (at + 0.0004 * rank, f"[rank{rank}]: {line}") if "loss:" in line and "Val" not in line else (at, line)
        for at, line in a_step_late()
        for rank in range(2 if "Val" not in line else 1)
    ]
    subject = recorded([(0, 80, lines)])
    marks = log_marks(subject, timed_log(subject))[None]
    trained = [mark.time for mark in marks if mark.kind == "train"]
    assert max(trained[place + 1] - trained[place] for place in range(8)) == pytest.approx(1e9, rel=0.01)


@pytest.mark.parametrize(("late_s", "error_s"), [(LATE_S, LATE_S), (0.0, 0.0)])
def test_range_holds_what_a_log_without_a_pause_cannot_tell(
    recorded: Recorded, late_s: float, error_s: float
) -> None:
    """The last line comes at once: either all others came late, or the last step was short."""
    lines = [(11.0 + number + (late_s if number < 39 else 0), step(number)) for number in range(40)]
    totals = make_report(recorded([(0, 60, lines)])).totals
    start = totals.row(by_predicate=pl.col("kind") == "start", named=True)
    assert start["duration_s"] == pytest.approx(10.0 + late_s)
    assert start["duration_error_s"] == pytest.approx(error_s, abs=0.01)
