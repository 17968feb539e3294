"""Batches that change during the run have a mean, and one batch is none of these."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs.batch import batch_figures, step_tokens

Read = Callable[[str], Log]
HEAD = "Total batch size 262,144 => gradient accumulation steps: 4\n"


def rated(batch: Callable[[int], int], rate: Callable[[int], float] = lambda step: 262_000 + step % 7) -> str:
    lines = []
    for step in range(400):
        dt_s = batch(step) / rate(step)
        lines.append(f"step {step} | loss: 3.{step} | dt: {1000 * dt_s:.2f}ms | tok/sec: {rate(step):,.0f}\n")
    return "".join(lines)


def counted(batch: Callable[[int], int]) -> str:
    lines, tokens = [], 0
    for step in range(400):
        tokens += batch(step)
        lines.append(f"step {step} | loss: 3.{step} | tokens: {tokens}\n")
    return "".join(lines)


def doubled(step: int) -> int:
    return 262_144 * (1 + (step >= 300))


@pytest.mark.parametrize("lines", [rated, counted])
@pytest.mark.parametrize("head", [HEAD, ""])
def test_batch_that_doubles_late_is_the_mean_of_all_steps(
    read: Read, lines: Callable[[Callable[[int], int]], str], head: str
) -> None:
    found = step_tokens(batch_figures(read(head + lines(doubled))))
    assert found.tokens == pytest.approx(327_680, rel=5e-4)
    assert found.origin.startswith("mean of a batch that changes between 262,14")
    assert [doubt.what for doubt in found.doubts] == (["batch"] if head else [])


def test_ramp_of_sequence_lengths_has_its_mean(read: Read) -> None:
    found = step_tokens(batch_figures(read(counted(lambda step: 32_768 * (1 + step // 100)))))
    assert (found.tokens, found.error, found.doubts) == (81_920, None, ())


@pytest.mark.parametrize("lines", [rated, counted])
def test_one_batch_stays_what_was_printed(read: Read, lines: Callable[[Callable[[int], int]], str]) -> None:
    found = step_tokens(batch_figures(read(HEAD + lines(lambda _: 262_144))))
    assert (found.tokens, found.origin, found.doubts) == (262_144, "printed", ())


def test_throughput_that_is_a_running_mean_changes_no_batch(read: Read) -> None:
    text = rated(lambda step: 262_144 * (2 if step % 3 else 1), lambda step: 262_144 / (1 + step % 5))
    assert step_tokens(batch_figures(read(HEAD + text))).origin == "printed"
