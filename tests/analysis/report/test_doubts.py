"""Doubts about a run: each with two figures and a reason; runs whose figures agree have none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gputel.analysis import runs
from gputel.analysis.report.run_report import answer, make_report
from gputel.analysis.runs import paths, read_run
from gputel.analysis.runs.log_doubts import log_doubts
from gputel.telemetry import run_folder
from tests.analysis.report.conftest import Make
from tests.recordings import printed

NAMED = [
    "GPU: NVIDIA H100 80GB HBM3",
    "World size: 1",
    "Estimated FLOPs per token: 1.0e9",
    "Total batch size 65,536",
]


def lines(step_s: float, dt_ms: float, rate: float, count: int = 60, stamps: bool = True) -> Iterator[str]:
    for step in range(count):
        at = 36_000 + step * step_s
        clock = (
            f"2026-03-01 {int(at // 3600):02d}:{int(at // 60 % 60):02d}:{at % 60:06.3f} " if stamps else ""
        )
        yield f"{clock}step {step:5d} | loss: {3 - step / 1000:.4f} | dt: {dt_ms:.2f}ms | tok/sec: {rate:.2f}"


def test_log_whose_figures_agree_has_no_doubt(subject: Make) -> None:
    assert log_doubts(subject([*NAMED, *lines(0.5, 500.0, 131_072.0)])) == ()


@pytest.mark.parametrize(
    ("dt_ms", "likely"),
    [
        (500_000.0, "seconds and milliseconds are mixed up"),
        (62.5, "it is printed for one of several micro-batches"),
    ],
)
def test_step_time_that_the_stamps_contradict_is_a_doubt(subject: Make, dt_ms: float, likely: str) -> None:
    (doubt,) = log_doubts(subject(lines(0.5, dt_ms, 0.0)))
    assert doubt.what == "step-time"
    assert doubt.likely == likely
    assert doubt.figures["stamped_s"] == pytest.approx(0.5)


def mfu(subject: Make, printed: float, rate: float) -> tuple[str, list[str]]:
    """Nine steps of a nanochat log on one H100, 1 GFLOP a token."""
    steps = [
        f"step {n:05d}/00009 (0.0%) | loss: {3 - n / 100:.2f} | lrm: 1.00 | dt: {65_536_000 / rate:.2f}ms | "
        f"tok/sec: {rate:,.0f} | mfu: {printed:.2f}"
        for n in range(9)
    ]  # fmt: skip
    run = subject([*NAMED, *steps])
    report = make_report(run)
    assert report.doubts == log_doubts(run)  # those of parse, compare and plan
    verdict = next(verdict for verdict in report.verdicts if verdict.question == "mfu")
    return verdict.answer, [doubt.text for doubt in report.doubts]


def test_mfu_that_is_printed_and_computed_alike_is_the_answer(subject: Make) -> None:
    assert mfu(subject, 44.0, 435_000) == ("44 %", [])


def test_printed_mfu_that_scatters_has_an_error(subject: Make) -> None:
    steps = [
        f"step {n:05d}/00099 (0.0%) | loss: {3 - n / 100:.2f} | lrm: 1.00 | dt: 150.00ms | tok/sec: 435,000 | "
        f"mfu: {44 + (n % 5 - 2):.2f}"
        for n in range(90)
    ]
    report = make_report(subject([*NAMED, *steps]))
    verdict = next(verdict for verdict in report.verdicts if verdict.question == "mfu")
    assert verdict.answer.startswith("44.0 ±0.")
    assert 0.1 < verdict.facts["error"] < 0.6


def test_mfu_off_by_two_is_a_disagreement_about_the_peak(subject: Make) -> None:
    found, (doubt,) = mfu(subject, 42.0, 830_000)
    assert found == "42 % printed, 83.9 % computed"
    assert "the peak with sparsity" in doubt


def test_mfu_over_100_percent_is_a_doubt(subject: Make) -> None:
    found, (doubt,) = mfu(subject, 42.0, 1_500_000)
    assert found == "impossible: 152 %"
    assert doubt.startswith("MFU would be 152 %, and 100 % is the peak of the GPUs")


def test_readings_of_fewer_gpus_than_ranks_and_over_their_limit_are_doubts(tmp_path: Path) -> None:
    head = "timestamp, index, name, power.draw [W], power.limit [W]\n"
    rows = [
        f"2026/03/01 10:00:{n:02d}.000, 0, NVIDIA H100 80GB HBM3, 900.00 W, 700.00 W\n" for n in range(30)
    ]
    (tmp_path / "gpu.csv").write_text(head + "".join(rows))
    (tmp_path / "a.log").write_text("World size: 8\n" + "\n".join(lines(0.5, 500.0, 0.0)) + "\n")
    report = make_report(runs.from_table_and_log(tmp_path / "gpu.csv", tmp_path / "a.log"))
    assert [doubt.what for doubt in report.doubts] == ["power", "gpus"]
    assert [doubt["kind"] for doubt in answer(report)["doubts"]] == ["power", "gpus"]


@pytest.mark.long
@pytest.mark.parametrize(("ends", "shared_s"), [(400, 300.0), (900, 500.0), (150, None), (None, None)])
def test_node_that_two_machines_were_at_once_is_a_doubt(
    ends: int | None, shared_s: float | None, tmp_path: Path
) -> None:
    node = tmp_path / "d20" / "nodes" / "3"
    for path, begun, ended in ((node, 0, ends), (node / "segments" / "2", 100, 600)):
        facts = {"run": "d20", "node_rank": 3, "started": printed.clock(begun)}
        segment = run_folder.create(path, facts | ({} if ended is None else {"ended": printed.clock(ended)}))
        printed.fill(segment, [(begun + n, printed.step(n, 3.0)) for n in range(5)])
    doubts = [each for each in make_report(read_run(tmp_path / "d20")).doubts if each.what == "segments"]
    assert [each.figures["shared_s"] for each in doubts] == ([] if shared_s is None else [shared_s])
    for each in doubts:
        assert each.text.startswith("segments 1 and 2 of node 3 were recorded at the same time for ")


def test_real_logs_raise_no_doubt(real_logs: Path) -> None:
    for log in paths.parse_all(real_logs):
        if log.name == "truth":  # the figures of the others
            continue
        assert make_report(runs.of_log(log)).doubts == (), log.name


def test_compare_has_the_doubts_of_its_runs(tmp_path: Path) -> None:
    from gputel.analysis.compare import compare
    from gputel.analysis.compare.answer import comparison_json

    for name, dt_ms in (("a", 500.0), ("b", 500_000.0)):
        (tmp_path / f"{name}.log").write_text("\n".join(lines(0.5, dt_ms, 0.0)) + "\n")
    answered = comparison_json(compare([read_run(tmp_path / f"{name}.log") for name in "ab"]))
    assert {run: [doubt["kind"] for doubt in doubts] for run, doubts in answered["doubts"].items()} == {
        "b": ["step-time"]
    }


def readings(folder: Path, watts: float, used_mib: int, count: int = 120) -> Path:
    head = "timestamp, index, name, power.draw [W], power.limit [W], memory.used [MiB], memory.total [MiB]\n"
    rows = (
        f"2026/03/01 10:{n // 60:02d}:{n % 60:02d}.000, 0, NVIDIA H100 80GB HBM3, {watts:.2f} W, 700.00 W, "
        f"{used_mib} MiB, 81559 MiB\n"
        for n in range(count)
    )
    (folder / "gpu.csv").write_text(head + "".join(rows))
    return folder / "gpu.csv"


@pytest.mark.parametrize(
    ("watts", "used_mib", "words"),
    [
        (560.0, 60_000, []),
        (90.0, 60_000, ["used 32 % of the GPUs' peak, and they drew 13 % of their power limit"]),
        (560.0, 90_000, ["a peak of 87.9 GiB on one GPU, and it has 79.6 GiB"]),
    ],
    ids=["possible", "idle GPUs", "too much memory"],
)
def test_readings_that_cannot_be_those_of_the_training_are_a_doubt(
    tmp_path: Path, watts: float, used_mib: int, words: list[str]
) -> None:
    """A throughput of a third of the peak needs power, and no GPU has more in use than it has."""
    steps = [
        f"2026-03-01 10:{n // 60:02d}:{n % 60:02d}.000 step {n} | loss: {4 - n / 99:.4f} | dt: 1000.00ms | "
        "tok/sec: 430,804"
        for n in range(5, 110)
    ]
    banner = ["GPU: NVIDIA H100 80GB HBM3", "World size: 1", "Number of parameters: 124,000,000"]
    (tmp_path / "a.log").write_text("\n".join([*banner, *steps]) + "\n")
    run = runs.from_table_and_log(readings(tmp_path, watts, used_mib), tmp_path / "a.log")
    found = [doubt.evidence for doubt in make_report(run).doubts]
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


@pytest.mark.parametrize(("peak_mib", "doubted"), [(30_000, False), (61_440, True)])
def test_printed_memory_above_that_in_the_name_of_the_gpu_is_a_doubt(
    tmp_path: Path, peak_mib: int, doubted: bool
) -> None:
    steps = [f"step {n} | loss: {4 - n / 99:.4f} | dt: 500.00ms" for n in range(20)]
    head, end = "GPU: NVIDIA A100-SXM4-40GB", f"Peak memory usage: {peak_mib}.00MiB"
    (tmp_path / "a.log").write_text("\n".join([head, *steps, end]) + "\n")
    found = [doubt.evidence for doubt in make_report(read_run(tmp_path / "a.log")).doubts]
    assert found == ["the log prints a peak of 60.0 GiB a GPU, and one has 40.0 GiB"] * doubted


@pytest.mark.parametrize(
    ("minutes", "pause_s", "kinds"),
    [(1.0, 0.0, []), (1.0, 30.0, []), (3.0, 30.0, []), (60.0, 0.0, ["time-left"]), (0.3, 0.0, ["time-left"])],
)
def test_printed_time_left_that_cannot_be_is_a_doubt(
    minutes: float, pause_s: float, kinds: list[str], tmp_path: Path
) -> None:
    """Loggers may count evaluations in it or leave them out; `minutes` is what is printed for a minute."""
    now, log = 0.0, []
    for n in range(400):
        now += 2.0
        clock = f"{datetime(2026, 3, 1) + timedelta(seconds=now):%Y-%m-%d %H:%M:%S}.000"
        log.append(
            f"{clock} step {n}/400 | loss {3 - n / 400:.3f} | eta: {2 * (399 - n) * minutes / 60:.2f}m"
        )
        if n % 20 == 19 and pause_s:
            now += pause_s
            clock = f"{datetime(2026, 3, 1) + timedelta(seconds=now):%Y-%m-%d %H:%M:%S}.000"
            log.append(f"{clock} step {n} | val loss 2.5")
    (tmp_path / "a.log").write_text("\n".join(log) + "\n")
    subject = read_run(tmp_path / "a.log")
    assert subject.log.records["eta_min"].count() == 400
    assert [doubt.what for doubt in log_doubts(subject)] == kinds
