"""Run folders: each record has the time at which its line was recorded, and segments are attempts of one log."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import gputel
from gputel.telemetry import run_folder
from gputel.telemetry.process import output_index

START = 1_772_359_200_000_000_000  # 1 March 2026, 10:00:00
SECOND = 1_000_000_000


def moment(second: int) -> datetime:
    return datetime(2026, 3, 1, 10, 0, second, tzinfo=timezone.utc)


def clock(second: int) -> dict[str, int]:
    return {"wall_ns": START + second * SECOND}


def fill(segment: run_folder.Segment, lines: list[str], first: int) -> None:
    """One line a second, each in a read of its own."""
    segment.output.write_text("".join(lines))
    ends = [sum(len(line) for line in lines[: i + 1]) for i in range(len(lines))]
    reads = [output_index.pack(START + (first + i) * SECOND, end) for i, end in enumerate(ends)]
    segment.index.write_bytes(b"".join(reads))


def line(step: int) -> str:
    return f"iter {step}: loss {5 - step / 100:.2f}, time 10.00ms, mfu 20.00%\n"


def test_lines_have_the_time_of_the_read_that_brought_them(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(9)})
    fill(segment, [line(0), "words\n", line(10), "step 10: train loss 4.8, val loss 4.9\n"], 1)
    log = gputel.parse(tmp_path / "d12").log
    assert log.name == "d12"
    assert log.records["time"].to_list() == [moment(1), moment(3)]
    assert log.evals["time"].to_list() == [moment(4)] * 2
    assert (log.started, log.ended) == (START, START + 9 * SECOND)


def test_segments_follow_each_other_as_attempts(tmp_path: Path) -> None:
    first = run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(3)})
    fill(first, [line(0), line(10), line(20)], 0)
    second = run_folder.add_segment(
        tmp_path / "d12", {"run": "d12", "started": clock(10), "ended": clock(13)}
    )
    fill(second, [line(10), line(20), line(30)], 10)
    log = gputel.parse(tmp_path / "d12").log
    assert log.places == [("train", 1), ("train", 2)]
    assert log.records.select("attempt", "step", "line").rows() == [
        (1, 0, 1), (1, 10, 2), (1, 20, 3), (2, 10, 4), (2, 20, 5), (2, 30, 6),
    ]  # fmt: skip
    assert log.steps["step"].to_list() == [0, 10, 20, 30]
    assert log.steps["attempt"].to_list() == [1, 2, 2, 2]
    assert log.lines == 6


def test_inferred_format_is_counted_in_one_output_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "own"
    segments = [run_folder.create(path, {"run": "own"}), run_folder.add_segment(path, {"run": "own"})]
    for number, segment in enumerate(segments):
        steps = range(1 + 20 * number, 21 + 20 * number)
        fill(segment, [f"zug {step} // verlust {5 - step / 10:.2f}\n" for step in steps], 0)
        inferred = gputel.parse(path).log.inferred
        assert inferred is not None
        assert inferred.endswith("candidate lines in the first of 2 outputs" if number else "candidate lines")


def test_run_folder_without_an_end_is_running(tmp_path: Path) -> None:
    fill(run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0)}), [line(0)], 0)
    assert gputel.parse(tmp_path / "d12").status == "running"


@pytest.mark.parametrize(
    ("facts", "last", "status", "cause"),
    [
        ({"exit_code": 0}, line(20), "completed", None),
        ({"exit_code": 1}, line(20), "failed", "the command ended with exit code 1"),
        ({"exit_code": 130}, line(20), "interrupted", "the command was ended by Ctrl-C"),
        ({"exit_code": 0}, "Interrupted by user\n", "interrupted", "Interrupted by user"),
        ({"exit_code": 143, "stopped": {"rule": "budget", "text": "50 dollars are spent"}}, line(20), "interrupted",
         "50 dollars are spent"),
        ({"exit_code": 0, "argv": None}, line(20), "unknown", None),
    ],
)  # fmt: skip
def test_ending_follows_from_exit_code_stop_and_output(
    tmp_path: Path, facts: dict[str, Any], last: str, status: str, cause: str | None
) -> None:
    recorded = {"run": "d12", "argv": ["python", "train.py"], "started": clock(0), "ended": clock(9), **facts}
    fill(run_folder.create(tmp_path / "d12", recorded), [line(0), line(10), last], 0)
    log = gputel.parse(tmp_path / "d12")
    assert log.status == status
    assert (log.cause and log.cause.text) == cause
    if log.cause:  # what the recorder knows stands in no line
        assert log.cause.line == (3 if log.cause.text in last else 0)


def test_log_that_is_cut_off_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "Starting training from step 0 to 300\n" + "".join(line(step) for step in range(0, 31, 10))
    )
    log = gputel.parse(path)
    assert log.status == "unknown"
    assert log.cause is not None
    assert log.cause.text == "log ends at step 30 of 300"


def test_run_folder_without_output_is_empty_and_no_fault(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(1)})
    assert gputel.parse(tmp_path / "d12").is_empty


def test_log_that_is_still_written_is_running(tmp_path: Path) -> None:
    """Also if another log was read a moment before, when no process had this one open."""
    path = tmp_path / "live.log"
    path.write_text(line(0))
    assert gputel.parse(path).status == "unknown"
    with path.open("w") as writer:
        writer.write(line(0))
        writer.flush()
        os.fsync(writer.fileno())
        assert gputel.parse(path).status == "running"
    assert gputel.parse(path).status == "unknown"
