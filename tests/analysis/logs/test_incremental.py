"""A log that grows: what is handed out piece by piece is what the finished log is parsed to."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from itertools import pairwise

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from gputel.analysis.logs import result
from gputel.analysis.logs.incremental import Increment, Increments
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser
from tests.analysis.logs.scraps import SCRAPS

LATEST = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
TABLES = ("records", "evals", "partials", "events")
UNDATED = re.compile(rb"(?:^|\n)\d\d:\d\d:\d\d,")
LINES = [
    *SCRAPS,
    b"step 00002/00900 (0.22%) | loss: 9.5 | dt: 658.60ms | tok/sec: 796,060 | mfu: 49.75 | total time: 0.02m\n",
    b"[rank1]: iter 30: loss nan, time 42.97ms, mfu 20.00%\n",
    b"[rank1]: iter 40: loss 3.5, time 42.97ms, mfu 20.00%\n",
    b"23:59:58,250 - step:  8  loss:  8.02346  memory: 47.51GiB(59.97%)  tps: 6,183  mfu: N/A\n",
    b"00:00:01,250 - step:  9  loss:  8.02346  memory: 47.51GiB(59.97%)  tps: 6,183  mfu: N/A\n",
    b"=== SFT ===\n",
    b"Step 00012/00650 | Training loss: 0.843| lrm: 0.98| num_tokens: 12,345\n",
]
UNKNOWN = [
    b"[it 10] cross_entropy -> 3.5 @ lr 0.1 (1234 tok/s)\n",
    b"[it 20] cross_entropy -> 3.4 @ lr 0.1 (1234 tok/s)\n",
    b"[it 30] cross_entropy -> 3.25 @ lr 0.1 (1239 tok/s)\n",
    b"[it 40] cross_entropy -> nan @ lr 0.2 (1231 tok/s)\n",
    b"held-out cross_entropy after 40: 3.75\n",
]


def parsed(data: bytes) -> Log:
    parser = make_parser()
    parser.feed(data)
    parser.finish()
    return result.conclude(parser, "x", "x.log", LATEST)


def taken(data: bytes, cuts: list[int], now: list[float] | None = None) -> tuple[list[Increment], Increments]:
    """Every piece is followed by an asking."""
    moments = iter(now or [])
    growing = Increments(now=lambda: next(moments, 0.0))
    found = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        growing.feed(data[start:end])
        found.append(growing.take(LATEST))
    growing.finish()
    return [*found, growing.take(LATEST)], growing


def together(found: list[Increment]) -> dict[str, pl.DataFrame]:
    whole: dict[str, pl.DataFrame] = {}
    for increment in found:
        if increment.afresh:
            whole = {}
        for table in TABLES:
            frame = getattr(increment, table)
            before = [renamed(whole[table], increment)] if table in whole else []
            whole[table] = pl.concat([*before, frame], how="diagonal")
    return whole


def renamed(frame: pl.DataFrame, increment: Increment) -> pl.DataFrame:
    """Rows of earlier increments with the places that they have from now on."""
    if not increment.renamed or "phase" not in frame.columns:
        return frame
    places = [increment.renamed.get(place, place) for place in frame.select("phase", "attempt").iter_rows()]
    phases = pl.Series("phase", [phase for phase, _ in places], dtype=pl.String)
    attempts = pl.Series("attempt", [attempt for _, attempt in places], dtype=pl.Int64)
    return frame.with_columns(phases, attempts)


def assert_same(data: bytes, cuts: list[int]) -> None:
    log, (found, growing) = parsed(data), taken(data, cuts)
    whole = together(found)
    whole["evals"] = result.settled(whole["evals"], whole["records"])  # by what comes later
    for table in TABLES:
        theirs, ours = getattr(log, table), whole[table]
        assert set(ours.columns) == set(theirs.columns)
        by = ["line", "kind", "text"] if table == "events" else ["line"]
        ours, theirs = (
            frame.select(theirs.columns).sort(by, maintain_order=True) for frame in (ours, theirs)
        )
        if UNDATED.search(data):  # later stamps may tell the date of earlier ones
            ours, theirs = (frame.with_columns(pl.col("time").dt.time()) for frame in (ours, theirs))
        assert_frame_equal(ours, theirs, check_exact=True)
    assert growing.cause == (None if log.status == "unknown" else log.cause)  # a growing log is not cut off
    answer = [reject for increment in found for reject in increment.rejects]
    assert (
        sorted(answer, key=lambda reject: reject.line)[-len(log.rejects) :] == log.rejects or not log.rejects
    )


scraps = st.lists(st.sampled_from(LINES), max_size=40).map(b"".join)
strange = st.lists(st.sampled_from([*UNKNOWN, *SCRAPS[:2], *SCRAPS[-6:]]), max_size=60).map(b"".join)
cuts = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(scraps, cuts)
def test_increments_of_known_formats_add_up_to_the_whole_log(data: bytes, cuts: list[int]) -> None:
    assert_same(data, cuts)


def test_saves_of_one_number_around_a_fall_of_steps_are_the_same_events_while_the_log_grows() -> None:
    step, save = (
        b"step %05d/00900 | loss: 10.397165 | dt: 18077.85ms\n",
        b"saved checkpoint to out/ckpt_%d.pt\n",
    )
    data = save % 100 + step % 2 + save % 200 + step % 2 + step % 1 + save % 200 + save % 100
    assert_same(data, [len(data) - 1, 40, 128])
    assert_same(save % 100 + step % 0 + save % 100, [])


def test_step_beyond_all_integers_of_a_frame_is_null_while_the_log_grows() -> None:
    data = b"epoch 99999999999999999999999999 loss=2.3\nepoch 2: loss=2.2\n"
    found, _ = taken(data, [42])
    assert together(found)["records"]["step"].to_list() == parsed(data).records["step"].to_list()


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(strange, cuts)
def test_increments_of_an_inferred_format_add_up_to_the_whole_log(data: bytes, cuts: list[int]) -> None:
    assert_same(data, cuts)
