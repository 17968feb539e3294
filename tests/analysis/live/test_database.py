"""A run that two nodes push, followed from a real Prometheus or VictoriaMetrics."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gputel.analysis.live.database import Database, FollowedDatabase
from gputel.analysis.live.follower import Follower
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import remote_write
from gputel.telemetry.remote.live_rows import LiveRow
from gputel.telemetry.remote.push import Backlog
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
    while not followed.trouble:
        list(followed.read())
        time.sleep(0.02)
    followed.close()
    assert followed.trouble == "not heard of for 30 s: node 0, 1"
    assert not followed.is_over


def test_server_that_is_away_is_asked_again() -> None:
    followed = FollowedDatabase("http://127.0.0.1:1", "d20")
    while not followed.trouble:
        list(followed.read())
        time.sleep(0.02)
    followed.close()
    assert "Connection refused" in (followed.trouble or "")


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(GputelError, match="is no address of a server"):
        Database("metrics.example.com", "d20", {})
