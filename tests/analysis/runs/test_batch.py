"""Tokens of a step: figures that agree, and figures that are off by a unit."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs import RunData
from gputel.analysis.runs.batch import batch_figures, step_tokens, unit_factor
from gputel.analysis.runs.log_doubts import log_doubts
from gputel.analysis.runs.record_gaps import half_digit, rounding_error

Read = Callable[[str], Log]


def log(dt_ms: float, rate: float, banner: str = "", count: int = 9) -> str:
    lines = [f"step {n:5d} | loss: 3.0 | dt: {dt_ms:.2f}ms | tok/sec: {rate:.2f}\n" for n in range(count)]
    return banner + "".join(lines)


def test_figures_that_agree_raise_no_doubt(read: Read) -> None:
    tokens = step_tokens(batch_figures(read(log(1217.0, 430_804.0, "total desired batch size: 524288\n"))))
    assert (tokens.tokens, tokens.origin, tokens.rate_scale, tokens.doubts) == (524_288, "printed", 1.0, ())


def test_throughput_divided_by_milliseconds_is_read_in_thousands(read: Read) -> None:
    """`desired batch size` says the batch; the throughput is 1/1000 of it."""
    tokens = step_tokens(
        batch_figures(read(log(1217.0, 430.804, "desired batch size (number of tokens): 524288\n")))
    )
    assert tokens.tokens == 524_288
    assert tokens.rate_scale == pytest.approx(1000, rel=1e-3)
    (doubt,) = tokens.doubts
    assert doubt.what == "tok-per-sec"
    assert "1/1,000 of tokens / dt" in doubt.text
    assert "thousands" in doubt.likely


def test_fraction_of_tokens_is_a_batch_in_thousands_even_without_a_banner(read: Read) -> None:
    tokens = step_tokens(batch_figures(read(log(37_449.14, 14.0))))
    assert tokens.tokens == 524_288
    assert len(tokens.doubts) == 1


def test_small_batch_of_whole_tokens_is_no_batch_in_thousands(read: Read) -> None:
    tokens = step_tokens(batch_figures(read(log(500.0, 1024.0))))
    assert (tokens.tokens, tokens.doubts) == (512, ())


def test_throughput_per_gpu_is_recognized_by_the_number_of_gpus(read: Read) -> None:
    (doubt,) = step_tokens(
        batch_figures(read(log(1000.0, 65_536.0, "total desired batch size: 524288\n"))), gpus=8
    ).doubts
    assert doubt.likely == "it is printed per GPU"


def test_micro_batches_that_do_not_fill_a_step_are_a_doubt(read: Read) -> None:
    banner = "Tokens / micro-batch / rank: 24 x 2048 = 49,152\nTotal batch size 524,288 =>\nWorld size: 8\n"
    (doubt,) = step_tokens(batch_figures(read(banner + log(1000.0, 524_288.0)))).doubts
    assert doubt.what == "batch"
    assert "393,216" in doubt.evidence


@pytest.mark.parametrize(
    ("ratio", "factor"), [(1000.4, 1000), (0.5, 0.5), (8.02, 8), (1.01, None), (3.0, None)]
)
def test_units_are_powers_of_ten_and_of_two(ratio: float, factor: float | None) -> None:
    assert unit_factor(ratio) == factor


def test_batch_of_exact_figures_is_the_round_number_within_their_rounding(read: Read) -> None:
    """796,060 x 0.6586 is 524,285."""
    tokens = step_tokens(batch_figures(read(log(658.60, 796_060.0))))
    assert (tokens.tokens, tokens.error) == (524_288, None)


def test_batch_of_coarse_step_times_has_their_error(read: Read) -> None:
    """A step time of two digits knows the batch to 1.6 %, and many batches lie within that."""
    lines = [f"step {n} | loss: 3.0 | dt: 31ms | tok/sec: {16_845_000 + n}\n" for n in range(9)]
    tokens = step_tokens(batch_figures(read("".join(lines))))
    assert tokens.tokens is not None
    assert tokens.error is not None
    assert abs(tokens.tokens - 524_288) < tokens.error < 0.02 * tokens.tokens


@pytest.mark.parametrize(
    ("values", "half"),
    [([658.6, 658.61], 0.005), ([431_200.0, 430_900.0], 50.0), ([1000.0, 1000.0], 0.5), ([], 0.0)],
)
def test_last_digit_of_rounded_values(values: list[float], half: float) -> None:
    assert half_digit(pl.Series(values, dtype=pl.Float64)) == pytest.approx(half)


def test_rounding_of_many_different_values_mostly_cancels() -> None:
    assert rounding_error(pl.Series([0.30, 0.31, 0.32, 0.33])) == pytest.approx(0.0005)
    assert rounding_error(pl.Series([0.31, 0.31])) == pytest.approx(0.005)


@pytest.mark.parametrize(("batch", "exact"), [(524_288, True), (499_321, False)])
def test_rounded_token_count_is_no_exact_batch(read: Read, batch: int, exact: bool) -> None:
    """A count in millions with three decimals grows by 524,000 or 525,000."""
    lines = [f"s {n} loss {4 - n / 50:.4f} tokens {batch / 1e6 * (n + 1):.3f}M\n" for n in range(60)]
    tokens = step_tokens(batch_figures(read("".join(lines))))
    assert tokens.tokens is not None
    assert tokens.tokens == batch if exact else abs(tokens.tokens - batch) <= (tokens.error or 0.0) + 0.5
    assert (tokens.error is None) == exact


def per_gpu(rate: float, seconds: int = 2) -> str:
    banner = "global batch size: 524288 tokens\nWorld size: 8\n"
    lines = (
        f"2026-10-03 07:{seconds * n // 60:02d}:{seconds * n % 60:02d}.000 "
        f"step: {n:2}  loss:  {4 - n / 20:.4f}  memory: 60.10GiB(75.46%)  tps: {rate:,.0f}  mfu: 33.39%\n"
        for n in range(1, 20)
    )
    return banner + "".join(lines)


def test_throughput_per_gpu_without_step_times_is_found_by_timestamps(read: Read) -> None:
    """torchtitan prints `tps` of one GPU, and no step time."""
    subject = RunData(read(per_gpu(32_768)))
    assert subject.step_tokens.rate_scale == 8
    (doubt,) = log_doubts(subject)
    assert doubt.likely == "it is printed per GPU"


def test_throughput_of_all_gpus_without_step_times_raises_no_doubt(read: Read) -> None:
    subject = RunData(read(per_gpu(262_144)))
    assert (subject.step_tokens.rate_scale, log_doubts(subject)) == (1, ())


@pytest.mark.parametrize("banner", ["global batch size: 524288 tokens\n", ""])
def test_throughput_that_a_format_prints_per_gpu_is_that_without_a_witness(read: Read, banner: str) -> None:
    """Nothing but the format tells it where neither timestamps nor step times are printed."""
    lines = per_gpu(32_768).replace("global batch size: 524288 tokens\n", banner).splitlines(keepends=True)
    subject = RunData(read("".join(line.partition(".000 ")[2] or line for line in lines)))
    assert (subject.step_tokens.rate_scale, log_doubts(subject)) == (8, ())
