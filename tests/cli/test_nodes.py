"""`gputel nodes`: what several machines recorded into one run."""

import json
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND, SystemClock, boot_name
from gputel.telemetry.remote import courier
from gputel.telemetry.remote.storage import Storage
from tests.command import gputel
from tests.recordings.printed import clock, fill, step

LATE_S = 3.5


def nodes_of(run: Path | str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(gputel("nodes", run, "--json").stdout)["nodes"]
    return answer


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two nodes that print the same steps; the second was started twice, and prints late."""
    gpus = [{"gpu": "0", "name": "H100"}, {"gpu": "1", "name": "H100"}]
    for node, late in (("0", 0.0), ("1", LATE_S)):
        facts = {"run": "r", "gpus": gpus, "host": {"name": f"pod-{node}"}, "started": clock(0)}
        ended = {"ended": clock(60), "exit_code": 0}
        segment = run_folder.create(tmp_path / "r", {**facts, **ended}, node=node)
        fill(segment, [(10 + n + late, step(n, dt_ms=1000)) for n in range(20)])
    run_folder.add_segment(tmp_path / "r", {**facts, "started": clock(100)}, node="1")
    return tmp_path / "r"


def test_each_node_has_a_row(run: Path) -> None:
    first, second = nodes_of(run)
    assert (first["node"], first["host"], first["gpus"], first["segments"]) == ("0", "pod-0", "2 x H100", 1)
    assert (second["node"], second["host"], second["segments"]) == ("1", "pod-1", 2)
    assert (first["ended"] is None, second["ended"] is None) == (False, True)
    assert {first["steps"], second["steps"]} == {20}


def test_clocks_are_compared_by_lines_of_steps_where_nothing_else_tells(run: Path) -> None:
    first, second = nodes_of(run)
    assert (first["offset_ms"], second["offset_ms"]) == (0, pytest.approx(1000 * LATE_S))
    assert second["how"] == "lines of steps"


def test_table_says_which_node_goes_on(run: Path) -> None:
    lines = gputel("nodes", run).stdout.splitlines()
    assert "2 nodes" in lines[0]
    assert [line.split()[0] for line in lines if "pod-" in line] == ["0", "1"]
    assert [("still running or cut off" in line) for line in lines if "pod-" in line] == [False, True]


def test_run_of_one_machine_has_one_node(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "r", {"run": "r", "started": clock(0)})
    (only,) = nodes_of(tmp_path / "r")
    assert (only["node"], only["offset_ms"]) == ("0", 0)


AHEAD_S = 5.0


def sent_by_two_nodes(tmp_path: Path, late_s: float) -> str:
    """The address of a run: node 1 prints its steps so late, and its wall clock is five seconds ahead."""
    address = f"file://{tmp_path}/bucket/r"
    for node, ahead_s, late in (("0", 0.0, 0.0), ("1", AHEAD_S, late_s)):
        stamp = SystemClock().stamp()
        started = stamp._replace(wall=stamp.wall + round(ahead_s * SECOND)).as_json()
        facts = {"run": "r", "node_rank": int(node), "host": {"boot": boot_name()}, "started": started}
        segment = run_folder.create(tmp_path / f"pod{node}" / "r", facts, node=node)
        fill(segment, [(n + ahead_s + late, step(n, dt_ms=1000)) for n in range(20)])
        sender = courier.Courier(
            segment.path, Storage(address, create=True), f"nodes/{node}/", [], courier.Sent()
        )
        for number in range(3):
            events.note(segment.path, "mark", f"{number}")
            sender.send(over=False)
    return address


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")


@pytest.mark.usefixtures("cache")
def test_clock_of_storage_tells_how_far_those_of_nodes_are_apart(tmp_path: Path) -> None:
    _, second = nodes_of(sent_by_two_nodes(tmp_path, 0.0))
    assert second["how"] == "clock of storage"
    assert second["uncertainty_ms"] <= 1500
    assert abs(second["offset_ms"] - 1000 * AHEAD_S) <= second["uncertainty_ms"]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("late_s", "answer", "why"),
    [
        (20.0, "yes", "1: it prints a step "),
        (0.3, "none", "is within the uncertainty of the clocks"),
    ],
)
def test_node_that_is_always_late_is_named_beyond_the_uncertainty_of_the_clocks(
    tmp_path: Path, late_s: float, answer: str, why: str
) -> None:
    verdicts = json.loads(gputel("report", sent_by_two_nodes(tmp_path, late_s), "--json").stdout)["verdicts"]
    (found,) = [verdict for verdict in verdicts if verdict["question"] == "stragglers"]
    assert found["answer"] == answer
    assert why in found["evidence"][-1]


def test_node_whose_clock_was_compared_with_none_is_not_judged_by_its_delay(run: Path) -> None:
    verdicts = json.loads(gputel("report", run, "--json").stdout)["verdicts"]
    (found,) = [verdict for verdict in verdicts if verdict["question"] == "stragglers"]
    assert found["answer"] == "none"
    assert found["evidence"][-1].endswith("its clock was compared with no other")


@pytest.mark.usefixtures("cache")
def test_fleet_that_goes_on_is_named_by_two_of_its_nodes_and_a_count(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/bucket/r"
    for node in range(12):
        facts = {"run": "r", "node_rank": node, "started": clock(0)}
        segment = run_folder.create(tmp_path / f"pod{node}" / "r", facts, node=f"{node}")
        place = Storage(address, create=True)
        courier.Courier(segment.path, place, f"nodes/{node}/", [], courier.Sent()).send(over=False)
    lines = gputel("nodes", address).stderr.splitlines()
    assert [line.partition(": ")[2][:30] for line in lines] == [
        "nodes/0 is not sealed; its new",
        "nodes/1 is not sealed; its new",
        "10 more are not sealed; the ne",
    ]
