"""Events get the step before them, and are handed out once no later line can change them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from gputel.analysis.logs import events
from gputel.analysis.logs.events import EventTracker, LineRange
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.outcome import LogEvent


def records(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    names = ["phase", "attempt", "line", "step"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_line_ranges_stand_in_the_order_in_which_their_places_begin() -> None:
    frame = records(("base", 1, 3, 0), ("base", 1, 5, 1), ("mid", 1, 9, 0), ("base", 2, 12, 0))
    assert events.line_ranges(frame) == [
        LineRange(("base", 1), 1, 3, 5),
        LineRange(("mid", 1), 1, 9, 9),
        LineRange(("base", 2), 2, 12, 12),
    ]
    assert events.line_ranges(frame.clear()) == []


def test_traceback_waits_for_the_error_that_ends_it() -> None:
    tracker, frame = EventTracker(), records(("train", 1, 1, 10))
    done, waiting = tracker.take([LogEvent("traceback", 2, "", fatal="failed")], frame, [], ended=False)
    assert (done.events, [event.line for event in waiting.events]) == ([], [2])
    error = LogEvent("", 4, "RuntimeError: boom", fatal="failed")
    done, waiting = tracker.take([error], frame.clear(), [], ended=False)
    assert [(event.kind, event.text) for event in done.events] == [("traceback", "RuntimeError: boom")]
    assert (done.steps, waiting.events) == ([10], [])


def test_loss_that_stays_nan_is_one_event_until_it_is_finite_again(
    read: Callable[[str], Log], iteration: Callable[..., str]
) -> None:
    losses = ["3.0", "nan", "nan", "3.0", "inf"]
    log = read("".join(iteration(step, loss) for step, loss in enumerate(losses)))
    assert log.events.select("kind", "line", "step").rows() == [("nan", 2, 1), ("nan", 5, 4)]


def test_steps_that_begin_again_are_a_restart_unless_a_line_says_why(
    read: Callable[[str], Log], iteration: Callable[..., str]
) -> None:
    run = iteration(0, 3.0) + iteration(10, 2.5)
    assert read(run + run).events["kind"].to_list() == ["restart"]
    assert read(run + "Resuming from checkpoint\n" + run).events["kind"].to_list() == ["resume"]
