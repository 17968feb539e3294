"""Verdicts come with their evidence, and are unknown without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.analysis import report
from gputel.analysis.align.join import MEASURES
from gputel.analysis.logs.files import read_file
from gputel.analysis.report import Case, Verdict, make_report
from gputel.analysis.report.bottleneck import bottleneck_verdict
from gputel.analysis.report.overfitting import overfitting_verdict
from gputel.analysis.report.verdicts import headroom_verdict, mfu_verdict, straggler_verdict
from gputel.analysis.runs import RunData, read_run
from gputel.telemetry import run_folder

SAMPLES = Path(__file__).parents[3] / "sample_logs"
H100 = {"gpu": "0", "name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}, "memory_total_mib": 81_559}

Make = Callable[..., RunData]


@pytest.fixture
def subject(tmp_path: Path) -> Make:
    """A run of this log, recorded on so many H100s; on none it is a bare log."""

    def subject(lines: Iterable[str], gpus: int = 0) -> RunData:
        text = "".join(f"{line}\n" for line in lines)
        if not gpus:
            path = tmp_path / "train.log"
            path.write_text(text)
            return read_run(path)
        facts = {"run": "d12", "gpus": [{**H100, "gpu": str(n), "uuid": str(n)} for n in range(gpus)]}
        segment = run_folder.create(tmp_path / "run", facts)
        segment.output.write_text(text)
        return read_run(segment.path)

    return subject


def training(
    steps: int, loss: Callable[[int], float], validation: Callable[[int], float], saved: int = 100
) -> list[str]:
    """Validated every 50 steps; a checkpoint every so many."""
    lines = []
    for n in range(steps + 1):
        if n % 50 == 0:
            lines.append(f"Step {n:05d} | Validation loss: {validation(n):.4f}")
        if n % saved == 0 and n:
            lines.append(f"Saved model file to: out/model_{n:06d}.pt")
        lines.append(f"step {n:05d}/09999 (1.00%) | loss: {loss(n):.6f} | dt: 100.00ms | tok/sec: 1,000")
    return lines


def rows(**columns: Any) -> pl.DataFrame:
    """Steps of a second each; a list is a column, a number the same in all."""
    count = 20
    values = {name: value if isinstance(value, list) else [value] * count for name, value in columns.items()}
    frame = pl.DataFrame(
        {"step": list(range(count)), "steps": [1] * count, "duration_s": [1.0] * count} | values
    )
    lacking = [name for name in MEASURES if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)


def _measured(frame: pl.DataFrame) -> pl.DataFrame:
    """With every measure that it has not, as null."""
    lacking = [name for name in MEASURES if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)


def gpus(*each: dict[str, Any]) -> pl.DataFrame:
    frame = pl.DataFrame([{"gpu": str(n), "duration_s": 100.0, **one} for n, one in enumerate(each)])
    lacking = [name for name in MEASURES if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)


# Overfitting


def falling(n: int) -> float:
    return 4 - n / 500


def judged(subject: RunData) -> Verdict:
    return overfitting_verdict(Case(subject, pl.DataFrame(), pl.DataFrame()))


def turning(n: int) -> float:
    """Falls until step 400."""
    return falling(n) if n <= 400 else 3.2 + (n - 400) / 1000


def test_validation_that_rises_while_the_training_loss_falls(subject: Make) -> None:
    log = training(1000, falling, turning)
    found = judged(subject(log))
    assert found.answer == "yes"
    assert (found.facts["best_step"], found.facts["rises_from_step"]) == (400, 400)
    assert found.facts["checkpoint"] == {"step": 400, "path": "out/model_000400.pt"}
    assert (
        found.evidence[0] == "val_loss is best at step 400 with 3.2000; at the last, step 1,000, it is 3.8000"
    )
    assert "checkpoint of the best step: out/model_000400.pt" in found.evidence
    assert found.facts["gap_last"] == pytest.approx(3.8 - 2.05, abs=0.01)


def test_where_no_checkpoint_is_of_the_best_step_the_nearest_is_named(subject: Make) -> None:
    log = training(
        1000, lambda n: 4 - n / 500, lambda n: 4 - n / 500 if n <= 400 else 3.2 + (n - 400) / 1000, saved=300
    )
    found = judged(subject(log))
    assert (
        "no checkpoint of that step was printed; the nearest is of step 300: out/model_000300.pt"
        in found.evidence
    )


def test_validation_that_still_falls_is_no_overfitting(subject: Make) -> None:
    log = training(500, lambda n: 4 - n / 500, lambda n: 4 - n / 600)
    found = judged(subject(log))
    assert (found.answer, found.facts["best_step"]) == ("no", 500)
    assert found.evidence[0] == "val_loss is best at its last, step 500: 3.1667"


def test_noise_is_no_rise(subject: Make) -> None:
    log = training(
        1000, lambda n: 3.0, lambda n: 3 + (0.05 if n // 50 % 2 else 0.0) + (0.01 if n > 500 else 0)
    )
    assert judged(subject(log)).answer == "no"


def test_both_losses_rising_is_instability(subject: Make) -> None:
    found = judged(subject(training(1000, turning, turning)))
    assert found.answer == "no"
    assert (
        found.evidence[-1]
        == "validation and training loss rise together: that is instability, not overfitting"
    )


def test_few_validations_are_unknown(subject: Make) -> None:
    found = overfitting_verdict(
        Case(subject(training(100, lambda n: 3.0, lambda n: 3.0)), pl.DataFrame(), pl.DataFrame())
    )
    assert (found.answer, found.evidence) == (
        "unknown",
        ("fewer than 4 validation losses of one phase were printed",),
    )


def attempts(*each: tuple[range, float]) -> Iterator[str]:
    """Attempts of one phase: their steps, and by how much a validation every ten steps falls in each."""
    for steps, falls in each:
        for n in steps:
            yield f"step {n} | loss: {4 - n / 500:.6f} | dt: 100.00ms"
            if n % 10 == 0:
                yield f"Step {n} | Validation loss: {4 - falls * n:.4f}"


def test_what_was_begun_anew_is_judged_by_itself(subject: Make) -> None:
    """Three attempts: together they would have thirty validation losses, and the last alone has three."""
    found = judged(subject(attempts((range(300), 0.001), (range(200), 0.002), (range(25), 0.003))))
    few = "fewer than 4 validation losses of one phase were printed since it last began anew"
    assert (found.answer, found.evidence) == ("unknown", (few,))
    never = judged(subject(attempts((range(25), 0.001), (range(15), 0.002))))
    assert never.evidence == ("fewer than 4 validation losses of one phase were printed",)
    enough = judged(subject(attempts((range(300), 0.001), (range(55), 0.003))))
    assert (enough.answer, enough.facts["best_step"], enough.facts["last_step"]) == ("no", 50, 50)


def test_a_run_that_went_on_is_judged_as_one_but_not_called_sound_by_its_past(subject: Make) -> None:
    early = judged(subject(attempts((range(300), 0.001), (range(251, 275), 0.001))))
    assert early.answer == "unknown"
    assert early.evidence[-1] == "only 2 validation losses were printed since it was last resumed"
    assert early.facts["last_step"] == 270  # what the first attempt did behind step 251 was thrown away
    later = judged(subject(attempts((range(300), 0.001), (range(251, 400), 0.001))))
    assert (later.answer, later.facts["best_step"]) == ("no", 390)


# The bottleneck


def test_busy_waiting_is_told_without_counters_of_activity(subject: Make) -> None:
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
        "for 43 % of the training GPUs were in use at 95 % and more, drew under 40 %"
    )
    assert found.evidence[1] == "such as step 0: 99 %, 200 of 1,400 W, 3.000 s"


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
def test_the_figures_of_one_gpu(subject: Make, figures: dict[str, float], answer: str) -> None:
    found = bottleneck_verdict(Case(subject([], gpus=1), rows(**figures), gpus({})))
    assert found.answer == answer
    assert found.evidence


def test_data_that_the_log_itself_waits_for_is_input(subject: Make) -> None:
    line = "step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 100.00ms | tok/sec: 1,000 | data: 40.00ms"
    found = bottleneck_verdict(Case(subject([line.format(n=n) for n in range(9)]), rows(), gpus()))
    assert found.answer == "input"
    assert found.evidence[0] == "40 % of a step is spent waiting for data, by the log's own figures"


def test_gpus_that_always_spin_are_waiting(subject: Make) -> None:
    steps = rows(util=100.0, power_mean_w=400.0, tensor_active=3.0, dram_active=5.0)
    two = subject([], gpus=2)
    assert bottleneck_verdict(Case(two, steps, gpus({}, {}))).answer.startswith("busy waiting")
    assert bottleneck_verdict(Case(two, steps, gpus({}))).answer == "unknown"  # there is nobody to wait for


# Headroom


def test_memory_that_is_left_is_told_in_sizes_of_the_batch(subject: Make) -> None:
    found = headroom_verdict(
        Case(subject([], gpus=2), rows(), gpus({"mem_peak_mib": 30_000.0}, {"mem_peak_mib": 40_000.0}))
    )
    assert found.answer == "yes: a batch or model 1.9 times as large"
    assert found.evidence[0] == "the fullest GPU held 39.1 GiB of 79.6 GiB at its peak"


def test_a_full_gpu_has_no_headroom(subject: Make) -> None:
    found = headroom_verdict(Case(subject([], gpus=1), rows(), gpus({"mem_peak_mib": 79_000.0})))
    assert (found.answer, found.facts["fits"]) == ("no", pytest.approx(0.98, abs=0.01))


def test_memory_that_nobody_recorded_is_unknown(subject: Make) -> None:
    assert headroom_verdict(Case(subject([]), rows(), pl.DataFrame())).answer == "unknown"


# MFU

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
        "9e+09 FLOPs a token x 400,000 tok/s (median) = 3,600 TFLOP/s, "
        "of 1,978 TFLOP/s (2 x the dense bf16 peak of H100): 182 %",
        "no GPU does more than its peak: a count of tokens, steps, parameters or GPUs is wrong",
    )


def test_a_printed_mfu_of_more_than_a_hundred_is_impossible_too(subject: Make) -> None:
    lines = [
        f"step {n:05d}/00100 (1.00%) | loss: 3.0 | dt: 1000.00ms | tok/sec: 400 | mfu: 147.00"
        for n in range(9)
    ]
    found = mfu_verdict(Case(subject(lines), rows(), gpus()))
    assert found.answer == "impossible: 147 %"
    assert found.evidence[0] == "the log prints 147.0 % (median)"


def test_the_parameters_alone_give_six_flops_each(subject: Make) -> None:
    found = mfu_verdict(Case(subject([IMPOSSIBLE[0], *IMPOSSIBLE[2:]], gpus=8), rows(), gpus(*[{}] * 8)))
    assert found.answer == "45.5 %"
    assert found.evidence[0].startswith(
        "6 x 1,500,000,000 parameters a token x 400,000 tok/s (median) = 3,600 TFLOP/s"
    )


def test_what_is_lacking_for_an_mfu_is_named(subject: Make) -> None:
    found = mfu_verdict(Case(subject(["iter 1: loss 3.0, time 10.00ms"]), rows(), gpus()))
    assert found.answer == "unknown"
    assert "FLOPs a token" in found.evidence[0]


# Stragglers


def test_a_gpu_of_a_lower_clock_or_alone_throttled_is_a_straggler(subject: Make) -> None:
    slow, throttled, well = (
        {"sm_mhz": mhz, "throttled_s": seconds}
        for mhz, seconds in ((1700.0, 0.0), (1980.0, 20.0), (1980.0, 0.0))
    )
    found = straggler_verdict(Case(subject([], gpus=3), rows(), gpus(slow, throttled, well)))
    assert found.answer == "yes"
    assert found.evidence == (
        "GPU 0: its clock was 1,700 MHz, that of the others 1,980 MHz",
        "GPU 1: slowed down in 20 % of the time",
    )


def test_alike_gpus_are_none_and_unseen_ones_unknown(subject: Make) -> None:
    case = Case(subject([], gpus=2), rows(), gpus({"sm_mhz": 1980.0}, {"sm_mhz": 1975.0}))
    assert straggler_verdict(case).evidence == ("nothing stands out in the clocks of 2 GPUs",)
    assert straggler_verdict(Case(case.subject, rows(), gpus({}, {}))).answer == "unknown"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_log_has_five_verdicts_or_none_to_be_had(name: str) -> None:
    log = read_file(SAMPLES / name)
    answer = report.answer(make_report(RunData(log)))
    assert all(verdict["evidence"] for verdict in answer["verdicts"])
    assert len(answer["verdicts"]) in (2, 5)
