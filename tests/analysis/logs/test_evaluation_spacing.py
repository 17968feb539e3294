"""Evaluations between two records, of which their spacing says which one is meant."""

from __future__ import annotations

import io

import pytest

from gputel.analysis.logs import files
from gputel.analysis.logs.log import Log


def read(evaluate_below: list[int], every: int = 50, last: int = 1000, first: int = 0) -> Log:
    """Records, with an evaluation below some of them."""
    lines = []
    for step in range(first, last + 1, every):
        lines.append(f"iter {step} | train 2.{step:04d}")
        if step in evaluate_below:
            lines += ["---", f"  held-out nll: 3.{step:04d}"]
    return files.stream(io.BytesIO("\n".join(lines).encode() + b"\n"), "a", "a")


def places(log: Log) -> list[tuple[int | None, int | None]]:
    return list(log.evals.select("step", "after").iter_rows())


def test_evaluations_that_only_the_steps_above_space_evenly_are_of_these() -> None:
    assert places(read([200, 400, 600, 800])) == [(200, None), (400, None), (600, None), (800, None)]


@pytest.mark.parametrize(
    "below",
    [
        [150, 350, 550, 750],  # printed above the records of 200, 400, 600 and 800
        [150, 300, 600, 800],  # evenly apart either way, or neither
        [200, 400],  # too few
        [350, 700],
    ],
)
def test_others_are_left_between_two_records(below: list[int]) -> None:
    assert places(read(below)) == [(step + 50, step) for step in below]


def test_evaluation_below_the_last_record_counts_as_well() -> None:
    assert places(read([500, 1000], every=100))[-1] == (1000, None)
    assert places(read([400, 800, 1200], every=100, last=1200)) == [(400, None), (800, None), (1200, None)]


def test_evaluation_below_each_record_is_of_it() -> None:
    every = [*range(0, 1001, 50)]
    assert places(read(every)) == [(step, None) for step in every]


def test_evaluation_below_each_record_but_the_first_is_of_it() -> None:
    assert places(read([*range(50, 1001, 50)])) == [(step, None) for step in range(50, 1001, 50)]
    without_last = [*range(50, 1000, 50)]
    assert places(read(without_last)) == [(step + 50, step) for step in without_last]


def test_evaluation_above_each_record_is_of_it() -> None:
    every = [*range(0, 1001, 50)]
    text = "".join(f"  held-out nll: 3.{step:04d}\n---\niter {step} | train 2.{step:04d}\n" for step in every)
    log = files.stream(io.BytesIO(text.encode()), "a", "a")
    assert [step for step, _ in places(log)] == every


def test_steps_that_count_from_zero_are_multiples_too() -> None:
    assert places(read([199, 399, 599, 799], first=49, last=999)) == [
        (199, None), (399, None), (599, None), (799, None)
    ]  # fmt: skip


def test_several_between_two_records_are_left_there() -> None:
    lines = []
    for step in range(0, 1001, 100):
        lines += [f"iter {step} | train 2.{step:04d}", f"  held-out nll: 3.{step:04d}", "---"]
        lines += [f"  held-out nll: 3.{step + 50:04d}", "---"]
    log = files.stream(io.BytesIO("\n".join(lines).encode() + b"\n"), "a", "a")
    assert (100, 0) in places(log)
    assert log.evals["after"].count() == 20
