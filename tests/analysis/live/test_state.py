"""The state of a followed run: where it stands, how it ended."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import gputel
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.state import RunState
from gputel.analysis.live.update import Update
from gputel.analysis.live.view import Terms
from gputel.analysis.logs.incremental import Increments
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import output_index
from tests.analysis.live.scenes import (
    START,
    STEP,
    Clock,
    log_of,
    view_of,
)


def test_view_has_step_pace_and_cost(tmp_path: Path, clock: Clock) -> None:
    view = view_of(tmp_path, clock, log_of(range(201)), Terms(price=4.0, budget=1.0, gpus=8))
    assert (view.status, view.phase, view.step, view.total_steps) == ("unknown", "train", 200, 400)
    assert view.last["loss"] == 3.0
    assert view.seconds_a_step == 0.5
    assert view.eta_s == 99.5  # step 399 is the last
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
        ("Resuming from checkpoint out/step_000300.pt\n" + log_of(range(300, 400)), "completed", None),
        (
            log_of(range(9))
            + "Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n",
            "failed",
            "RuntimeError: CUDA out of memory.",
        ),
        (log_of(range(9)) + "KeyboardInterrupt\n", "interrupted", "KeyboardInterrupt"),
    ],
)
def test_view_has_the_status_and_its_cause(
    tmp_path: Path, clock: Clock, text: str, status: str, cause: str | None
) -> None:
    view = view_of(tmp_path, clock, text)
    assert (view.status, view.cause) == (status, cause)
    assert view.eta_s is None
    assert view.upcoming == []


def test_resumed_run_shows_its_later_attempt(tmp_path: Path, clock: Clock) -> None:
    later = "".join(STEP.format(step, 9.0, 1) for step in range(50, 60))
    view = view_of(tmp_path, clock, log_of(range(100)) + later)
    assert (view.attempt, view.step) == (2, 59)
    assert view.curves["loss"].step[-1] <= 59
    assert view.curves["loss"].largest.max() == 9.0


NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def pod_log(steps: int, begun: datetime = NOON, banner: str = "", every: int = 1, more: str = "") -> str:
    """What `kubectl logs --timestamps` prints of a step a second, with an evaluation of a minute at the end."""
    lines = [f"{begun - timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ} {banner}\n"] if banner else []
    lines += [
        f"{begun + timedelta(seconds=step):%Y-%m-%dT%H:%M:%SZ} "
        f"step {step:05d}/20000 | loss: 3.0 | dt: 1000.00ms{more}\n"
        for step in range(0, steps, every)
    ]
    end = begun + timedelta(seconds=steps + 60)
    return "".join([*lines, f"{end:%Y-%m-%dT%H:%M:%SZ} Step {steps:05d} | Validation loss: 3.1\n"])


def state_of(text: str, now: datetime, *, live: bool = False) -> RunState:
    growing, state = Increments(), RunState("pod", "pod.log", now.timestamp)
    growing.feed(text.encode())
    state.take(Update("pod", "pod.log", increment=growing.take(now), log=growing, live=live))
    return state


@pytest.mark.parametrize("every", [1, 10])
def test_elapsed_and_cost_of_a_log_come_from_its_timestamps_and_its_gpus(every: int) -> None:
    now = NOON + timedelta(seconds=6100)
    state = state_of(pod_log(6000, banner="Distributed world size: 8", every=every), now, live=True)
    view = state.view(Terms(price=2.0, budget=30.0))
    assert view.elapsed_s == 6061  # from its first line, before its first step
    assert view.cost is not None
    assert (view.cost.gpus, view.cost.per_hour, view.cost.caution) == (8, 16.0, None)
    assert view.cost.spent == pytest.approx(16 * 6061 / 3600)
    assert view.eta_s == pytest.approx(14_000, abs=every)
    assert view.cost.is_over


def test_time_left_holds_evaluations_and_checkpoints_as_often_as_before() -> None:
    """100 steps of a second, with a minute of evaluation behind every 20: 100 more take 5 minutes of it."""
    second, lines = 0, []
    for step in range(111):
        if step and step % 20 == 0:
            second += 60
            lines.append((second, f"Step {step:05d} | Validation loss: 3.1"))
        second += 1
        lines.append((second, f"step {step:05d}/00211 | loss: 3.0 | dt: 1000.00ms"))
    text = "".join(
        f"{NOON + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ} {line}\n" for second, line in lines
    )
    view = state_of(text, NOON + timedelta(seconds=second), live=True).view()
    assert view.eta_s == pytest.approx(100 + 5 * 60, rel=0.1)


@pytest.mark.parametrize(("printed", "expected_s"), [("30.0m", 1_800), ("0.9m", 1_888), ("1800.0m", 1_888)])
def test_printed_time_left_counts_only_within_a_factor_of_two(printed: str, expected_s: float) -> None:
    """A time left of an epoch, or in another unit, is not that of the run: the steps left are."""
    text = "".join(
        f"{NOON + timedelta(seconds=step):%Y-%m-%dT%H:%M:%SZ} "
        f"step {step:05d}/02000 (1.00%) | loss: 3.0 | dt: 1000.00ms | eta: {printed}\n"
        for step in range(112)
    )
    view = state_of(text, NOON + timedelta(seconds=111), live=True).view()
    assert view.eta_s == pytest.approx(expected_s)


def test_time_left_does_not_repeat_a_stall_of_a_night() -> None:
    stamps = [step + (36_000 if step > 50 else 0) + 10 * (step // 20) for step in range(101)]
    text = "".join(
        f"{NOON + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ} step {step:05d}/00201 | loss: 3.0\n"
        for step, second in enumerate(stamps)
    )
    view = state_of(text, NOON + timedelta(seconds=stamps[-1]), live=True).view()
    assert view.eta_s is not None
    assert view.eta_s < 300


def test_throughput_in_thousands_is_shown_in_tokens_and_said() -> None:
    """The script divides by milliseconds: a followed run shows what its report shows."""
    banner = "desired batch size (number of tokens): 524288"
    view = state_of(pod_log(50, banner=banner, more=" | tok/sec: 524.29"), NOON).view()
    assert view.last["tok_per_sec"] == pytest.approx(524_288, rel=1e-3)
    assert view.curves["tok_per_sec"].mean[-1] == pytest.approx(524_288, rel=1e-3)
    assert view.caution is not None
    assert "tok/s as printed is 1/1,000 of tokens / dt" in view.caution


def test_printed_time_counts_only_without_timestamps() -> None:
    """nanochat's total time leaves out the first steps and all evaluations."""
    text = pod_log(100, more=" | total time: 1.00m")
    assert state_of(text, NOON).view().elapsed_s == 160
    bare = "".join(line.partition(" ")[2] for line in text.splitlines(keepends=True))
    assert state_of(bare, NOON).view().elapsed_s == 60


