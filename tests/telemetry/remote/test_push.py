"""What is pushed, in which order, and what becomes of it when the server will not have it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gputel.telemetry import events, run_folder, training_state
from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.remote import push, remote_write
from gputel.telemetry.remote.live_rows import LiveRow, LiveRows
from gputel.telemetry.remote.push import EMPTY, Backlog, Pusher
from gputel.telemetry.remote.receiver import PushAnswer, Receiver
from gputel.telemetry.store.tiers import Tier, TierColumn
from gputel.telemetry.training_state import TrainingState
from tests.recordings import until
from tests.telemetry.remote.database import Database, push_all

NOW = 1_790_000_000
SERIES = remote_write.labels("gputel_step", {"run": "d16"})
Compose = Callable[..., None]


@dataclass
class PlayedServer:
    """Answers as it is told to, and counts the seconds of each request by the request's length."""

    answers: list[PushAnswer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    address: str = "https://metrics.example.com"

    def post(self, body: bytes) -> PushAnswer:
        self.bodies.append(body)
        return self.answers.pop(0) if self.answers else PushAnswer("taken")

    @property
    def seconds(self) -> list[int]:
        """How many seconds each request had."""
        return [sum(body.count(bytes([0x12, 0x10, 0x09])) for body in [each]) for each in self.bodies]


def pushed(segment: Path, server: push.Server, count: int, most: int = push.HOUR) -> tuple[Pusher, Backlog]:
    backlog = Backlog(most)
    for second in range(count):
        backlog.add(LiveRow(NOW + second, {SERIES: float(second)}))
    return Pusher(segment, server, backlog, now=lambda: NOW), backlog


def texts(segment: Path) -> list[str]:
    return [event["text"] for event in events.read(segment) if event["kind"] == events.PUSH]


def test_nothing_is_sent_before_an_empty_request_was_taken(live_run: Path) -> None:
    server = PlayedServer([PushAnswer("later", "answers 401: no")])
    pusher, backlog = pushed(live_run, server, 3)
    assert 0.5 <= pusher.turn() <= 1
    assert (server.bodies, len(backlog)) == ([EMPTY], 3)
    assert [pusher.turn(), pusher.turn()] == [0.0, push.EVERY_S]
    assert server.seconds == [0, 0, 3]
    assert texts(live_run) == [
        "pushing is held up: https://metrics.example.com answers 401: no",
        "pushing goes on after 1 faults",
    ]


def test_backlog_is_sent_oldest_first_and_ten_seconds_at_a_time(live_run: Path) -> None:
    server = PlayedServer()
    pusher, backlog = pushed(live_run, server, 25)
    assert [pusher.turn() for _ in range(4)] == [0.0, 0.0, 0.0, push.EVERY_S]
    assert (server.seconds, len(backlog)) == ([0, 10, 10, 5], 0)
    assert (live_run / push.PUSHED).read_text() == f"{NOW + 24:012d}"


def test_refused_request_is_sent_second_by_second_and_the_bad_one_left_out(live_run: Path) -> None:
    no, yes = PushAnswer("refused", "answers 400: duplicate sample"), PushAnswer("taken")
    server = PlayedServer([yes, no, yes, yes, no, yes])
    pusher, backlog = pushed(live_run, server, 4)
    while len(backlog):
        pusher.turn()
    pusher.close()
    assert server.seconds == [0, 4, 1, 1, 1, 1]
    assert texts(live_run) == [
        "seconds are left out, as https://metrics.example.com answers 400: duplicate sample",
        "seconds that were not pushed: 1 were refused",
    ]


def test_server_that_fails_is_waited_for_ever_longer(live_run: Path) -> None:
    server = PlayedServer(
        [PushAnswer("taken"), *[PushAnswer("later", "answers 503", 0.0)] * 8, PushAnswer("later", "", 120.0)]
    )
    pusher, backlog = pushed(live_run, server, 1)
    pusher.turn()
    waits = [pusher.turn() for _ in range(9)]
    assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:5]))
    assert all(15 <= wait <= 30 for wait in waits[5:8])
    assert waits[8] == 120.0
    assert len(texts(live_run)) == 1
    pusher.turn()
    assert (len(texts(live_run)), len(backlog)) == (2, 0)


def test_only_the_last_hour_waits(live_run: Path) -> None:
    pusher, backlog = pushed(live_run, PlayedServer(), 12, most=5)
    rows, _ = backlog.first(10)
    assert [row.second - NOW for row in rows] == [7, 8, 9, 10, 11]
    pusher.turn()
    pusher.turn()
    pusher.close()
    assert texts(live_run) == [
        "more than an hour waits to be pushed: the oldest seconds are left out",
        "seconds that were not pushed: 7 waited for more than an hour",
    ]


def test_row_that_fell_out_while_it_was_sent_takes_no_other_with_it() -> None:
    _, backlog = pushed(Path(), PlayedServer(), 3, most=3)
    rows, _ = backlog.first(2)
    backlog.add(LiveRow(NOW + 3, {SERIES: 3.0}))
    backlog.done(rows)
    assert [row.second - NOW for row in backlog.first(10)[0]] == [2, 3]


def test_clock_ahead_of_the_server_holds_pushing_back(live_run: Path) -> None:
    server = PlayedServer([PushAnswer("taken", date_s=NOW - 61), PushAnswer("taken", date_s=NOW - 2)])
    pusher, backlog = pushed(live_run, server, 1)
    assert pusher.turn() > 0
    assert pusher.turn() == 0.0
    assert (server.seconds, len(backlog)) == ([0, 0], 1)
    assert "clock is ahead" in texts(live_run)[0]


