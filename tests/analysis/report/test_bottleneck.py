"""What limits a run, from measured steps made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.report.bottleneck import STEPS_FLAG, bottleneck_verdict
from gputel.analysis.report.verdicts import Case
from gputel.analysis.runs import RunData
from tests.analysis.report.tables import gpus, rows

Make = Callable[..., RunData]


def test_busy_waiting_is_reported_without_counters_of_activity(subject: Make) -> None:
    """Two of ten steps take three times as long, in use but at 200 of 1,400 W."""
    slow = [n % 10 < 2 for n in range(20)]
    steps = rows(
        duration_s=[3.0 if s else 1.0 for s in slow],
        power_mean_w=[200.0 if s else 1200.0 for s in slow],
        util=99.0,
    )
    found = bottleneck_verdict(Case(subject([], gpus=2), steps, gpus({}, {})))
    assert found.answer == "busy waiting, probably communication"
    assert found.evidence[0].startswith(
        "for 43 % of the training, utilization was 95 % or more, GPUs drew under 40 %"
    )
    assert found.evidence[1] == "for example step 0: 99 %, 200 of 1,400 W, 3.000 s"


def test_slow_steps_at_full_power_are_no_waiting(subject: Make) -> None:
    steps = rows(duration_s=[3.0, 1.0] * 10, power_mean_w=1300.0, util=99.0)
    assert bottleneck_verdict(Case(subject([], gpus=2), steps, gpus({}, {}))).answer == "compute"


@pytest.mark.parametrize(
    ("figures", "answer"),
    [
        ({"util": 99.0, "tensor_active": 55.0, "dram_active": 60.0, "power_mean_w": 600.0}, "compute"),
        (
            {"util": 99.0, "tensor_active": 12.0, "dram_active": 85.0, "power_mean_w": 400.0},
            "memory bandwidth",
        ),
        ({"util": 55.0, "power_mean_w": 300.0}, "input"),
        ({"util": 99.0, "power_mean_w": 650.0}, "compute"),
        ({"util": 99.0, "power_mean_w": 450.0}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_figures_of_one_gpu(subject: Make, figures: dict[str, float], answer: str) -> None:
    found = bottleneck_verdict(Case(subject([], gpus=1), rows(**figures), gpus({})))
    assert found.answer == answer
    assert found.evidence


@pytest.mark.parametrize(
    ("error", "answer", "evidence"),
    [
        (12.0, "input", "no kernel ran for 33 ±12 % of the training: GPUs wait for the CPU or for data"),
        (
            14.0,
            "unknown",
            "utilization, 67 ±14 %, changed 12 times: too few readings to tell whether GPUs lack work",
        ),
    ],
)
def test_utilization_of_few_readings_is_no_finding_where_its_range_reaches_80_percent(
    subject: Make, error: float, answer: str, evidence: str
) -> None:
    steps = rows(util=67.0, util_error=20**0.5 * error, util_changes=12 / 20)
    found = bottleneck_verdict(Case(subject([], gpus=1), steps, gpus({})))
    assert (found.answer, found.evidence[0]) == (answer, evidence)


def test_data_that_the_log_itself_waits_for_is_input(subject: Make) -> None:
    line = "step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 100.00ms | tok/sec: 1,000 | data: 40.00ms"
    found = bottleneck_verdict(Case(subject([line.format(n=n) for n in range(9)]), rows(), gpus()))
    assert found.answer == "input"
    assert found.evidence[0] == "40 % of a step is spent waiting for data, by the times that the log prints"


def test_gpus_that_always_spin_are_waiting(subject: Make) -> None:
    steps = rows(util=100.0, power_mean_w=400.0, tensor_active=3.0, dram_active=5.0)
    two = subject([], gpus=2)
    assert bottleneck_verdict(Case(two, steps, gpus({}, {}))).answer.startswith("busy waiting")
    # there is no other rank to wait for
    assert bottleneck_verdict(Case(two, steps, gpus({}))).answer == "unknown"


def test_steps_of_which_no_power_of_all_gpus_is_known_are_no_waiting(subject: Make) -> None:
    """One of two GPUs was lost before the training began."""
    steps = rows(util=100.0, power_mean_w=None)
    assert bottleneck_verdict(Case(subject([], gpus=2), steps, gpus({}, {}))).answer == "unknown"


def test_printed_mfu_that_the_runs_own_figures_contradict_is_no_evidence(subject: Make) -> None:
    """Two H100s would need 123 % of their peak for these tokens per second; the log prints 42 %."""
    lines = [
        "Estimated FLOPs per token: 5.586813e+09",
        "Total batch size 524,288 => gradient accumulation steps: 1",
        *(
            f"step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 1200.00ms | tok/sec: 436,907 | mfu: 42.00"
            for n in range(9)
        ),
    ]
    found = bottleneck_verdict(Case(subject(lines, gpus=2), rows(), gpus({}, {})))
    assert (found.answer, found.facts["mfu"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("description", "is_named"),
    [
        ({"argv": ["python", "train.py"], "inside": {"level": "stacks"}}, True),
        ({"argv": ["python", "train.py"], "inside": {"level": "steps"}}, False),
        ({"argv": ["python", "train.py"]}, False),
        ({"argv": [], "inside": {"level": "off"}}, False),
    ],
)
def test_idle_gpus_of_a_recording_without_steps_name_the_option_that_tells_why(
    subject: Make, description: dict[str, object], is_named: bool
) -> None:
    run = subject([], gpus=1)
    assert run.recording
    run.recording.descriptions[:] = [description]
    found = bottleneck_verdict(Case(run, rows(util=55.0), gpus({})))
    assert found.answer == "input"
    assert (STEPS_FLAG in found.evidence) is is_named
