"""A run that two nodes push, followed from a real Prometheus or VictoriaMetrics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.live.database import Database, FollowedDatabase
from gputel.analysis.live.follower import Follower
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import remote_write
from gputel.telemetry.remote.live_rows import LiveRow
from gputel.telemetry.remote.push import Backlog
from tests.recordings import until
from tests.telemetry.remote import database as databases

START_S = 30


def push(folder: Path, database: databases.Database, run: str, *, ends: bool) -> int:
    """Twenty seconds of two nodes with a GPU each; a step takes two seconds. Returns the first second."""
    begun, backlog = int(time.time()) - START_S, Backlog()
    for second in range(20):
        row: dict[bytes, float] = {}
        for node in "01":
            labels = {"job": "gputel", "run": run, "node": node}
            gpu = {**labels, "gpu": "0"}
            row |= {
                remote_write.labels("gputel_up", labels): float(second < 19 or not ends),
                remote_write.labels("gputel_gpu_power_w_mean", gpu): 500.0 + second + 100 * int(node),
                remote_write.labels("gputel_gpu_info", {**gpu, "model": "H100", "host": f"pod{node}"}): 1.0,
            }
            if node == "0":
                row[remote_write.labels("gputel_step", labels)] = float(second // 2)
                row[remote_write.labels("gputel_train_loss", labels)] = 3.0 - second // 2 / 8
        backlog.add(LiveRow(begun + second, row))
    databases.push_all(folder, database, backlog)
    return begun


def trouble(followed: FollowedDatabase) -> str:
    """Follows it until something is wrong."""

    def look() -> str | None:
        list(followed.read())
        return followed.trouble

    try:
        return until(look, "what is wrong") or ""
    finally:
        followed.close()


@pytest.fixture
def run(tmp_path: Path) -> str:
    return tmp_path.name


def test_both_nodes_and_the_steps_are_followed(
    tmp_path: Path, database: databases.Database, run: str
) -> None:
    begun = push(tmp_path, database, run, ends=True)
    follower = Follower([])
    follower.runs.append(FollowedDatabase(database.address, run))
    records = []
    for updates in follower.updates():
        records += [
            row for update in updates if update.increment for row in update.increment.records.to_dicts()
        ]
    followed = follower.runs[0]
    view = followed.state.view()
    follower.close()
    assert [(gpu.node, gpu.host, gpu.name, gpu.last["power_w_mean"]) for gpu in view.gpus] == [
        ("0", "pod0", "H100", 519.0),
        ("1", "pod1", "H100", 619.0),
    ]
    assert [len(gpu.strips["power_w_mean"]) for gpu in view.gpus] == [20, 20]
    assert [(row["step"], row["loss"], row["time"].timestamp() - begun) for row in records] == [
        (step, 3.0 - step / 8, 2 * step) for step in range(9)
    ]
    assert (view.step, view.last["loss"]) == (9, 3.0 - 9 / 8)


def test_node_of_which_nothing_comes_is_named(tmp_path: Path, database: databases.Database, run: str) -> None:
    push(tmp_path, database, run, ends=False)
    followed = FollowedDatabase(database.address, run, now=lambda: time.time() + 60)
    assert trouble(followed) == "not heard of for 30 s: node 0, 1"
    assert not followed.is_over


def test_server_that_is_away_is_asked_again() -> None:
    assert "Connection refused" in trouble(FollowedDatabase("http://127.0.0.1:1", "d20"))


@pytest.mark.parametrize("address", ["metrics.example.com", "http://[::1", "http://host:port", "ftp://host"])
def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(GputelError, match="is no address of a server"):
        Database(address, "d20", {})


def test_token_does_not_cross_the_network_unencrypted() -> None:
    with pytest.raises(GputelError, match="would cross the network unencrypted"):
        Database("http://metrics.example.com", "d20", {"GPUTEL_PUSH_TOKEN": "secret"})


class PlayedAnswer(BaseHTTPRequestHandler):
    """Answers each question with the server's `answer`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), PlayedAnswer) as server:
        server.answer = answer  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


OK = b"HTTP/1.1 200 OK\r\n\r\n"
SERIES = '{"metric": {"__name__": "gputel_step"}, "values": [%s]}'


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        "null",
        '{"data": 5}',
        '{"data": {"result": {"a": 1}}}',
        '{"data": {"result": [[]]}}',
        '{"data": {"result": [{"metric": [], "values": []}]}}',
        '{"data": {"result": [{"metric": {}, "values": 5}]}}',
        '{"data": {"result": [{"metric": {}, "values": [5]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [[1]]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [["x", "1"]]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [[1, {}]]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [[1' + "0" * 400 + ", 1]]}]}}",
        "[" * 100_000,
    ],
    ids=range(14),
)
def test_answer_of_another_kind_is_one_line(answer: str) -> None:
    with answering(OK + answer.encode()) as address:
        assert (
            trouble(FollowedDatabase(address, "d20"))
            == "cannot be asked: the answer is not one of Prometheus' API"
        )


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"", "Remote end closed connection without response"),
        (b"\x1b[31mno http\r\n\r\n", r"\x1b[31mno http"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "HTTP Error 302: Found"),
    ],
    ids=range(3),
)
def test_answer_that_is_no_http_is_one_line(answer: bytes, fault: str) -> None:
    with answering(answer) as address:
        assert trouble(FollowedDatabase(address, "d20")) == f"cannot be asked: {fault}"


def test_values_that_no_node_pushes_are_left_out() -> None:
    steps = (
        '[NaN, "1"], [1e300, "1"], [-5, "1"], [10, "NaN"], [11, "1e300"], [12, "-3"], [13, "7"], [14, "8"]'
    )
    answer = {
        "data": {
            "result": [
                {"metric": {"__name__": "gputel_step"}, "values": json.loads(f"[{steps}]")},
                {"metric": {"__name__": "gputel_gpu_info", "node": "9" * 5000}, "values": [[13, "1"]]},
                {"metric": {"__name__": "gputel_gpu_power_w_mean"}, "values": [[13, "Inf"]]},
                {"metric": {"__name__": "gputel_train_loss"}, "values": [[13, "2.5"], [14, "2.25"]]},
                {"metric": {}, "values": [[13, "1"]]},
            ]
        }
    }
    with answering(OK + json.dumps(answer).encode()) as address:
        followed = FollowedDatabase(address, "d20")

        def rows_of_one_look() -> list[dict[str, Any]]:
            updates = [update.increment for update in followed.read() if update.increment]
            return [row for increment in updates for row in increment.records.to_dicts()]

        rows = until(rows_of_one_look, "rows")
        followed.close()
    assert (rows[0]["step"], rows[0]["loss"]) == (7, 2.5)
