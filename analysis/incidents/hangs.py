"""Incidents of all nodes of a run -> its hangs: what stood at one moment on several nodes is judged together.

Each node asks its own processes when its own output is silent, and a node that prints nothing asks late. So two
incidents are one hang if the earlier one still stood at the time of the later: its node has not printed or ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gputel.analysis.incidents import incident
from gputel.analysis.incidents.incident import Incident
from gputel.analysis.incidents.verdict import judge
from gputel.analysis.text import moment
from gputel.telemetry import run_folder
from gputel.telemetry.process import output_index
from gputel.telemetry.run_folder import Segment


@dataclass(frozen=True)
class _OnNode:
    """A hang as one node saw it. `until` is when it was over; None if it was not."""

    incident: Incident
    node: str | None
    until: str | None

    def stood_at(self, time: str) -> bool:
        return self.until is None or self.until >= time


def read(segments: Sequence[Segment]) -> list[Incident]:
    """The hangs of a run, oldest first; a warning names an incident that cannot be read."""
    several = len({segment.node for segment in segments}) > 1
    seen = sorted(
        (
            _OnNode(each, segment.node, _until(segment, each.time) if several else None)
            for segment in segments
            for each in incident.read(segment.path)
        ),
        key=lambda each: each.incident.time,
    )
    if not several:
        return [each.incident for each in seen]
    hangs: list[dict[str | None, _OnNode]] = []
    for each in seen:
        if hangs and all(other.stood_at(each.incident.time) for other in hangs[-1].values()):
            hangs[-1][each.node] = each
        else:
            hangs.append({each.node: each})
    return [found for hang in hangs for found in _judged([*hang.values()])]


def on_all_nodes(run: Path, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events of a node with what an incident among them shows together with those of other nodes."""
    if not any(event.get("kind") == incident.KIND for event in events):
        return [*events]
    joined = [hang for hang in read(run_folder.open_folder(run).segments) if hang.nodes]
    return [_with_hang(event, joined) for event in events]


def _with_hang(event: dict[str, Any], joined: Sequence[Incident]) -> dict[str, Any]:
    earlier = [hang for hang in joined if hang.time <= str(event.get("time"))]
    return {**event, "text": earlier[-1].line} if earlier and event.get("kind") == incident.KIND else event


def _until(segment: Segment, time: str) -> str | None:
    """When a node printed again after this time, or ended."""
    walls = [wall for wall, _ in output_index.read(segment.index) if wall]
    after = walls[bisect_right(walls, time, key=moment) :]
    ended = run_folder.wall_ns(run_folder.readable_facts(segment.path, warn=False), "ended")
    over = after[0] if after else ended
    return None if over is None else moment(over)


def _judged(hang: Sequence[_OnNode]) -> Iterator[Incident]:
    """One incident of what several nodes saw; all of them where no verdict can be made."""
    processes = {each.node: incident.processes(each.incident) for each in hang} if len(hang) > 1 else {}
    found = [replace(each, node=node) for node, rows in processes.items() for each in rows]
    verdict = judge(found) if processes and all(processes.values()) else None
    if verdict is None:
        yield from (each.incident for each in hang)
        return
    holder = verdict.standing.node if verdict.standing else hang[0].node
    yield Incident(
        next(each.incident.folder for each in hang if each.node == holder),
        min(each.incident.time for each in hang),
        min((each.incident.since for each in hang if each.incident.since), default=None),
        verdict.sentence,
        verdict.evidence,
        tuple(sorted(str(each.node) for each in hang)),
    )
