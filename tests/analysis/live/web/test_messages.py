"""Messages to the page: all of them applied one after the other are the whole state."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.series import CurveHistory, Points
from gputel.analysis.live.state import RunState
from gputel.analysis.live.view import View
from gputel.analysis.live.web import messages
from gputel.analysis.live.web.messages import page_parts

VALUES = st.one_of(st.floats(-1e6, 1e6, width=32), st.just(math.nan))


def judge(**facts: Any) -> Any:
    return SimpleNamespace(**{"active": [], "history": [], **facts})


def view(**facts: Any) -> View:
    return replace(RunState("d16", "d16.log").view(), **facts)


def curve(values: list[float], first: int = 0) -> Points:
    grown = CurveHistory()
    grown.add(np.arange(first, first + len(values), dtype=np.float64), np.array(values))
    return grown.points()


def applied(before: dict[Any, Any], result: list[list[Any]]) -> dict[Any, Any]:
    """As the page does it."""
    known = dict(before)
    for run, kind, name, *rest in result:
        key = run, kind, name
        if len(rest) == 3:
            drop, keep, more = rest
            kept = known.get(key) or [[] for _ in more]
            known[key] = [had[drop : drop + keep] + new for had, new in zip(kept, more, strict=True)]
        elif rest[0] is None:
            del known[key]
        else:
            known[key] = rest[0]
    return known


def data(message: bytes) -> list[list[Any]]:
    (line,) = [line for line in message.decode().split("\n") if line.startswith("data: ")]
    result: list[list[Any]] = json.loads(line.removeprefix("data: "))
    return result


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(VALUES, max_size=12), st.booleans()), max_size=6))
def test_changes_applied_one_after_the_other_are_all_that_stands(
    turns: list[tuple[int, list[float], bool]],
) -> None:
    values: list[float] = []
    before: messages.Parts = {}
    known: dict[Any, Any] = {}
    for dropped, more, superseded in turns:
        values = (values[: len(values) // 2] if superseded else values[dropped:]) + more
        after = {
            (0, "strips", "/0"): np.array([values, values]).reshape(2, -1),
            (0, "facts", ""): len(values),
        }
        known = applied(known, data(messages.update(before, after, "x-1")))
        assert known == applied({}, data(messages.full_state(after, "x-1")))
        before = after


def test_curve_that_grows_costs_what_is_new() -> None:
    before = page_parts([(view(curves={"loss": curve([3.0] * 500)}), judge())])
    after = page_parts([(view(curves={"loss": curve([3.0] * 500 + [2.5])}), judge())])
    assert data(messages.update(before, after, "x-2")) == [
        [0, "curve", "loss", 0, 500, [[500], *[[2.5]] * 3]]
    ]


def test_strip_that_moves_on_costs_what_is_new() -> None:
    seconds = np.arange(600.0)
    before: messages.Parts = {(0, "strips", "/0"): np.stack([seconds, seconds])}
    after: messages.Parts = {(0, "strips", "/0"): np.stack([seconds + 2, seconds + 2])}
    assert messages.changes(before, after) == [[0, "strips", "/0", 2, 598, [[600, 601], [600, 601]]]]


def test_run_that_is_gone_is_removed_by_a_message() -> None:
    before = page_parts([(view(curves={"loss": curve([3.0])}), judge())])
    result = messages.changes(before, page_parts([(view(), judge())]))
    assert [0, "curve", "loss", None] in result


def test_thinned_curve_keeps_every_extreme_and_its_beginning_stands_while_it_grows() -> None:
    values = np.sin(np.arange(2000.0)).tolist()
    values[777] = 50.0
    short, long = (messages.thinned(curve(values[:size]), 256) for size in (1999, 2000))
    assert len(long.step) <= 256
    assert (long.largest.max(), long.least.min()) == (50.0, min(values))
    assert long.step[-1] == 1999
    assert np.array_equal(short.mean[:-1], long.mean[:-1])


def test_many_runs_have_no_more_points_together_than_one_has_room_for() -> None:
    points = curve([1.0] * 2000)
    runs = [(view(curves={"loss": points, "mfu": points}), judge()) for _ in range(100)]
    found = page_parts(runs)
    assert sum(part.shape[1] for key, part in found.items() if key[1] == "curve") <= messages.MOST_POINTS


def test_validation_lies_on_the_panel_of_its_loss_and_first_come_the_known_metrics() -> None:
    points = curve([1.0])
    named = {"mine": points, "mfu": points, "loss": points}
    shown = page_parts([(view(curves=named, evals={"val_loss": points}), judge())])[
        messages.PAGE, "panels", ""
    ]
    assert [panel["name"] for panel in shown] == ["loss", "mfu", "mine"]
    assert [series["name"] for series in shown[0]["series"]] == ["loss", "val_loss"]


@pytest.mark.parametrize(("count", "is_cut"), [(12, False), (14, True)])
def test_page_says_that_more_metrics_were_printed_than_it_draws(count: int, *, is_cut: bool) -> None:
    found = page_parts([(view(curves={f"m{n}": curve([1.0]) for n in range(count)}), judge())])
    assert len(found[messages.PAGE, "panels", ""]) == messages.MOST_METRICS
    assert found[messages.PAGE, "is_cut", ""] == is_cut


@pytest.mark.parametrize(("value", "said"), [(math.nan, "NaN"), (math.inf, "∞"), (-math.inf, "-∞")])
def test_loss_that_is_no_number_is_written_in_words(value: float, said: str) -> None:
    facts = page_parts([(view(last={"loss": value}), judge())])[0, "facts", ""]
    assert facts["last"] == {"loss": said}
    json.dumps(facts, allow_nan=False)


def test_alarms_and_events_are_sent_and_what_looks_like_a_key_is_masked() -> None:
    secret = "hf_" + "aBcDeFgH12345678" * 2
    alarm = Alarm("nan", "NaN or infinite loss", "on", "", "loss is NaN", 7, None)
    events = [{"kind": "stop", "step": 7, "time": None, "text": f"token={secret} was refused"}]
    found = page_parts([(view(events=events), judge(active=[alarm], history=[alarm]))])
    assert found[0, "facts", ""]["alarms"] == ["NaN or infinite loss at step 7: loss is NaN"]
    assert found[0, "alarms", ""][0][0] == "alarm"
    assert secret not in messages.full_state(found, "x-1").decode()


def test_line_feed_in_a_name_is_no_line_feed_of_the_message() -> None:
    message = messages.full_state(page_parts([(view(name="a\ndata: []\n\nevent: whole"), judge())]), "x-1")
    assert message.count(b"\n") == 4
    assert any(part[3]["name"].startswith("a\n") for part in data(message) if part[1] == "facts")


def test_recovery_is_no_alarm_and_each_alarm_stands_once() -> None:
    """The recorder's file has the alarms that were raised; this session has judged one of them itself."""
    on = Alarm("nan", "NaN or infinite loss", "on", "", "loss is NaN", 7, 1.0)
    facts = {"kind": "alarm", "time": None, "rule": "nan", "what": "NaN or infinite loss", "key": ""}
    recorded = [
        {**facts, "state": "on", "step": 7, "text": "loss is NaN"},
        {**facts, "state": "off", "step": 9, "text": "loss is 2.5"},
    ]
    parts = page_parts([(view(events=recorded), judge(active=[], history=[on]))])
    assert parts[0, "events", ""] == [["over", 9, None, "NaN or infinite loss: loss is 2.5"]]
    assert [kind for kind, *_ in parts[0, "alarms", ""]] == ["alarm"]
