"""State of one followed log, and the events that come next."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from gputel.analysis.live.log_state import LogState, UpcomingEvent, upcoming
from gputel.analysis.logs.incremental import Increments

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
STEP = "step {:05d}/00900 (0.1%) | loss: {} | lrm: 1.00 | dt: 500.00ms | tok/sec: 796,060\n"


def log_of(text: str) -> LogState:
    growing, log = Increments(), LogState()
    growing.feed(text.encode())
    log.take(growing.take(NOW), 0.0, live=True)
    return log


def test_next_events_are_predicted_from_past_ones_with_their_dates() -> None:
    lines = [STEP.format(step, 5 - step / 1000) for step in range(251)]
    lines.insert(101, "saved checkpoint to out/ckpt_100.pt\n")
    lines.insert(202, "saved checkpoint to out/ckpt_200.pt\n")
    log = log_of("".join(lines))
    events = upcoming(log, 900, log.pace.seconds_a_step(), NOW, None)
    assert events == [
        UpcomingEvent("checkpoint", 300, NOW + timedelta(seconds=25)),
        UpcomingEvent("end", 900, NOW + timedelta(seconds=325)),
    ]


def test_event_seen_once_is_not_predicted() -> None:
    log = log_of(STEP.format(0, 5) + "saved checkpoint to out/ckpt_0.pt\n" + STEP.format(1, 5))
    assert upcoming(log, None, 0.5, NOW, None) == []


def test_overdue_event_is_not_predicted() -> None:
    lines = [STEP.format(step, 5) for step in range(0, 500, 50)]
    lines[2:2] = ["saved checkpoint to out/ckpt_50.pt\n"]
    lines[4:4] = ["saved checkpoint to out/ckpt_100.pt\n"]
    assert [event.kind for event in upcoming(log_of("".join(lines)), 900, 0.5, NOW, None)] == ["end"]


def test_time_per_step_is_the_printed_one() -> None:
    log = log_of("".join(STEP.format(step, 5) for step in range(0, 100, 10)))
    assert log.pace.seconds_a_step() == 0.5
    assert log.pace.seconds_a_record() == 5.0


def test_metrics_beyond_the_limit_have_no_curve_but_a_last_value() -> None:
    metrics = " | ".join(f"metric_{number}: {number}.5" for number in range(80))
    log = log_of(f"step 1/10 | loss: 2.5 | {metrics}\n" * 2)
    assert len(log.curves) <= 64
    assert log.last["metric_79"] == 79.5


def test_each_step_has_the_moment_at_which_it_was_done() -> None:
    stamped = "2026-11-21 12:{:02d}:00 step {}/100 | loss: {:.4f}\n"
    log = log_of("".join(stamped.format(step, step, 5 - step / 100) for step in range(10)))
    points = log.pace.moments.points()
    assert log.pace.first_at == datetime(2026, 11, 21, 12, tzinfo=timezone.utc).timestamp()
    assert points.step.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert points.largest.tolist() == [60 * step for step in range(9)]