def test_number_of_gpus_follows_from_the_printed_mfu() -> None:
    banner = "Estimated FLOPs per token: 1.038090e+09"
    rate = 0.4 * 8 * 989e12 / 1.03809e9
    text = pod_log(50, banner=banner, more=f" | tok/sec: {rate:,.0f} | mfu: 40.00")
    cost = state_of(text, NOON).view(Terms(price=2.0)).cost
    assert cost is not None
    assert cost.gpus == 8


def test_cost_without_a_number_of_gpus_is_that_of_one_and_says_so() -> None:
    state = state_of(pod_log(3540), NOON)
    cost, named = state.view(Terms(price=2.0)).cost, state.view(Terms(price=2.0, gpus=8)).cost
    assert cost is not None
    assert named is not None
    assert (cost.gpus, cost.spent) == (None, 2.0)
    assert cost.caution == "for one GPU: the log names no number, give --gpus"
    assert (named.spent, named.caution) == (16.0, None)


def test_each_printing_rank_is_a_gpu() -> None:
    text = "".join(f"[rank{rank}] step {step} | loss: 3.0\n" for step in range(9) for rank in range(4))
    stamped = "".join(f"2026-11-21T12:{n // 4:02d}:00Z {line}\n" for n, line in enumerate(text.splitlines()))
    cost = state_of(stamped, NOON).view(Terms(price=2.0)).cost
    assert cost is not None
    assert cost.gpus == 4


@pytest.mark.parametrize(("age_h", "has_eta"), [(1, True), (13, True), (16, False), (24 * 365, False)])
def test_log_with_old_timestamps_has_no_eta(age_h: int, *, has_eta: bool) -> None:
    """A time zone may be 14 hours away; a pipe and a copy make an old log look new."""
    view = state_of(pod_log(1000), NOON + timedelta(hours=age_h), live=True).view(Terms(price=2.0))
    assert (view.eta_s is not None) is has_eta
    assert bool(view.upcoming) is has_eta
    assert view.elapsed_s == 1060
    assert view.cost is not None
    assert (view.cost.at_end is not None) is has_eta


