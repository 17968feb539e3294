"""Incidents of several nodes are one hang where they stood at one moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputel.analysis.incidents import hangs, incident
from gputel.analysis.incidents.process_states import standings
from gputel.analysis.incidents.verdict import judge
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.inside.stacks import ProcessLook
from gputel.telemetry.process import output_index
from gputel.telemetry.run_folder import Segment
from tests.analysis.incidents.processes import ALL_REDUCE, LOADER, READS, WORKER, later, process, worker

START = 1_795_000_000
WAITS = [process(0, *ALL_REDUCE), process(1, *ALL_REDUCE)]
HOLDS = [process(2, *ALL_REDUCE), process(3, *READS)]


def node(
    tmp_path: Path, name: str, looks: list[ProcessLook], asked: int, printed: tuple[int, ...]
) -> Segment:
    """A node that printed at these seconds, and whose silence was looked into at one."""
    segment = run_folder.create(tmp_path, {}, node=name)
    reads = [output_index.pack((START + second) * SECOND, end + 1) for end, second in enumerate(printed)]
    segment.index.write_bytes(b"".join(reads))
    found = standings([looks, [later(each) for each in looks]])
    verdict = judge(found)
    assert verdict
    since = max((second for second in printed if second < asked), default=None)
    began = None if since is None else (START + since) * SECOND
    written = incident.write(segment.path, (START + asked) * SECOND, began, verdict, found)
    events.append(segment.path, (START + asked) * SECOND, incident.KIND, written.line)
    return segment


def test_two_nodes_that_stand_are_judged_together(tmp_path: Path) -> None:
    first = node(tmp_path, "0", WAITS, 70, (1, 10))
    second = node(tmp_path, "1", HOLDS, 900, ())
    (hang,) = hangs.read([first, second])
    assert hang.line == (
        "rank 3 on node 1 stands in data.py:6 slow_read since 11:06:50 UTC; 3 ranks wait in all_reduce"
    )
    assert hang.nodes == ("0", "1")
    assert hang.folder.parent.parent == second.path


def test_event_of_a_node_tells_what_all_nodes_show(tmp_path: Path) -> None:
    first = node(tmp_path, "0", WAITS, 70, (10,))
    node(tmp_path, "1", HOLDS, 71, (10,))
    told = hangs.on_all_nodes(tmp_path, [*events.read(first.path), {"kind": "mark", "text": "new data"}])
    assert [event["text"] for event in told] == [
        "rank 3 on node 1 stands in data.py:6 slow_read since 11:06:50 UTC; 3 ranks wait in all_reduce",
        "new data",
    ]


@pytest.mark.parametrize("printed", [(1, 10, 80), (1, 10, 899)])
def test_node_that_went_on_in_between_had_another_hang(tmp_path: Path, printed: tuple[int, ...]) -> None:
    first = node(tmp_path, "0", WAITS, 70, printed)
    second = node(tmp_path, "1", HOLDS, 900, ())
    assert [hang.nodes for hang in hangs.read([first, second])] == [(), ()]


def test_worker_is_looked_for_on_the_node_of_its_rank_alone(tmp_path: Path) -> None:
    """Process numbers of two nodes may be equal."""
    first = node(tmp_path, "0", [process(0, *ALL_REDUCE, pid=101)], 70, (10,))
    second = node(tmp_path, "1", [process(1, *LOADER), worker(1, *WORKER, *READS)], 71, (10,))
    (hang,) = hangs.read([first, second])
    assert hang.sentence == (
        "a DataLoader worker of rank 1 on node 1 (process 201) stands in data.py:6 slow_read; "
        "1 rank waits in all_reduce"
    )


@pytest.mark.parametrize("damage", ["processes", "rank", "threads"])
def test_damaged_processes_leave_each_node_its_own_verdict(tmp_path: Path, damage: str) -> None:
    segments = [node(tmp_path, "0", WAITS, 70, ()), node(tmp_path, "1", HOLDS, 71, ())]
    (path,) = segments[1].path.glob("incidents/*/incident.json")
    facts = json.loads(path.read_text())
    if damage == "processes":
        facts["processes"] = 7
    else:
        facts["processes"][0][damage] = [{"frames": [["x"]]}]
    path.write_text(json.dumps(facts))
    with pytest.warns(DamagedFile, match="its processes cannot be read"):
        assert [hang.nodes for hang in hangs.read(segments)] == [(), ()]
