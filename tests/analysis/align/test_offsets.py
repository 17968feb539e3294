"""Clocks of nodes and ranks, from the steps that they share; and who keeps the others waiting."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.align import offsets
from gputel.analysis.align.clocks import ClockInterval
from gputel.analysis.runs import RunData
from tests.recordings.printed import step

MOMENT = pl.Datetime("ns")
STEPS = 40


def records(
    late_s: dict[str, Callable[[int], float]], dt_s: dict[str, float] | None = None, column: str = "rank"
) -> pl.DataFrame:
    """Steps of a second, printed by each source so much later than they ended."""
    rows = [
        ("base", 1, n, source, round((n + late(n)) * 1e9), 1000 * (dt_s or {}).get(source, 1.0))
        for n in range(STEPS)
        for source, late in late_s.items()
    ]
    frame = pl.DataFrame(rows, schema=["phase", "attempt", "step", column, "time", "dt_ms"], orient="row")
    return frame.with_columns(pl.col("time").cast(MOMENT))


def late_by(seconds: float) -> Callable[[int], float]:
    return lambda _: seconds


def test_offset_of_a_clock_is_the_median_of_what_lies_between_shared_steps() -> None:
    found = offsets.offsets(
        records({"0": lambda n: 0.0, "1": lambda n: 7.25 + (n % 3 - 1) / 1000}, column="node")
    )
    assert found["source"].to_list() == ["0", "1"]
    assert found["offset_s"].to_list() == pytest.approx([0, 7.25])
    assert found["spread_s"].to_list() == pytest.approx([0, 0.001], abs=1e-6)
    assert found["steps"].to_list() == [STEPS, STEPS]


def test_two_clocks_apart_make_no_straggler() -> None:
    found = offsets.offsets(records({"0": lambda n: 0.0, "1": lambda n: 7.25}, column="node"))
    assert offsets.stragglers(found) == []


def test_clock_of_a_machine_that_replaces_another_makes_no_straggler() -> None:
    """From step 24 on, after a restart, node 1 is another machine, whose clock is three seconds ahead."""
    both = records({"0": lambda n: 0.0, "1": lambda n: 3.0 * (n >= 24)}, column="node")
    restarted = both.with_columns(attempt=1 + (pl.col("step") >= 24).cast(pl.Int64))
    assert offsets.stragglers(offsets.offsets(restarted)) == []


@pytest.mark.parametrize(("error_s", "is_sure"), [(0.05, True), (0.15, False)])
def test_node_that_is_always_late_is_named_beyond_twice_the_uncertainty_of_the_clocks(
    error_s: float, is_sure: bool
) -> None:
    """Its clock is 7.25 s ahead, and it prints 0.4 s late; the error is that of two clocks."""
    found = offsets.delays(
        records({"0": late_by(0.0), "1": late_by(7.65), "2": late_by(0.01)}, column="node"),
        {str(n): ClockInterval(at - error_s, at + error_s) for n, at in enumerate((0.0, 7.25, 0.0))},
    )
    assert [delay.is_sure() for delay in found] == [False, is_sure, False]
    assert str(found[1]) == f"it prints a step 0.40 ±{2 * error_s:.2f} s after the others"


def test_delay_is_of_the_last_restart_and_of_the_last_hour() -> None:
    before, since = (
        records({"0": late_by(0.0), "1": late_by(late_s)}, column="node") for late_s in (7.0, 1.0)
    )
    hours_ago = before.with_columns(pl.col("time").dt.offset_by("-2h"))
    restarted, since = (
        before.with_columns(attempt=pl.lit(0, pl.Int64)),
        since.with_columns(step=pl.col("step") + STEPS),
    )
    clocks: dict[str | None, ClockInterval] = dict.fromkeys("01", ClockInterval(-0.1, 0.1))
    for earlier in (hours_ago, restarted):
        found = offsets.delays(pl.concat([earlier, since]), clocks)
        assert [delay.late_s for delay in found] == pytest.approx([-1.0, 1.0])


def test_same_delay_on_one_clock_makes_a_straggler() -> None:
    found = offsets.offsets(records({str(rank): late_by(0.2 * (rank // 3)) for rank in range(4)}))
    (named,) = offsets.stragglers(found, one_clock=True)
    assert (named.source, named.evidence) == ("3", "it prints a step 0.200 s after the others")


def test_rank_whose_steps_take_longer_is_named() -> None:
    found = offsets.offsets(records({rank: lambda n: 0.0 for rank in "0123"}, {"2": 1.2}))
    (named,) = offsets.stragglers(found)
    assert (named.source, named.evidence) == ("2", "its steps take 1.200 s, the others' 1.000 s")


def test_rank_that_is_late_now_and_then_is_named_by_how_often_it_comes_last() -> None:
    """Its clock is 3 s off, which is no delay; in two steps of five it is half a second late besides."""
    late: dict[str, Callable[[int], float]] = {
        "0": lambda n: 0.001 * (n % 2),
        "1": lambda n: 0.001 * (n % 3),
        "2": lambda n: 3.0 + (0.5 if n % 5 < 2 else 0.002),
    }
    (named,) = offsets.stragglers(offsets.offsets(records(late)))
    assert named.source == "2"
    assert named.evidence.startswith("it is last in ")
    assert named.evidence.endswith("of the steps, on average 0.199 s after the others")


def test_single_source_has_no_clock_to_compare() -> None:
    assert offsets.offsets(records({"0": lambda n: 0.0})).is_empty()
    assert offsets.stragglers(offsets.offsets(records({"0": lambda n: 0.0}))) == []


def test_nodes_of_one_recording_are_compared(recorded: Callable[..., RunData]) -> None:
    lines = [(10.0 + n, step(n, dt_ms=1000)) for n in range(20)]
    later = [(second + 2.5, line) for second, line in lines]
    subject = recorded([(0, 40, lines), (0, 40, later)], nodes=["0", "1"])
    assert offsets.offsets(subject.log.records)["offset_s"].to_list() == pytest.approx([0, 2.5])