def test_recording_describes_its_gpus_and_its_end(tmp_path: Path) -> None:
    state = RunState("d16", "d16", lambda: START / SECOND + 7200)
    gpus = [{"gpu": str(index)} for index in range(2)]
    state.describe([{"run": "d16", "started": {"wall_ns": START}, "gpus": gpus}])
    view = state.view(Terms(price=4.0))
    assert (view.status, view.elapsed_s) == ("running", 7200)
    assert view.cost is not None
    assert (view.cost.gpus, view.cost.spent) == (2, 16.0)
    ended = {"wall_ns": START + 3600 * SECOND}
    state.describe(
        [
            {
                "run": "d16",
                "started": {"wall_ns": START},
                "ended": ended,
                "exit_code": 7,
                "argv": ["a"],
                "gpus": gpus,
            }
        ]
    )
    assert (state.view().status, state.view().elapsed_s, state.exit_code) == ("failed", 3600, 7)


@pytest.mark.parametrize(
    ("code", "stopped", "is_asked_for"),
    [
        (130, None, True),
        (143, {"rule": "budget", "text": "spent"}, True),
        (143, None, False),
        (1, None, False),
    ],
)
def test_end_that_its_user_asked_for_is_no_failure(
    code: int, stopped: dict[str, str] | None, is_asked_for: bool
) -> None:
    state = state_of(pod_log(30), NOON)
    state.describe([{"ended": {"wall_ns": START}, "exit_code": code, "stopped": stopped}])
    assert state.exit_facts(code) == {"code": code, "stopped": is_asked_for}


@pytest.mark.parametrize(
    ("facts", "status", "cause"),
    [
        ({"exit_code": 0}, "completed", None),
        ({"exit_code": 7}, "failed", "the command ended with exit code 7"),
        ({"exit_code": 130}, "interrupted", "the command was ended by Ctrl-C"),
        ({"exit_code": 143}, "interrupted", "the command was ended by SIGTERM"),
        ({"exit_code": None}, "ended", None),
        (
            {"exit_code": 0, "stopped": {"rule": "hours", "text": "time limit of 31 h reached"}},
            "interrupted",
            "time limit of 31 h reached",
        ),
    ],
)
def test_recording_ends_as_its_recorder_says(
    facts: dict[str, object], status: str, cause: str | None
) -> None:
    """A training that ends early by its own options has completed, at whatever step."""
    state = state_of(pod_log(30), NOON)
    recorded = {"argv": ["python", "train.py"], "started": {"wall_ns": START}, **facts}
    state.describe([{**recorded, "ended": {"wall_ns": START + SECOND}}])
    view = state.view()
    assert (view.status, view.cause, view.eta_s) == (status, cause, None)


def test_fleet_shows_the_steps_of_its_first_node_and_the_last_step_of_each() -> None:
    """Node 10 is not node 1; node 2 was started twice."""
    state = RunState("r", "r")
    state.describe([{"node_rank": 2, "started": {}}])
    for stream, steps in (("nodes/10", 30), ("nodes/2", 50), ("nodes/2/segments/2", 80)):
        growing = Increments()
        growing.feed("".join(f"step {n} | loss 2.5\n" for n in range(steps)).encode())
        state.take(Update("r", "r", stream, increment=growing.take(NOON), log=growing))
    view = state.view()
    assert view.step == view.steps_of_nodes["2"] > 50 > view.steps_of_nodes["10"]


@pytest.mark.parametrize(
    ("behind", "status"),
    [([], "interrupted"), ([3], "interrupted"), ([3, 4], "completed"), ([99], "completed")],
)
@pytest.mark.parametrize(
    "signal", ["caught SIGINT - writing checkpoint before exit\n", "KeyboardInterrupt\n"]
)
def test_report_and_tail_agree_on_how_a_run_ended(
    behind: list[int], status: str, signal: str, tmp_path: Path
) -> None:
    """A loop that catches a signal may finish its step, and ends with 0."""
    step = "step {}/100 | loss: 3.0\n"
    text = "".join(map(step.format, range(3))) + signal + "".join(map(step.format, behind))
    ended = {"started": {"wall_ns": START}, "ended": {"wall_ns": START + SECOND}, "exit_code": 0}
    segment = run_folder.create(tmp_path / "d12", {"run": "d12", "argv": ["a"], **ended})
    segment.output.write_text(text)
    segment.index.write_bytes(output_index.pack(START, len(text)))
    log = gputel.parse(tmp_path / "d12").log
    with contextlib.closing(Follower([str(tmp_path / "d12")])) as follower:
        while follower.read():
            pass
        view = follower.runs[0].state.view()
    assert (log.status, log.cause and log.cause.text) == (view.status, view.cause)
    assert view.status == status
