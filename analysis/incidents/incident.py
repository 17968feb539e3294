"""Incidents of a run folder: `incidents/<stamp>/` holds incident.json, stacks.txt and flight-<rank>.json."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputel.analysis.incidents.process_states import Standing
from gputel.analysis.incidents.text import stacks_text
from gputel.analysis.incidents.verdict import HangVerdict
from gputel.analysis.text import moment, to_the_second
from gputel.telemetry.characters import parse_json, visible
from gputel.telemetry.errors import DamagedFile, reason
from gputel.telemetry.inside.stacks import (
    Collective,
    FlightRecord,
    Frame,
    ProcessFacts,
    ProcessLook,
    ThreadStack,
)
from gputel.telemetry.own_files import is_foreign, read_own
from gputel.telemetry.secrets import mask
from gputel.telemetry.whole_files import write_whole

SCHEMA = 1
FOLDER, FILE, STACKS = "incidents", "incident.json", "stacks.txt"
FLIGHT = "flight-{}.json"
"""The collectives that a rank has entered last."""
KIND = "incident"
"""The kind of its event."""
MOST_READ = 1000


@dataclass(frozen=True)
class Incident:
    """A hang as it was seen: when, since when nothing moved, and the verdict."""

    folder: Path
    time: str
    since: str | None
    sentence: str
    evidence: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    """The nodes whose incidents of this hang were judged together; none where one node tells all."""

    @property
    def line(self) -> str:
        """`rank 5 stands in ddp.py:6 slow_read since 14:03:07 UTC; 7 ranks wait in all_reduce`"""
        holder, end, others = self.sentence.partition("; ")
        since = f" since {self.since[11:19]} UTC" if self.since else ""
        return f"{holder}{since}{end}{others}"

    def as_json(self) -> dict[str, object]:
        """The incident as reports tell it; the folder is the one to look into."""
        return {
            "folder": str(self.folder),
            "time": self.time,
            "since": self.since,
            "text": self.sentence,
            "evidence": list(self.evidence),
            "nodes": list(self.nodes),
        }


def write(
    segment: Path, wall_ns: int, since_ns: int | None, verdict: HangVerdict, found: Sequence[Standing]
) -> Incident:
    """Writes an incident into the segment's folder. Raises OSError."""
    named = to_the_second(wall_ns).translate({ord("-"): None, ord(":"): None, ord(" "): "-"})
    folder = segment / FOLDER / named
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "schema": SCHEMA,
        "time": moment(wall_ns),
        "since": since_ns and moment(since_ns),
        "verdict": verdict_json(verdict),
        "processes": [process_json(each) for each in found],
    }
    write_whole(folder / STACKS, visible(mask(stacks_text(found))).encode(errors="replace"))
    for each in found:
        if each.look.flight.entries:
            name = FLIGHT.format(each.look.pid if each.look.rank is None else each.look.rank)
            entries = json.dumps({"entries": each.look.flight.entries}, indent=1)
            write_whole(folder / name, mask(entries).encode())
    write_whole(folder / FILE, mask(json.dumps(facts, indent=1)).encode())
    return _incident(folder, facts)


def read(segment: Path) -> Iterator[Incident]:
    """The incidents of a segment, oldest first; a warning names one that cannot be read."""
    if is_foreign(segment / FOLDER, folder=True):
        return
    for folder in sorted((segment / FOLDER).glob("*"))[:MOST_READ]:
        path = folder / FILE
        if is_foreign(folder, folder=True):
            continue
        try:
            yield _incident(folder, parse_json(read_own(path)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            fault = reason(error) if isinstance(error, OSError) else "no incident"
            warnings.warn(DamagedFile(path, fault), stacklevel=2)


def processes(incident: Incident) -> list[Standing]:
    """The state of each process of an incident; warns if that cannot be read."""
    path = incident.folder / FILE
    try:
        return [_standing(each) for each in parse_json(read_own(path))["processes"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        fault = reason(error) if isinstance(error, OSError) else "its processes cannot be read"
        warnings.warn(DamagedFile(path, fault), stacklevel=2)
        return []


def _standing(row: dict[str, Any]) -> Standing:
    """Reads back what `process_json` wrote."""
    threads = tuple(
        ThreadStack(str(each["name"]), each["main"] is True, tuple(map(_frame, each["frames"])))
        for each in row["threads"]
    )
    collectives = tuple(
        Collective(str(each["group"]), int(each["number"]), str(each["name"]), str(each["sizes"]))
        for each in row["collectives"]
    )
    facts = ProcessFacts(
        int(row["parent"]), 0, str(row["state"]), str(row["command"]), row["wait_channel"], 0.0, None
    )
    rank, world = (None if row[name] is None else int(row[name]) for name in ("rank", "world"))
    flight = FlightRecord(collectives)
    look = ProcessLook(int(row["pid"]), 0.0, facts, rank, world, row["answered_by"], threads, flight)
    moved, cores = row["moved"], row["cpu_cores"]
    wakeups = row.get("wakeups_s")
    return Standing(
        look,
        row["role"],
        moved and bool(moved),
        None if cores is None else float(cores),
        None if wakeups is None else float(wakeups),
    )


def _frame(row: dict[str, Any]) -> Frame:
    return Frame(str(row["file"]), int(row["line"]), str(row["function"]))


def _incident(folder: Path, facts: dict[str, Any]) -> Incident:
    verdict = facts["verdict"]
    return Incident(
        folder,
        str(facts["time"]),
        str(facts["since"]) if facts.get("since") else None,
        mask(str(verdict["text"])),
        tuple(mask(str(line)) for line in verdict["evidence"]),
    )


def verdict_json(verdict: HangVerdict) -> dict[str, object]:
    """A verdict as incident.json and `gputel stacks --json` hold it."""
    return {
        "kind": verdict.kind,
        "rank": verdict.rank,
        "pid": verdict.standing and verdict.standing.look.pid,
        "place": verdict.place and verdict.place._asdict(),
        "waiting": list(verdict.waiting),
        "text": verdict.sentence,
        "evidence": list(verdict.evidence),
    }


def process_json(each: Standing) -> dict[str, object]:
    """A process as incident.json and `gputel stacks --json` hold it."""
    look = each.look
    return {
        "pid": look.pid,
        "parent": look.facts.parent,
        "rank": look.rank,
        "world": look.world,
        "role": each.role,
        "command": look.facts.command,
        "state": look.facts.state,
        "wait_channel": look.facts.wait_channel,
        "answered_by": look.answered_by,
        "moved": each.moved,
        "cpu_cores": None if each.cpu_cores is None else round(each.cpu_cores, 3),
        "wakeups_s": None if each.wakeups_s is None else round(each.wakeups_s, 1),
        "waits_in": each.collective,
        "collectives": [last._asdict() for last in look.flight.collectives],
        "threads": [
            {"name": thread.name, "main": thread.main, "frames": [frame._asdict() for frame in thread.frames]}
            for thread in look.threads
        ],
    }
