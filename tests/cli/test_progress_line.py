"""The line that shows how far long work has come."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis import progress
from gputel.analysis.live import runs
from gputel.analysis.live.follower import Follower
from gputel.cli import tail
from gputel.cli.progress_line import CLEAR, OpenStage, ProgressLine, line_of

PATIENCE_S = 120  # stops a hang


def test_line_names_the_work_its_rate_and_the_time_left() -> None:
    stage = OpenStage("reading d24.log", 100e6, progress.BYTES, begun=0.0, done=50e6)
    assert line_of([stage], 5.0, 5.0) == "reading d24.log  ##########----------  50 %  10.0 MB/s  5.0 s left"


def test_line_counts_items_that_are_no_bytes() -> None:
    stage = OpenStage("measuring GPUs", 8, "items", begun=0.0, done=2)
    assert line_of([stage], 4.0, 4.0) == "measuring GPUs  #####---------------  2 of 8  0.5/s  12.0 s left"


def test_line_of_a_pipe_has_no_end() -> None:
    stage = OpenStage("reading pipe", 0, progress.BYTES, begun=0.0, done=50e6)
    assert line_of([stage], 5.0, 5.0) == "reading pipe  10.0 MB/s"
    assert line_of([], 5.0, 5.0) == "working, 5.0 s"


def test_files_move_the_folder_they_are_read_from() -> None:
    line = ProgressLine(io.StringIO(), now=lambda: 0.0)
    with progress.watched(line), progress.stage("reading 2 runs", 30, progress.BYTES):
        for size in (10, 20):
            with progress.stage("a.log", size, progress.BYTES) as advance:
                advance(size)
            assert list(progress.each([1, 2], "measuring GPUs")) == [1, 2]
        assert line_of(line._stages, 0.0, 1.0).startswith(f"reading 2 runs  {20 * '#'}  100 %")


def test_nothing_is_counted_where_nothing_watches() -> None:
    with progress.stage("reading", 10, progress.BYTES) as advance:
        advance(10)


def test_tail_counts_the_bytes_of_its_first_reading_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PIECE", 20_000)
    for name in ("d16.log", "d24.log"):
        lines = (f"step {n}/900 | loss: {5 - n / 900:.4f}\n" for n in range(900))
        (tmp_path / name).write_text("".join(lines))
    line = ProgressLine(io.StringIO(), now=lambda: 0.0)
    shares = []
    with contextlib.closing(Follower([str(tmp_path)])) as follower, progress.watched(line):
        with tail.first_reading(follower) as read:
            assert line._stages[0].label == "reading 2 runs"
            while line._stages:
                follower.read()
                shares.append(line._stages[0].done / line._stages[0].total)
                read()
        with (tmp_path / "d16.log").open("a") as log:
            log.write("step 900/900 | loss: 4.0\n")
        assert follower.read()
    assert 0 < shares[0] < 1 == shares[-1]


def test_line_is_gone_while_something_is_printed_and_after_the_end() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, now=lambda: 0.0)
    line.begin("reading d24.log", 10, progress.BYTES)
    line.draw()
    with line.aside():
        stream.write("a note\n")
    assert stream.getvalue().startswith(f"{CLEAR}reading d24.log")
    assert stream.getvalue().endswith(f"{CLEAR}a note\n")
    line.draw()
    line.stop()
    line.draw()
    assert stream.getvalue().endswith(CLEAR)


@pytest.mark.long
def test_parse_shows_its_progress_on_a_terminal_and_nothing_of_it_in_a_pipe(tmp_path: Path) -> None:
    """The log is a FIFO that stays open until the line has come."""
    log = tmp_path / "d16.log"
    os.mkfifo(log)
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "gputel", "parse", str(log)]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        with log.open("w") as writer:
            writer.write("".join(f"step {n}/100 | loss: {5 - n / 100:.4f}\n" for n in range(100)))
            writer.flush()
            while b"reading d16.log" not in shown and select.select([master], [], [], PATIENCE_S)[0]:
                shown += os.read(master, 1000)
        assert b"reading d16.log" in shown
        assert process.stdout
        printed = process.stdout.read()
        assert process.wait() == 0
    os.close(master)
    assert "reading d16.log" not in printed
    assert "d16" in printed
