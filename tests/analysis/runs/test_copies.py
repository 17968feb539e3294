"""One run once: which logs of a folder repeat another log of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs import copies, paths
from gputel.telemetry import run_folder
from tests.analysis.stores.test_databases import mlflow

LINE = "step {:05d}/00040 (0.00%) | loss: {:.4f} | lrm: 1.00 | dt: {:.2f}ms | tok/sec: 29,001 | mfu: 2.5\n"
LOSSES = [5 - 3 * step / (step + 7) for step in range(40)]
TIMES = [100 + 17.31 * (step * 7 % 11) for step in range(40)]


def printed(times: list[float], *, every: int = 1) -> str:
    return "".join(LINE.format(step, LOSSES[step], times[step]) for step in range(0, 40, every))


def metrics(times: list[float]) -> str:
    rows = [{"step": step, "loss": LOSSES[step], "dt_ms": times[step]} for step in range(40)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def repeated(folder: Path) -> list[tuple[str, str]]:
    """The name of each copy, and of the log that is kept."""
    logs = [log for log in paths.read_logs(paths.walk(folder)) if isinstance(log, Log)]
    return [
        (Path(logs[at].source).name, Path(logs[kept].source).name) for at, kept in copies.find(logs).items()
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.txt").write_text(printed(TIMES, every=5))
    (tmp_path / "metrics.jsonl").write_text(metrics(TIMES))
    return tmp_path


def test_log_of_every_fifth_step_repeats_the_metrics_beside_it(folder: Path) -> None:
    assert repeated(folder) == [("log.txt", "metrics.jsonl")]


def test_log_that_begins_later_repeats_the_metrics_beside_it(folder: Path) -> None:
    late = "".join(printed(TIMES).splitlines(keepends=True)[13:])
    (folder / "log.txt").write_text(late)
    assert repeated(folder) == [("log.txt", "metrics.jsonl")]


def test_python_reads_one_run_once(folder: Path) -> None:
    assert [log.name for log in paths.parse_all(folder)] == ["metrics"]


def test_recording_is_kept_wherever_its_log_lies(folder: Path) -> None:
    run_folder.create(folder / "runs" / "d12", {"run": "d12"}).output.write_text(printed(TIMES, every=5))
    assert repeated(folder) == [("log.txt", "d12"), ("metrics.jsonl", "d12")]


def test_same_training_repeated_has_other_times_and_is_another_run(folder: Path) -> None:
    (folder / "log.txt").write_text(printed(TIMES[::-1]))
    assert repeated(folder) == []


def test_two_recordings_are_two_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_folder.create(tmp_path / name, {"run": name}).output.write_text(printed(TIMES))
    assert repeated(tmp_path) == []


def test_one_other_loss_makes_it_another_run(folder: Path) -> None:
    (folder / "log.txt").write_text(
        printed(TIMES, every=5).replace(f"{LOSSES[20]:.4f}", f"{LOSSES[20] + 0.01:.4f}")
    )
    assert repeated(folder) == []


def test_logs_of_one_folder_without_times_are_one_run_only_by_their_name(tmp_path: Path) -> None:
    line = "step {} | loss: {:.4f}\n"
    text = "".join(line.format(step, loss) for step, loss in enumerate(LOSSES))
    for name in ("a.log", "a.log.1", "b.log"):
        (tmp_path / name).write_text(text)
    assert repeated(tmp_path) == [("a.log", "a.log.1")]


def test_packed_copy_of_a_log_is_that_log_among_many(tmp_path: Path) -> None:
    line = "step {} | loss: {:.4f}\n"
    text = "".join(line.format(step, loss) for step, loss in enumerate(LOSSES))
    for name in ("a.log", "b.log", "c.log", "d.log"):
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert repeated(tmp_path) == [(name, f"{name}.gz") for name in ("a.log", "b.log", "c.log", "d.log")]


def test_same_training_repeated_is_another_run_of_its_database(tmp_path: Path) -> None:
    mlflow(tmp_path / "mlflow.db")
    assert repeated(tmp_path) == []
    assert len(paths.parse_all(tmp_path)) == 2


def test_folder_of_many_runs_keeps_them_all(folder: Path) -> None:
    for name in ("x", "y", "z"):
        (folder / f"{name}.log").write_text(printed(TIMES))
    assert repeated(folder) == []
