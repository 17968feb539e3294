"""Following as a whole: what is new, put together, is what a finished run is parsed to; and what is known of it."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from gputel.analysis.live.follower import Follower, Update
from gputel.analysis.live.view import Terms
from gputel.analysis.logs.incremental import Increment
from gputel.analysis.runs import recording
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import keeper
from gputel.telemetry.store import frames, parquet
from gputel.telemetry.store.tiers import GpuColumn, Tier
from tests.conftest import Compose

STEP = "step {:05d}/00400 (0.1%) | loss: {:.6f} | lrm: 1.00 | dt: 500.00ms | total time: {:.2f}m\n"
TRACEBACK = "Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n"
START = 1_800_000_000 * SECOND
FAST = Tier("fast", 10.0, (GpuColumn("power_w", "W", 1000, "0"), GpuColumn("util", "%", 1, "0")))


def log_of(steps: range) -> str:
    lines = [STEP.format(step, 5 - step / 100, step / 120) for step in steps]
    for at in range(len(lines) - 1, 0, -50):
        lines.insert(at, f"Step {steps[at]:05d} | Validation bpb: {2 - at / 1000:.6f}\n")
        lines.insert(at, f"saved checkpoint to out/ckpt_{steps[at]}.pt\n")
    return "".join(lines)


def record(segment: Path, text: str, wall_ns: int) -> None:
    with (segment / "output.log").open("a") as output:
        output.write(text)
    with (segment / "output.idx").open("ab") as index:
        index.write(keeper.pack(wall_ns, (segment / "output.log").stat().st_size))


def a_run(folder: Path) -> Path:
    gpu = {"gpu": "0", "uuid": "GPU-1", "name": "H100", "memory_total_mib": 81559, "limits": {"power_w": 700}}
    run_folder.create(
        folder, {"run": "d16", "started": {"wall_ns": START}, "gpus": [gpu, {**gpu, "gpu": "1"}]}
    )
    return folder


def together(news: list[Update], table: str) -> pl.DataFrame:
    found: list[pl.DataFrame] = []
    for one in news:
        if isinstance(one.increment, Increment):
            found = [] if one.increment.afresh else found
            found.append(getattr(one.increment, table))
    return pl.concat(found, how="diagonal").sort("line", maintain_order=True)


class Clock:
    """Goes a second further with every reading, so that each looks for what has appeared."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def read(follower: Follower, clock: Clock) -> list[Update]:
    clock.now += 1
    return follower.read()


@pytest.mark.parametrize("seed", range(5))
def test_a_run_folder_that_grows_gives_what_it_is_parsed_to(tmp_path: Path, clock: Clock, seed: int) -> None:
    chance, folder = random.Random(seed), a_run(tmp_path / "d16")
    text, news = log_of(range(200)), []
    follower = Follower([str(folder)], now=clock)
    moment = START
    while text:
        size, moment = chance.randint(1, 3000), moment + SECOND
        record(folder, text[:size], moment)
        text = text[size:]
        news += read(follower, clock)
    run_folder.update(folder, ended={"wall_ns": moment})
    for _ in range(3):
        news += read(follower, clock)
    parsed = recording.open_recording(folder).log
    for table in ("records", "evals", "events"):
        theirs = getattr(parsed, table).sort("line", maintain_order=True)
        ours = together(news, table).select(theirs.columns)
        by = ["line", "kind"] if table == "events" else ["line"]
        assert_frame_equal(ours.sort(by), theirs.sort(by))
    assert follower.is_over
    follower.close()


def test_lines_that_a_crash_left_without_a_stamp_come_after_a_second_without_a_moment(
    tmp_path: Path, clock: Clock
) -> None:
    folder = a_run(tmp_path / "d16")
    record(folder, STEP.format(1, 2, 0), START)
    with (folder / "output.log").open("a") as output:
        output.write(STEP.format(2, 2, 0) + STEP.format(3, 2, 0))
    follower = Follower([str(folder)], now=clock)
    news: list[Update] = []
    deadline = 2000
    while together(news, "records").height < 2 if news else True:
        news += read(follower, clock)
        deadline -= 1
        assert deadline
        if not news or together(news, "records").height < 2:
            os.sched_yield()
            follower.wait(0.01)
    assert together(news, "records")["time"].null_count() == 1
    follower.close()


