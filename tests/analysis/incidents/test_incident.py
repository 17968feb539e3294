"""What is kept of a hang, and read by any view."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gputel.analysis.incidents import incident
from gputel.analysis.incidents.process_states import standings
from gputel.analysis.incidents.text import overview
from gputel.analysis.incidents.verdict import judge
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.inside.stacks import NO_FLIGHT, Frame, ThreadStack, parse_flight
from tests.analysis.incidents.processes import ALL_REDUCE, READS, TORCH, later, process

LOOKS = [process(0, *ALL_REDUCE), process(1, *READS), process(2, *ALL_REDUCE)]
FOUND = standings([LOOKS, [later(each) for each in LOOKS]])
SECOND = 1_000_000_000


@pytest.fixture
def written(tmp_path: Path) -> incident.Incident:
    verdict = judge(FOUND)
    assert verdict
    return incident.write(tmp_path, 1_795_000_100 * SECOND, 1_795_000_000 * SECOND, verdict, FOUND)


def test_incident_is_read_as_it_was_written(written: incident.Incident, tmp_path: Path) -> None:
    assert list(incident.read(tmp_path)) == [written]
    assert written.folder == tmp_path / "incidents" / "20261118-110820"
    assert (
        written.line == "rank 1 stands in data.py:6 slow_read since 11:06:40 UTC; 2 ranks wait in all_reduce"
    )
    facts = json.loads((written.folder / "incident.json").read_text())
    assert facts["verdict"]["place"] == {"file": "/me/data.py", "line": 6, "function": "slow_read"}
    assert [each["rank"] for each in facts["processes"]] == [0, 1, 2]


def test_stacks_stand_in_groups_the_one_that_holds_up_the_others_first(written: incident.Incident) -> None:
    assert (
        (written.folder / "stacks.txt")
        .read_text()
        .startswith(
            "rank 1 (process 101) stands in data.py:6 slow_read, does not move\n"
            "  /me/train.py:31 main\n"
            "  /me/data.py:6 slow_read\n\n"
            "ranks 0, 2 (process 100, 102) wait in all_reduce, do not move\n"
        )
    )


def test_flight_record_of_a_rank_is_kept_beside_it(tmp_path: Path) -> None:
    entry = {
        "process_group": ["0", "default_pg"],
        "profiling_name": "gloo:all_reduce",
        "collective_seq_id": 36,
    }
    trace = {"entries": [{**entry, "collective_seq_id": number} for number in range(36 - 70, 36)]}
    flight = parse_flight(json.dumps(trace).encode())
    looks = [replace(each, flight=flight) if each.rank == 1 else each for each in LOOKS]
    found = standings([looks, [later(each) for each in looks]])
    verdict = judge(found)
    assert verdict
    hung = incident.write(tmp_path, 1_795_000_100 * SECOND, None, verdict, found)
    assert sorted(path.name for path in hung.folder.iterdir()) == [
        "flight-1.json",
        "incident.json",
        "stacks.txt",
    ]
    entries = json.loads((hung.folder / "flight-1.json").read_text())["entries"]
    assert [each["collective_seq_id"] for each in entries] == list(range(36 - 50, 36))


def test_last_collective_is_known_behind_any_number_of_sends() -> None:
    reduced = {
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "collective_seq_id": 36,
    }
    sent = {**reduced, "profiling_name": "nccl:send 0->1", "is_p2p": True}
    flight = parse_flight(json.dumps({"entries": [reduced, *[sent] * 80]}).encode())
    assert [str(each) for each in flight.collectives] == ["all_reduce #36"]
    assert parse_flight(b'{"entries": [7]}') == NO_FLIGHT


def test_damaged_incident_costs_itself_alone(written: incident.Incident, tmp_path: Path) -> None:
    other = tmp_path / "incidents" / "20261118-110821"
    other.mkdir()
    (other / "incident.json").write_text('{"verdict": 7}')
    with pytest.warns(DamagedFile, match="no incident"):
        assert list(incident.read(tmp_path)) == [written]


@pytest.mark.parametrize(
    "name", ["incidents", "incidents/20261118-110820", "incidents/20261118-110820/incident.json"]
)
def test_incident_behind_a_link_out_of_the_run_is_not_read(
    written: incident.Incident, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    assert list(incident.read(tmp_path)) == [written]
    private = tmp_path_factory.mktemp("private") / "taken"
    (tmp_path / name).rename(private)
    (tmp_path / name).symlink_to(private)
    assert not list(incident.read(tmp_path))


def test_stack_does_not_act_on_the_terminal() -> None:
    looks = [process(0, READS[0]._replace(function="\x1b[2J", file="/me/\u202e.py"))]
    assert "\x1b" not in "".join(overview(standings([looks]), None))


def test_kept_stacks_do_not_act_on_a_terminal(tmp_path: Path) -> None:
    looks = [process(0, READS[0]._replace(function="\x1b[2J", file="/me/\u202e.py")), *LOOKS[1:]]
    found = standings([looks, [later(each) for each in looks]])
    verdict = judge(found)
    assert verdict
    kept = incident.write(tmp_path, SECOND, None, verdict, found)
    text = (kept.folder / "stacks.txt").read_text()
    assert "\\x1b[2J" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_launcher_waits_for_the_ranks() -> None:
    agent = Frame(f"{TORCH}/distributed/elastic/agent/server/api.py", 9, "_monitor")
    launcher = replace(process(None, pid=99), threads=(ThreadStack("MainThread", True, (agent,)),))
    looks = [launcher, process(0, *READS)]
    lines = overview(standings([looks, [later(each) for each in looks]]), None)
    assert "launcher of the run (process 99) waits for the ranks, does not move" in list(lines)
