"""A run folder read while it is recorded."""

from __future__ import annotations

import os
import random
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from gputel.analysis.live import run_folder as run_folder_reader
from gputel.analysis.live.follower import Follower, Update
from gputel.analysis.runs import recording
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames, parquet
from tests.analysis.live.scenes import (
    FAST,
    START,
    STEP,
    Clock,
    joined,
    log_of,
    make_run,
    read,
    record,
)
from tests.conftest import Compose


@pytest.mark.parametrize("seed", range(5))
def test_growing_run_folder_gives_the_rows_of_the_finished_one(
    tmp_path: Path, clock: Clock, seed: int
) -> None:
    chance, folder = random.Random(seed), make_run(tmp_path / "d16")
    text, updates = log_of(range(200)), []
    follower = Follower([str(folder)], now=clock)
    moment = START
    while text:
        size, moment = chance.randint(1, 3000), moment + SECOND
        record(folder, text[:size], moment)
        text = text[size:]
        updates += read(follower, clock)
    run_folder.update(folder, ended={"wall_ns": moment})
    for _ in range(3):
        updates += read(follower, clock)
    parsed = recording.open_recording(folder).log
    for table in ("records", "evals", "events"):
        expected = getattr(parsed, table).sort("line", maintain_order=True)
        rows = joined(updates, table).select(expected.columns)
        by = ["line", "kind"] if table == "events" else ["line"]
        assert_frame_equal(rows.sort(by), expected.sort(by))
    assert follower.is_over
    follower.close()


def test_lines_beyond_the_index_come_after_a_second_without_a_time(tmp_path: Path, clock: Clock) -> None:
    folder = make_run(tmp_path / "d16")
    record(folder, STEP.format(1, 2, 0), START)
    with (folder / "output.log").open("a") as output:
        output.write(STEP.format(2, 2, 0) + STEP.format(3, 2, 0))
    follower = Follower([str(folder)], now=clock)
    updates: list[Update] = []
    deadline = 2000
    while joined(updates, "records").height < 2 if updates else True:
        updates += read(follower, clock)
        deadline -= 1
        assert deadline
        if not updates or joined(updates, "records").height < 2:
            os.sched_yield()
            follower.wait(0.01)
    assert joined(updates, "records")["time"].null_count() == 1
    follower.close()


def test_gpu_seconds_come_as_they_are_recorded(tmp_path: Path, clock: Clock, compose: Compose) -> None:
    folder = make_run(tmp_path / "d16")
    follower = Follower([str(folder)], now=clock)
    assert [update.gpu for update in read(follower, clock) if update.gpu is not None] == []
    ticks = [(0, at * SECOND // 10, (500_000 + at, 90)) for at in range(50)]
    compose(folder / "gpu", [FAST], ticks)
    frames_read = [update.gpu for update in read(follower, clock) if update.gpu is not None]
    expected = frames.seconds(folder / "gpu")
    assert_frame_equal(pl.concat(frames_read).select(expected.columns), expected)
    (gpu,) = follower.runs[0].state.view().gpus
    assert (gpu.gpu, gpu.name, gpu.last["util_last"]) == ("0", "H100", 90)
    assert len(gpu.strips["power_w_mean"]) == expected.height
    assert [update for update in read(follower, clock) if update.gpu is not None] == []
    follower.close()


def test_without_a_view_only_whole_seconds_of_the_gpus_are_read(
    tmp_path: Path, clock: Clock, compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of the machine has ticks, too, which no view would show."""
    monkeypatch.setattr(run_folder, "now_ns", lambda _: 10**18 + 5 * SECOND)  # ticks begin at 10**18
    folder = make_run(tmp_path / "d16")
    for name in ("gpu", "host"):
        compose(folder / name, [FAST], [(0, at * SECOND // 10, (500_000 + at, 90)) for at in range(50)])
    follower = Follower([str(folder)], viewed=False, now=clock)
    (update,) = read(follower, clock)
    assert (update.gpu, update.machine) == (None, None)
    table = frames.seconds(folder / "gpu")
    means = [second.by_gpu()["0"]["power_w_mean"] for second in update.gpu_seconds]
    assert means == pytest.approx(table["power_w_mean"].to_list())
    assert read(follower, clock) == []
    follower.close()


@pytest.mark.parametrize("compacted", ["nothing", "what is sealed", "everything"])
def test_earlier_gpu_seconds_are_read_from_journals_and_from_parquet(
    tmp_path: Path, clock: Clock, compose: Compose, compacted: str
) -> None:
    """Three parts of five minutes: the last ten minutes of those that are over, and the one that is written."""
    folder = make_run(tmp_path / "d16")
    ticks = [(0, at * SECOND, (at * 1000, 90)) for at in range(900)]
    compose(folder / "gpu", [FAST], ticks, seal_after_s=300)
    whole = frames.seconds(folder / "gpu")
    if compacted != "nothing":
        parquet.compact(folder / "gpu", everything=compacted == "everything")
    follower = Follower([str(folder)], now=clock)
    frames_read = [update.gpu for update in read(follower, clock) if update.gpu is not None]
    shown = pl.concat(frames_read, how="diagonal").select(whole.columns)
    assert_frame_equal(shown, whole.tail(600) if compacted == "everything" else whole)
    (gpu,) = follower.runs[0].state.view().gpus
    assert gpu.last["power_w_mean"] == 899
    assert gpu.strips["power_w_mean"] == [float(watt) for watt in range(300, 900)]
    assert read(follower, clock) == []
    follower.close()


def test_events_of_the_recorder_are_read(tmp_path: Path, clock: Clock) -> None:
    folder = make_run(tmp_path / "d16")
    follower = Follower([str(folder)], now=clock)
    read(follower, clock)
    events.append(folder, START, "xid", "Xid 79 on GPU 0")
    (update,) = read(follower, clock)
    assert update.recorder_events[0]["text"] == "Xid 79 on GPU 0"
    assert follower.runs[0].state.view().events[-1]["kind"] == "xid"
    follower.close()


@pytest.mark.parametrize(
    "line", [b"{not json}\n", b"[1]\n", b"\xff\n", b'"text"\n'], ids=["broken", "list", "bytes", "text"]
)
def test_damaged_event_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    segment = run_folder.open_folder(make_run(tmp_path / "d16")).segments[-1]
    log = run_folder_reader.EventsFile(segment)
    with (segment.path / events.NAME).open("ab") as file:
        file.write(line)
    events.append(segment.path, START, "xid", "Xid 79 on GPU 0")
    assert [event["kind"] for event in log.read()[0]] == ["xid"]
    assert log.read()[0] == []
    log.close()


def test_segment_without_a_description_is_an_empty_one(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "d16")
    (run_folder.open_folder(folder).segments[-1].path / "run.json").write_text("{")
    _, described = run_folder_reader.descriptions(folder)
    assert described == [{}]
