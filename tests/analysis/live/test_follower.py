"""Following as a whole: which runs there are, and when they are over."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gputel.analysis.live.follower import Follower
from gputel.analysis.live.runs import FollowedLog
from gputel.analysis.live.update import Update
from tests.analysis.live.scenes import (
    STEP,
    Clock,
    joined,
    log_of,
    read,
)
from tests.recordings import PATIENCE_S


def test_fifo_is_followed(tmp_path: Path, clock: Clock) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    follower = Follower([str(fifo)], now=clock)
    assert read(follower, clock) == []
    with fifo.open("w") as writer:
        writer.write(STEP.format(1, 2, 0))
    (update,) = read(follower, clock)
    assert update.run == str(fifo)
    assert update.increment
    assert update.increment.open_records["step"].to_list() == [1]
    follower.close()


def test_first_reading_counts_runs_and_says_the_time_left(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.log").write_text(log_of(range(3)))
    follower = Follower([str(tmp_path)], now=clock)
    assert follower.first_reading == "looking for runs"
    said = []

    def slowly(run: FollowedLog) -> list[Update]:
        said.append(follower.first_reading)
        clock.now += 2.0
        return []

    monkeypatch.setattr(FollowedLog, "read", slowly)
    follower.read()
    assert said == [
        "reading runs: 0 of 4",
        "reading runs: 1 of 4, 6 s left",
        "reading runs: 2 of 4, 4 s left",
        "reading runs: 3 of 4, 2 s left",
    ]
    follower.close()


def test_compressed_log_of_a_megabyte_is_read_at_once(tmp_path: Path, clock: Clock) -> None:
    """It is unpacked in small pieces, and a look for each of them would take a minute."""
    with gzip.open(tmp_path / "old.log.gz", "wt") as packed:
        packed.write(log_of(range(30_000)))
    follower = Follower([str(tmp_path)], now=clock)
    assert joined(read(follower, clock), "records")["step"].to_list() == list(range(29_999))
    follower.close()


def test_compressed_log_is_read_and_over(tmp_path: Path, clock: Clock) -> None:
    with gzip.open(tmp_path / "old.log.gz", "wt") as packed:
        packed.write(log_of(range(50)))
    follower = Follower([str(tmp_path)], now=clock)
    updates = [update for _ in range(3) for update in read(follower, clock)]
    assert joined(updates, "records")["step"].to_list() == list(range(50))
    assert follower.is_over
    follower.close()


def test_missing_log_and_empty_folder_are_awaited(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    follower = Follower([str(tmp_path / "empty"), str(tmp_path / "gone.log")])
    follower.read()
    assert follower.awaited == [
        f"{tmp_path}/empty: no log or run in it yet; waiting for one",
        f"{tmp_path}/gone.log: does not exist yet; waiting for it",
    ]
    follower.close()


def test_follower_that_reads_at_a_pace_is_not_woken_by_its_files(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "train.log"
    log.touch()
    follower = Follower([str(log)], every_s=PATIENCE_S, now=clock)
    read(follower, clock)
    log.write_text(STEP.format(1, 2, 0))
    follower.wakeups.changed(str(log))
    assert follower.wakeups.wait(0) is False
    follower.wake()
    follower.wait()  # for as long as `every_s`, if it had not been woken
    (update,) = read(follower, clock)
    assert update.increment
    assert update.increment.open_records["step"].to_list() == [1]
    follower.close()
