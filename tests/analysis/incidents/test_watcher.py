"""The watcher asks a training whose output has been silent for long, and writes only what does not move."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputel.analysis.incidents import incident
from gputel.analysis.incidents.instructions import Silence, WatchOrder, parse_order
from gputel.analysis.incidents.process_states import standings
from gputel.analysis.incidents.verdict import judge
from gputel.analysis.incidents.watcher import HangWatcher, allowed_s, may_be_work
from gputel.telemetry import events
from gputel.telemetry.inside import environment
from gputel.telemetry.process import output_index
from tests.analysis.incidents.processes import ALL_REDUCE, READS, later, process
from tests.telemetry.inside import pythons

SECOND = 1_000_000_000
AT_ONCE = Silence(intervals=0.0, fewest_s=0.0, start_s=0.0, every_s=0.05)
STANDS = """
import torch, time
def slow_read():
    print("here", flush=True)
    input()
slow_read()
"""
MOVES = """
import torch
def forward(number):
    return sum(range(number))
def evaluate():
    return [forward(number % 50_000) for number in range(10**9)]
print("here", flush=True)
while True:
    evaluate()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    inside = environment.enter("stacks")
    assert inside.folder
    yield inside.folder
    environment.leave(inside)


def start(script: str, folder: Path, tmp_path: Path) -> subprocess.Popen[str]:
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "train.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, "train.py"],
        env=pythons.environment(folder, tmp_path),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    return process


def print_lines(segment: Path, count: int) -> None:
    with (segment / "output.idx").open("ab") as index:
        index.write(b"".join(output_index.pack(1_795_000_000 * SECOND + n, n) for n in range(count)))


def watch(
    tmp_path: Path, folder: Path, silence: Silence = AT_ONCE, now: Callable[[], float] = time.monotonic
) -> HangWatcher:
    return HangWatcher(WatchOrder(str(tmp_path), str(folder), recorder=0, silence=silence), now)


def look_three_times(script: str, folder: Path, tmp_path: Path) -> None:
    process = start(script, folder, tmp_path)
    try:
        print_lines(tmp_path, 12)
        watcher = watch(tmp_path, folder)
        for _ in range(3):
            watcher.look()
    finally:
        process.kill()
        process.communicate()


def test_training_that_stands_is_written_once(folder: Path, tmp_path: Path) -> None:
    look_three_times(STANDS, folder, tmp_path)
    (first,) = incident.read(tmp_path)
    assert first.sentence == "the process stands in train.py:5 slow_read"
    (event,) = events.read(tmp_path)
    assert (event["kind"], event["text"]) == ("incident", first.line)
    assert tmp_path / str(event["place"]) == first.folder


def test_second_incident_waits_for_ten_times_the_silence_that_is_long(folder: Path, tmp_path: Path) -> None:
    """The run prints after its first hang, and hangs again."""
    clock = [100.0]
    process = start(STANDS, folder, tmp_path)
    written = []
    try:
        watcher = watch(tmp_path, folder, replace(AT_ONCE, fewest_s=5.0), now=lambda: clock[0])
        for passed_s, prints in ((6.0, True), (6.0, True), (43.0, False), (2.0, False)):
            if prints:
                print_lines(tmp_path, 12)
                watcher.look()
            clock[0] += passed_s
            watcher.look()
            written.append(len(list(events.read(tmp_path))))
    finally:
        process.kill()
        process.communicate()
    assert written == [1, 1, 1, 2]


def test_training_that_prints_nothing_and_moves_is_no_incident(folder: Path, tmp_path: Path) -> None:
    look_three_times(MOVES, folder, tmp_path)
    assert list(incident.read(tmp_path)) == []


def test_silence_is_long_after_ten_usual_gaps_and_a_minute() -> None:
    silence = Silence()
    assert allowed_s(silence, []) == 900
    assert allowed_s(silence, [n * SECOND for n in range(9)]) == 900
    assert allowed_s(silence, [n * SECOND for n in range(12)]) == 60
    assert allowed_s(silence, [n * 20 * SECOND for n in range(12)]) == 200


def test_rank_that_runs_in_its_own_code_has_a_quarter_of_an_hour() -> None:
    """It may evaluate while the others wait for it."""
    others, reads = process(0, *ALL_REDUCE), process(1, *READS)
    looks = [[others, reads], [later(others), later(reads, wakeups=40)]]
    runs, stands = judge(standings(looks)), judge(standings([looks[0], [*map(later, looks[0])]]))
    assert runs
    assert stands
    assert [may_be_work(runs, silent_s, Silence()) for silent_s in (60, 899, 901)] == [True, True, False]
    assert not may_be_work(stands, 60, Silence())


def test_training_is_not_asked_before_the_silence_is_long(folder: Path, tmp_path: Path) -> None:
    """The folder is gone: to ask there would fail."""
    watcher = watch(tmp_path, folder, Silence(fewest_s=1000.0))
    environment.leave(environment.Inside("stacks", folder))
    print_lines(tmp_path, 12)
    watcher.look()
    assert list(incident.read(tmp_path)) == []


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("watcher", ("polars", "numpy")),
        ("instructions", ("polars", "numpy", "statistics", "gputel.analysis.incidents.verdict")),
    ],
)
def test_watcher_and_its_instructions_load_nothing_heavy(module: str, heavy: tuple[str, ...]) -> None:
    """The recorder loads the instructions, and stays without threads."""
    code = f"import sys, gputel.analysis.incidents.{module}; print({set(heavy)} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_order_survives_the_command_line() -> None:
    order = WatchOrder("runs/d16", "/dev/shm/x", 9, 7, Silence(start_s=3.0))
    assert parse_order(order.as_argv()[-1]) == order


def test_watcher_that_starts_when_the_recording_has_ended_says_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    order = WatchOrder(str(tmp_path), str(tmp_path / "removed"), ended.pid, ended.pid)
    subprocess.run(order.as_argv(), check=True)
    assert list(tmp_path.iterdir()) == []