def test_seconds_of_the_gpus_come_as_they_are_recorded(
    tmp_path: Path, clock: Clock, compose: Compose
) -> None:
    folder = a_run(tmp_path / "d16")
    follower = Follower([str(folder)], now=clock)
    assert [one.gpu for one in read(follower, clock) if one.gpu is not None] == []
    ticks = [(0, at * SECOND // 10, (500_000 + at, 90)) for at in range(50)]
    compose(folder / "gpu", [FAST], ticks)
    found = [one.gpu for one in read(follower, clock) if one.gpu is not None]
    theirs = frames.seconds(folder / "gpu")
    assert_frame_equal(pl.concat(found), theirs)
    (gpu,) = follower.runs[0].state.view().gpus
    assert (gpu.gpu, gpu.name, gpu.last["util_last"]) == ("0", "H100", 90)
    assert len(gpu.strips["power_w_mean"]) == theirs.height
    assert [one for one in read(follower, clock) if one.gpu is not None] == []
    follower.close()


@pytest.mark.parametrize("compacted", ["nothing", "what is sealed", "everything"])
def test_the_gpus_of_what_was_there_before_are_shown_whether_it_was_compacted_or_not(
    tmp_path: Path, clock: Clock, compose: Compose, compacted: str
) -> None:
    """Three parts of five minutes: the last ten minutes of those that are over, and the one that is written."""
    folder = a_run(tmp_path / "d16")
    ticks = [(0, at * SECOND, (at * 1000, 90)) for at in range(900)]
    compose(folder / "gpu", [FAST], ticks, seal_after_s=300)
    whole = frames.seconds(folder / "gpu")
    if compacted != "nothing":
        parquet.compact(folder / "gpu", everything=compacted == "everything")
    follower = Follower([str(folder)], now=clock)
    found = [one.gpu for one in read(follower, clock) if one.gpu is not None]
    assert_frame_equal(pl.concat(found), whole.tail(600) if compacted == "everything" else whole)
    (gpu,) = follower.runs[0].state.view().gpus
    assert gpu.last["power_w_mean"] == 899
    assert gpu.strips["power_w_mean"] == [float(watt) for watt in range(300, 900)]
    assert read(follower, clock) == []
    follower.close()


def test_seconds_without_a_sample_are_holes_in_a_strip(
    tmp_path: Path, clock: Clock, compose: Compose
) -> None:
    folder = a_run(tmp_path / "d16")
    ticks = [(0, at * SECOND, (at * 1000, 90)) for at in (0, 1, 5, 6)]
    compose(folder / "gpu", [FAST], ticks)
    follower = Follower([str(folder)], now=clock)
    read(follower, clock)
    (gpu,) = follower.runs[0].state.view().gpus
    assert str(gpu.strips["power_w_mean"]) == "[0.0, 1.0, nan, nan, nan, 5.0, 6.0]"
    follower.close()


def test_what_the_recorder_saw_is_told(tmp_path: Path, clock: Clock) -> None:
    folder = a_run(tmp_path / "d16")
    follower = Follower([str(folder)], now=clock)
    read(follower, clock)
    events.append(folder, START, "xid", "Xid 79 on GPU 0")
    (news,) = read(follower, clock)
    assert news.recorder_events[0]["text"] == "Xid 79 on GPU 0"
    assert follower.runs[0].state.view().events[-1]["kind"] == "xid"
    follower.close()


def view_of(tmp_path: Path, clock: Clock, text: str, terms: Terms | None = None) -> Any:
    (tmp_path / "train.log").write_text(text)
    follower = Follower([str(tmp_path / "train.log")], now=clock)
    read(follower, clock)
    follower.close()
    return follower.runs[0].state.view(terms)


def test_a_view_says_where_the_run_stands(tmp_path: Path, clock: Clock) -> None:
    view = view_of(tmp_path, clock, log_of(range(201)), Terms(price=4.0, budget=1.0, gpus=8))
    assert (view.status, view.phase, view.step, view.total_steps) == ("unknown", "train", 200, 400)
    assert view.last["loss"] == 3.0
    assert view.seconds_a_step == 0.5
    assert view.eta_s == 100
    assert view.elapsed_s == pytest.approx(200 / 120 * 60, abs=0.5)
    assert view.cost.per_hour == 32
    assert view.cost.spent == pytest.approx(32 * view.elapsed_s / 3600)
    assert view.cost.is_over
    assert view.curves["loss"].least.min() == pytest.approx(3.01)
    assert len(view.evals["val_bpb"].step) >= 3
    assert [event.kind for event in view.upcoming][-1] == "end"


@pytest.mark.parametrize(
    ("text", "status", "cause"),
    [
        (log_of(range(400)), "completed", None),
        (
            log_of(range(9))
            + "Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n",
            "failed",
            "RuntimeError: CUDA out of memory.",
        ),
        (log_of(range(9)) + "KeyboardInterrupt\n", "interrupted", "KeyboardInterrupt"),
    ],
)
def test_a_view_says_how_the_run_ended(
    tmp_path: Path, clock: Clock, text: str, status: str, cause: str | None
) -> None:
    view = view_of(tmp_path, clock, text)
    assert (view.status, view.cause) == (status, cause)
    assert view.eta_s is None
    assert view.upcoming == []


def test_a_run_that_went_back_shows_the_later_attempt(tmp_path: Path, clock: Clock) -> None:
    later = "".join(STEP.format(step, 9.0, 1) for step in range(50, 60))
    view = view_of(tmp_path, clock, log_of(range(100)) + later)
    assert (view.attempt, view.step) == (2, 59)
    assert view.curves["loss"].step[-1] <= 59
    assert view.curves["loss"].largest.max() == 9.0


def test_a_fifo_is_followed(tmp_path: Path, clock: Clock) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    follower = Follower([str(fifo)], now=clock)
    assert read(follower, clock) == []
    with fifo.open("w") as writer:
        writer.write(STEP.format(1, 2, 0))
    (news,) = read(follower, clock)
    assert news.run == str(fifo)
    assert news.increment
    assert news.increment.open_records["step"].to_list() == [1]
    follower.close()


def test_a_compressed_log_of_a_megabyte_is_read_at_once(tmp_path: Path, clock: Clock) -> None:
    """It is unpacked in small pieces, and a look for each of them would take a minute."""
    with gzip.open(tmp_path / "old.log.gz", "wt") as packed:
        packed.write(log_of(range(30_000)))
    follower = Follower([str(tmp_path)], now=clock)
    assert together(read(follower, clock), "records")["step"].to_list() == list(range(29_999))
    follower.close()


def test_a_compressed_log_is_read_and_over(tmp_path: Path, clock: Clock) -> None:
    with gzip.open(tmp_path / "old.log.gz", "wt") as packed:
        packed.write(log_of(range(50)))
    follower = Follower([str(tmp_path)], now=clock)
    news = [one for _ in range(3) for one in read(follower, clock)]
    assert together(news, "records")["step"].to_list() == list(range(50))
    assert follower.is_over
    follower.close()


def test_what_is_waited_for_is_a_folder_without_a_log_or_not_there_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    follower = Follower([str(tmp_path / "empty"), str(tmp_path / "gone.log")])
    follower.read()
    assert follower.awaited == [
        f"{tmp_path}/empty: no log or run in it yet; waiting for one",
        f"{tmp_path}/gone.log: does not exist yet; waiting for it",
    ]
    follower.close()
