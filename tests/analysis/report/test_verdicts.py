"""Headroom, MFU and stragglers: verdicts come with evidence, and are unknown without."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.report.verdicts import Case, headroom_verdict, mfu_verdict, straggler_verdict
from gputel.analysis.runs import RunData
from tests.analysis.report.tables import gpus, rows

Make = Callable[..., RunData]


def test_memory_that_is_left_is_reported_in_sizes_of_the_batch(subject: Make) -> None:
    found = headroom_verdict(
        Case(subject([], gpus=2), rows(), gpus({"mem_peak_mib": 30_000.0}, {"mem_peak_mib": 40_000.0}))
    )
    assert found.answer == "yes: a batch or model 1.9 times as large"
    assert found.evidence[0] == "the fullest GPU used 39.1 GiB of 79.6 GiB at its peak"


def test_full_gpu_has_no_headroom(subject: Make) -> None:
    found = headroom_verdict(Case(subject([], gpus=1), rows(), gpus({"mem_peak_mib": 79_000.0})))
    assert (found.answer, found.facts["fits"]) == ("no", pytest.approx(0.98, abs=0.01))


def test_headroom_is_unknown_without_recorded_memory(subject: Make) -> None:
    assert headroom_verdict(Case(subject([]), rows(), pl.DataFrame())).answer == "unknown"


IMPOSSIBLE = [
    "Number of parameters: 1,500,000,000",
    "Estimated FLOPs per token: 9.000000e+09",
    *[f"step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 1000.00ms | tok/sec: 400,000" for n in range(9)],
]


def test_more_than_the_peak_is_impossible_and_the_sum_is_shown(subject: Make) -> None:
    """1.5B parameters at 400,000 tok/s on two H100: 3.6e15 of 1.98e15."""
    found = mfu_verdict(Case(subject(IMPOSSIBLE, gpus=2), rows(), gpus({}, {})))
    assert found.answer == "impossible: 182 %"
    assert found.evidence == (
        "9e+09 FLOPs per token x 400,000 tok/s (median) = 3,600 TFLOP/s, "
        "of 1,978 TFLOP/s (2 x the dense bf16 peak of H100): 182 %",
        "more than the peak is impossible: the number of tokens, steps, parameters or GPUs is wrong",
    )


def test_printed_mfu_of_more_than_a_hundred_is_impossible_too(subject: Make) -> None:
    lines = [
        f"step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 1000.00ms | tok/sec: 400 | mfu: 147.00"
        for n in range(9)
    ]
    found = mfu_verdict(Case(subject(lines), rows(), gpus()))
    assert found.answer == "impossible: 147 %"
    assert found.evidence[0] == "the log prints 147.0 % (median)"


def test_parameters_alone_give_six_flops_each(subject: Make) -> None:
    found = mfu_verdict(Case(subject([IMPOSSIBLE[0], *IMPOSSIBLE[2:]], gpus=8), rows(), gpus(*[{}] * 8)))
    assert found.answer == "45.5 %"
    assert found.evidence[0].startswith(
        "6 x 1,500,000,000 parameters per token x 400,000 tok/s (median) = 3,600 TFLOP/s"
    )


def test_facts_that_an_mfu_lacks_are_named(subject: Make) -> None:
    found = mfu_verdict(Case(subject(["iter 1: loss 3.0, time 10.00ms"]), rows(), gpus()))
    assert found.answer == "unknown"
    assert "FLOPs per token" in found.evidence[0]


def test_gpu_of_a_lower_clock_or_alone_throttled_is_a_straggler(subject: Make) -> None:
    slow, throttled, well = (
        {"sm_mhz": mhz, "throttled_s": seconds}
        for mhz, seconds in ((1700.0, 0.0), (1980.0, 20.0), (1980.0, 0.0))
    )
    found = straggler_verdict(Case(subject([], gpus=3), rows(), gpus(slow, throttled, well)))
    assert found.answer == "yes"
    assert found.evidence == (
        "GPU 0: its clock was 1,700 MHz, the others' 1,980 MHz",
        "GPU 1: throttled for 20 % of the time",
    )


def test_alike_gpus_are_none_and_unseen_ones_unknown(subject: Make) -> None:
    case = Case(subject([], gpus=2), rows(), gpus({"sm_mhz": 1980.0}, {"sm_mhz": 1975.0}))
    assert straggler_verdict(case).evidence == ("nothing stands out in the clocks of 2 GPUs",)
    assert straggler_verdict(Case(case.subject, rows(), gpus({}, {}))).answer == "unknown"
