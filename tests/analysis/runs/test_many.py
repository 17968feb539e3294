"""Many logs: the same answer whether they are read here or by several processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputel.analysis import spread
from gputel.analysis.logs import summary
from gputel.analysis.logs.files import SMALL
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import many, paths
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from tests.sources import ROOT


def answers(logs: list[Log | GputelError]) -> list[object]:
    return [
        str(log) if isinstance(log, GputelError) else (log.doubts, list(summary.rows(log))) for log in logs
    ]


@pytest.mark.long
def test_several_processes_read_what_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = run_folder.create(tmp_path / "a", {"run": "a"})
    segment.output.write_text("step 1 | loss: 2.0\nstep 2 | loss: 1.9\n")
    (tmp_path / "random.bin").write_bytes(b"\0" + os.urandom(100))
    logs = [
        tmp_path / "a",
        *sorted((ROOT / "sample_logs").glob("*.log")),
        tmp_path / "gone.log",
        tmp_path / "random.bin",
    ]
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: 2)
    assert answers(list(many.read_many(logs))) == answers(list(paths.read_logs(logs)))


def test_few_small_logs_are_read_without_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("step 1 | loss: 2.0\n")
    monkeypatch.delattr(spread, "spread")
    (log,) = many.read_many([tmp_path / "a.log"])
    assert isinstance(log, Log)
    assert log.records.height == 1


def test_what_is_left_goes_to_workers_when_the_first_logs_took_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(4)]
    for log in logs:
        log.write_text("x" * SMALL + "\nstep 1 | loss: 2.0\n")
    spread_over: list[Path] = []
    workers = iter([1, 2])

    def keep(_work: object, items: list[Path], *_others: object) -> list[Log | GputelError]:
        spread_over.extend(items)
        return [*paths.read_logs(items)]

    monkeypatch.setattr(spread, "LOOK_S", 0)
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: next(workers))
    monkeypatch.setattr(spread, "spread", keep)
    assert len(list(many.read_many(logs))) == 4
    assert spread_over == logs[1:]
