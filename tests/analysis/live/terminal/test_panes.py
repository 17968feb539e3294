"""The parts of one run's screen."""

import math
from dataclasses import replace
from datetime import timedelta

from gputel.analysis.live.terminal import panes
from gputel.analysis.live.terminal.snapshots import RunSnapshot
from gputel.analysis.live.view import RunCost
from tests.analysis.live.terminal.scenes import (
    AT,
    NAN,
    curve_points,
    d16_view,
    h100,
    screen_text,
    snapshot_of,
)


def test_upcoming_event_of_another_day_names_the_day() -> None:
    drawn = screen_text(snapshot_of(RunSnapshot(d16_view())))
    tomorrow = (AT + timedelta(days=1)).astimezone()
    assert f"end 1,000 {tomorrow:%a %d %b %H:%M}" in drawn


def test_cleared_alarm_is_shown_as_over() -> None:
    over = replace(NAN, state="off", step=820, text="loss is 2.4")
    drawn = screen_text(snapshot_of(RunSnapshot(d16_view(), [], [NAN, over])))
    assert "no alarms" in drawn
    assert "✓ over: NaN or infinite loss at step 820: loss is 2.4" in drawn


def test_many_gpus_are_shortened_and_the_rest_counted() -> None:
    drawn = screen_text(snapshot_of(RunSnapshot(d16_view(gpus=[h100(n) for n in range(8)]))))
    assert drawn.count("64°C") == 8 or "GPUs" in drawn
    assert "+" in screen_text(snapshot_of(RunSnapshot(d16_view(gpus=[h100(n) for n in range(64)]))))


def test_equal_neighboring_events_share_a_line() -> None:
    stop = {"kind": "stop", "step": 4, "time": None, "text": "SIGTERM, exiting"}
    drawn = screen_text(
        snapshot_of(RunSnapshot(d16_view(events=[{**stop, "step": 3, "text": "asked"}, stop, stop, stop])))
    )
    assert "step 3  stop asked" in drawn
    assert "step 4  stop ×3 SIGTERM, exiting" in drawn
    assert drawn.count("SIGTERM") == 1


def test_last_record_of_another_day_names_the_day() -> None:
    yesterday = (AT - timedelta(days=1)).astimezone()
    drawn = screen_text(snapshot_of(RunSnapshot(d16_view(silent_s=86_400.0))))
    assert f"last record {yesterday:%a %d %b %H:%M}" in drawn


def test_nan_loss_is_shown_as_nan() -> None:
    assert "loss nan" in screen_text(snapshot_of(RunSnapshot(d16_view(last={"loss": math.nan}))))


def test_loss_is_drawn_together_with_its_validation() -> None:
    head = panes.curve(d16_view(), "loss", 60, 8)[0].plain
    assert "● loss  ● val_loss" in head


def test_metric_without_points_says_so() -> None:
    assert panes.curve(d16_view(curves={}, evals={}), "loss", 60, 8)[0].plain.strip() == "nothing to draw yet"


def test_metrics_begin_with_the_most_important() -> None:
    curves = {name: curve_points([1.0, 2.0]) for name in ("lr", "grad_norm", "tok_per_sec", "loss")}
    assert panes.metrics([RunSnapshot(d16_view(curves=curves, evals={}))]) == [
        "loss",
        "tok_per_sec",
        "grad_norm",
        "lr",
    ]


def test_cost_over_budget_is_red() -> None:
    cost = RunCost(5.0, 120.0, None, 100.0, 2)
    (line,) = panes.progress(d16_view(cost=cost, upcoming=[]), AT, 300)
    red = [line.plain[span.start : span.end] for span in line.spans if span.style == "bold red"]
    assert red == ["$120.00 of $100.00"]


def test_cost_of_an_unknown_number_of_gpus_says_so() -> None:
    cost = RunCost(5.0, 120.0, None, None, None)
    (line,) = panes.progress(d16_view(cost=cost, upcoming=[]), AT, 300)
    assert "cost $120.00 (for one GPU: the log names no number, give --gpus)" in line.plain
