"""What steps of a training consist of while it is recorded with `--inside steps`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gputel.analysis.live.lines import LinePrinter, rows_json, rows_text
from gputel.analysis.live.step_parts import LiveSteps
from gputel.analysis.live.terminal.panes import step_parts
from gputel.analysis.live.update import Update
from gputel.analysis.live.view import StepPartsView, longest_waits
from gputel.telemetry.inside import drain, step_records
from gputel.telemetry.run_folder import Segment
from tests.analysis.live.terminal.scenes import AT

MS = 1_000_000
FLAGS = step_records.WAITS
SLOW = StepPartsView("", 1, AT, 58, 78.7, 15.4, 0.196, 14.0, 29.3, 20.0, 0.0)


class Steps:
    """A process's file of steps: a step each 100 ms that waits 20 ms for data."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        self.path, self.at = folder / f"{70 + rank}-5{step_records.ENDING}", 1_800_000_000_000 * MS
        self.path.write_bytes(step_records.HEADER.pack(step_records.MAGIC, 0, rank, 2))

    def take(self, count: int, wait_ms: int = 20) -> None:
        with self.path.open("ab") as file:
            for _ in range(count):
                self.at += 100 * MS
                times = (self.at, 100 * MS, wait_ms * MS, 30 * MS, 10 * MS, 0)
                file.write(b"".join(number.to_bytes(8, "little") for number in times))
                file.write(b"".join(number.to_bytes(4, "little") for number in (1, 1)))
                file.write(b"".join(number.to_bytes(2, "little") for number in (1, FLAGS, 0, 0)))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2.0
        return self.now


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(tmp_path, None, 1)


def test_means_are_of_the_last_minute_by_rank(segment: Segment, tmp_path: Path) -> None:
    processes = [Steps(tmp_path / drain.NAME, rank) for rank in range(2)]
    live = LiveSteps(segment, Clock())
    assert live.read(None) is None
    processes[0].take(700, wait_ms=50)
    processes[1].take(700, wait_ms=50)
    first = live.read(None)
    assert first is not None
    assert [(each.rank, each.steps, each.data_wait_ms) for each in first] == [(0, 600, 50), (1, 600, 50)]
    assert live.read(None) is None
    for process in processes:
        process.take(600)
    second = live.read(None)
    assert second is not None
    assert [(each.steps, each.data_wait_ms, each.data_share) for each in second] == [(600, 20, 0.2)] * 2
    assert second[0].parts == [
        "data wait 20 ms (20 %)", "backward 30 ms", "optimizer 10 ms", "the rest 40 ms"
    ]  # fmt: skip


def test_steps_that_are_still_in_memory_count(segment: Segment, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    process = Steps(memory)
    process.take(3)
    drain.drain(tmp_path, memory)
    process.take(2)
    path = tmp_path / drain.NAME / process.path.name
    assert len(drain.content(path, memory, step_records.SIZE)) == 5 * step_records.SIZE
    assert len(drain.content(path, memory, most=step_records.SIZE)) == step_records.SIZE
    assert drain.size(path, memory) == 6 * step_records.SIZE
    assert drain.size(path) == 4 * step_records.SIZE


def test_terminal_shows_the_parts_of_a_step() -> None:
    rows = [row.plain.strip() for row in step_parts([SLOW], 80, 5)]
    assert rows == [
        "step of rank 1 79 ms · data wait 15 ms (20 %) · backward 14 ms · optimizer 29 ms",
        "the rest 20 ms",
    ]


def test_of_many_ranks_those_are_shown_that_wait_longest() -> None:
    views = [replace(SLOW, rank=rank, data_share=rank % 7 / 10) for rank in range(14)]
    assert [view.rank for view in longest_waits(views, 4)] == [5, 6, 12, 13]
    assert "step of rank 5 (of 14 ranks)" in step_parts(views, 200, 9)[0].plain


def test_lines_say_it_once_a_minute() -> None:
    def lines(printer: LinePrinter, at_s: float) -> list[str]:
        parts = (replace(SLOW, ended=AT + timedelta(seconds=at_s)),)
        return printer.rows(Update("d12", "runs/d12", step_parts=parts))

    printer = LinePrinter(rows_text)
    assert [len(lines(printer, at_s)) for at_s in (0, 30, 59.9, 60.5, 61, 120, 121)] == [0, 0, 0, 1, 0, 0, 1]
    (line,) = lines(printer, 190)
    assert line.endswith(
        "d12 step of rank 1, mean of 58: 79 ms · data wait 15 ms (20 %) · backward 14 ms · "
        "optimizer 29 ms · the rest 20 ms"
    )
    printer = LinePrinter(rows_json)
    lines(printer, 0)
    (line,) = lines(printer, 60)
    row = json.loads(line)
    assert (row["kind"], row["run"], row["rank"], row["data_wait_ms"]) == ("step_parts", "d12", 1, 15.4)
