"""Lines of ranks that take turns give the same rows rank by rank as line by line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.analysis.logs import rank_turns, result
from gputel.analysis.logs.hits import HitRun
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser

PREFIXES: dict[str, Callable[[int, int], str]] = {
    "ranks": lambda rank, _: f"[rank{rank}]: ",
    "ranks of two widths": lambda rank, _: f"{rank + 7}: ",
    "hosts": lambda rank, _: f"node-{rank}: ",
    "stamps": lambda rank, at: f"[rank{rank}]: 2026-03-01 {at // 60 % 24:02d}:{at % 60:02d}:00 ",
    "clocks over midnight": lambda rank, at: f"[rank{rank + 5}]: {at // 2 % 24:02d}:{at % 2 * 30:02d}:00 ",
    "ranks that all differ in more": lambda rank, at: f"[rank{rank}]: {'abc'[at % 3]}: ",
    "some without a rank": lambda rank, at: f"[rank{rank}]: " if at % 40 else "",
}


def parse(text: str, piece: int = 1 << 20) -> Log:
    parser = make_parser()
    data = text.encode()
    for start in range(0, len(data), piece):
        parser.feed(data[start : start + piece])
    parser.finish()
    return result.conclude(parser, "run", "run.log")


def line_by_line(text: str) -> Log:
    with mock.patch.object(rank_turns, "SHORTEST", len(text)):
        return parse(text)


def iteration(step: int, loss: float) -> str:
    return f"iter {step}: loss {loss:.4f}, time 200.12ms, mfu 45.00%\n"


def in_turns(
    prefix: Callable[[int, int], str], ranks: int, rounds: int, rng: random.Random, mishaps: int
) -> Iterator[str]:
    """Rounds of all ranks in any order; a mishap is a restart, a lost line, a copy, or an evaluation."""
    steps = [0] * ranks
    at = 0
    for turn in range(rounds):
        mishap = (
            rng.choice(("restart", "lost", "copy", "eval", "gone")) if rng.random() * 100 < mishaps else ""
        )
        if mishap == "restart":
            steps = [max(step - 5, 0) for step in steps]
        if mishap == "eval":
            yield f"step {steps[0]}: train loss 1.5289, val loss 1.7201\n"
        for rank in rng.sample(range(ranks), ranks):
            at += 1
            if (mishap == "gone" or turn * 3 > rounds * 2) and rank == 1:
                continue
            if mishap != "lost" or rng.random() < 0.5:
                yield prefix(rank, at) + iteration(steps[rank], rng.gauss(3, 1))
            steps[rank] += mishap != "copy"


def assert_same(log: Log, expected: Log) -> None:
    assert log.places == expected.places
    for name in ("records", "evals", "partials"):
        ours, theirs = getattr(log, name), getattr(expected, name)
        assert isinstance(ours, pl.DataFrame)
        assert ours.equals(theirs), name


@pytest.mark.parametrize("prefix", PREFIXES)
@given(
    st.integers(2, 5), st.integers(20, 90), st.sampled_from([0, 0, 3, 10]), st.randoms(use_true_random=False)
)
@settings(deadline=None, max_examples=12)
def test_ranks_in_turns_give_the_rows_of_line_by_line(
    prefix: str, ranks: int, rounds: int, mishaps: int, rng: random.Random
) -> None:
    text = "".join(in_turns(PREFIXES[prefix], ranks, rounds, rng, mishaps))
    assert_same(parse(text), line_by_line(text))


@pytest.mark.parametrize("rounds", [12, 15])
def test_clock_is_read_once_also_where_lines_are_too_few_to_tell_ranks_apart(rounds: int) -> None:
    """A clock that was read before would seem to have passed midnight, behind the line above."""
    text = "[rank0]: 00:00:00 iter 0: loss 3.6000, time 200.12ms\n" + "".join(
        f"[rank{at % 3}]: {at // 2:02d}:{at % 2 * 30:02d}:00 " + iteration(1 + at // 3, 3.5)
        for at in range(3 * rounds)
    )
    log = parse(text)
    assert_same(log, line_by_line(text))
    assert (log.records["time"][-1] - log.records["time"][0]).total_seconds() < 24 * 3600


def test_pieces_give_the_rows_of_the_whole() -> None:
    text = "".join(in_turns(PREFIXES["stamps"], 4, 200, random.Random(1), 2))
    assert_same(parse(text, 3000), line_by_line(text))


@pytest.mark.parametrize(
    ("prefix", "together"), [("ranks", True), ("stamps", True), ("some without a rank", False)]
)
def test_most_lines_are_taken_by_columns(prefix: str, together: bool) -> None:
    runs: list[HitRun] = []

    def counted(*arguments: object) -> Iterator[HitRun]:
        found = list(by_rank(*arguments))  # type: ignore[arg-type]
        runs.extend(found)
        return iter(found)

    by_rank = rank_turns.by_rank
    with mock.patch.object(rank_turns, "by_rank", counted):
        parse("".join(in_turns(PREFIXES[prefix], 8, 100, random.Random(1), 0)))
    assert (max(run.end - run.first for run in runs) == 99) == together