def test_slow_answers_make_pushing_rarer(live_run: Path) -> None:
    ticks = iter([0.0, 0.0, 0.8, 0.8, 20.8])
    backlog = Backlog()
    pusher = Pusher(live_run, PlayedServer(), backlog, now=lambda: NOW, steady=lambda: next(ticks))
    next(ticks)
    pusher.turn()
    waits = []
    for second in range(2):
        backlog.add(LiveRow(NOW + second, {SERIES: 1.0}))
        waits.append(pusher.turn())
    assert waits == [1.6, push.RAREST_S]


# What a node pushes


@pytest.fixture
def segment(tmp_path: Path, compose: Compose) -> Path:
    """A recording of two seconds of two GPUs, made just now."""
    now = SystemClock().stamp()
    facts = {"run": "d16", "started": now.as_json(), "gpus": [{"gpu": "0", "uuid": "GPU-1", "name": "H100"}]}
    made = run_folder.create(tmp_path / "d16", facts)
    tier = Tier("fast", 4.0, tuple(TierColumn("power_w", "W", 1000, gpu) for gpu in "01"))
    compose(made.gpu, [tier], [(0, n * SECOND // 4, [n * 1000, 0]) for n in range(8)])
    return made.path


def named(rows: list[LiveRow]) -> set[bytes]:
    return {series for row in rows for series in row.values}


def series(name: str, **labels: str) -> bytes:
    return remote_write.labels(name, {"job": "gputel", "run": "d16", "node": "3", **labels})


def test_node_pushes_its_gpus_its_training_and_that_it_is_up(segment: Path) -> None:
    training_state.write(
        segment, TrainingState({"gputel_step": 7, "gputel_train_loss": float("nan")}, ["nan"])
    )
    rows = LiveRows(segment, "d16", "3").read()
    assert [row.values[series("gputel_gpu_power_w_max", gpu="0")] for row in rows[:2]] == [3.0, 7.0]
    latest = rows[-1].values
    assert latest[series("gputel_step")] == 7
    assert latest[series("gputel_alarm_active", rule="nan")] == 1
    assert latest[series("gputel_gpu_info", gpu="0", uuid="GPU-1", model="H100")] == 1
    assert [row.values[series("gputel_up")] for row in rows] == [1.0] * len(rows)


def test_no_series_goes_back_in_time(segment: Path, compose: Compose) -> None:
    live = LiveRows(segment, "d16", "3")
    live.read()
    power = series("gputel_gpu_power_w_mean", gpu="0")
    tier = Tier("fast", 4.0, (TierColumn("power_w", "W", 1000, "0"),))
    compose(segment / "gpu", [tier], [(0, n * SECOND // 4, [1]) for n in range(12)])
    assert [row.second - 10**9 for row in live.read() if power in row.values] == [2]


def test_alarm_that_ends_and_a_recording_that_ends_are_zero(segment: Path) -> None:
    live, alarm = LiveRows(segment, "d16", "3"), series("gputel_alarm_active", rule="nan")
    training_state.write(segment, TrainingState({}, ["nan"]))
    assert live.read()[-1].values[alarm] == 1
    training_state.write(segment, TrainingState({}, []))
    run_folder.update(segment, ended=SystemClock().stamp().as_json())
    latest = live.read()[-1].values
    assert (latest[alarm], latest[series("gputel_up")]) == (0, 0)


def test_state_that_is_not_replaced_counts_as_unknown(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training_state.write(segment, TrainingState({"gputel_step": 7}, []))
    written = json.loads((segment / training_state.NAME).read_text())
    written["boot_ns"] -= 16 * SECOND
    (segment / training_state.NAME).write_text(json.dumps(written))
    assert training_state.read(segment) is None
    assert series("gputel_step") not in named(LiveRows(segment, "d16", "3").read())


# Real servers


def test_server_counts_back_every_second(live_run: Path, database: Database) -> None:
    run, start = f"{live_run}", int(time.time()) - 100
    backlog = Backlog()
    for second in range(90):
        power = {
            remote_write.labels("gputel_gpu_power_w_mean", {"run": run, "gpu": f"{g}"}): g + second / 8
            for g in range(8)
        }
        backlog.add(LiveRow(start + second, power))
    push_all(live_run, database, backlog)
    expected = {
        f"{gpu}": [(start + second, f"{gpu + second / 8:g}") for second in range(90)] for gpu in range(8)
    }

    def complete() -> bool:  # VictoriaMetrics shows samples a moment after it has taken them
        found = database.samples(f'gputel_gpu_power_w_mean{{run="{run}"}}')
        assert all(set(found.get(gpu, [])) <= set(samples) for gpu, samples in expected.items())
        return found == expected

    until(complete, "every second of every GPU", pause_s=0.05)
    assert not texts(live_run)


def test_second_that_the_server_refuses_costs_no_other_one(live_run: Path, database: Database) -> None:
    """Prometheus takes nothing that is older than the series; VictoriaMetrics takes everything."""
    run, now = f"{live_run}-order", int(time.time()) - 20
    step = remote_write.labels("gputel_step", {"run": run})
    server = Receiver(database.address, {})
    for seconds in ([6], [5, 7, 8]):
        backlog = Backlog()
        for second in seconds:
            backlog.add(LiveRow(now + second, {step: float(second)}))
        pusher = Pusher(live_run, server, backlog, now=time.time)
        while len(backlog):
            pusher.turn()
        pusher.close()
    server.close()
    refused = "prometheus" in str(database.process.args)
    expected = [6, 7, 8] if refused else [5, 6, 7, 8]

    def shown() -> list[float]:
        return [at - now for at, _ in database.samples(f'gputel_step{{run="{run}"}}').get("", [])]

    until(lambda: shown() == expected, lambda: f"{expected}, not {shown()}", pause_s=0.05)
    assert len(texts(live_run)) == 2 * refused
