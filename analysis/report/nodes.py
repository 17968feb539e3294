"""The nodes of a run: their GPUs, their segments, their clocks, and how often each comes last in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from gputel.analysis import text
from gputel.analysis.align import clocks, offsets
from gputel.analysis.align.clocks import ClockInterval
from gputel.analysis.report.checkup import gpu_names
from gputel.telemetry import run_folder
from gputel.telemetry.remote import bundle_times

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

    Described: TypeAlias = tuple[run_folder.Segment, Mapping[str, Any]]

BY_STORAGE, BY_STEPS = "clock of storage", "lines of steps"


@dataclass(frozen=True)
class NodeRow:
    """A node. Its clock is `offset_ms` ahead of the first node's, which is right within `uncertainty_ms`."""

    node: str
    host: str | None
    gpus: str | None
    segments: int
    started: str | None
    ended: str | None
    exit_code: int | None
    steps: int | None
    step_s: float | None
    last_share: float | None
    offset_ms: float | None
    uncertainty_ms: float | None
    how: str | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def node_rows(subject: RunData) -> list[NodeRow]:
    """All nodes of a recorded run, in order of their ranks; the machine of a run without ranks is node 0.

    `steps`, `step_s` and `last_share` are of steps that several nodes print.
    """
    if subject.recording is None:
        return []
    segments = _by_node(subject)
    printed = {row["source"]: row for row in offsets.offsets(subject.log.records).iter_rows(named=True)}
    clock = node_clocks(subject)
    first = next(iter(segments))
    return [
        NodeRow(
            node=node or "0",
            **_machine(own),
            **_in_steps(printed.get(node)),
            **(_clock(clock.get(node), clock.get(first), printed.get(node)) if node != first else REFERENCE),
        )
        for node, own in segments.items()
    ]


def node_clocks(subject: RunData) -> dict[str | None, ClockInterval]:
    """How far the clock of each node is ahead of the storage's, of nodes whose bundles were fetched from there."""
    clock = {node: _ahead_of_storage(own) for node, own in _by_node(subject).items()}
    return {node: interval for node, interval in clock.items() if interval}


def _by_node(subject: RunData) -> dict[str | None, list[Described]]:
    segments: dict[str | None, list[Described]] = {}
    recording = subject.recording
    for described in zip(recording.folder.segments, recording.descriptions, strict=True) if recording else ():
        segments.setdefault(described[0].node, []).append(described)
    return segments


def _in_steps(printed: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: printed and printed[name] for name in ("steps", "step_s", "last_share")}


def _machine(segments: Sequence[Described]) -> dict[str, Any]:
    """The machine of the last segment: one that was lost may have been replaced."""
    facts, begun = segments[-1][1], segments[0][1]
    started, ended = run_folder.wall_ns(begun, "started"), run_folder.wall_ns(facts, "ended")
    return {
        "host": (facts.get("host") or {}).get("name"),
        "gpus": gpu_names(facts.get("gpus") or []) or None,
        "segments": len(segments),
        "started": None if started is None else text.moment(started),
        "ended": None if ended is None else text.moment(ended),
        "exit_code": facts.get("exit_code"),
    }


def _ahead_of_storage(segments: Sequence[Described]) -> ClockInterval | None:
    """Compares the clocks by the last segment whose bundles storage has."""
    for segment, facts in reversed(segments):
        booted, boot = run_folder.booted_ns(facts), run_folder.boot_of(facts)
        if booted is not None and boot is not None:
            seen = bundle_times.read(segment.path, str(boot))
            if interval := clocks.ahead_of_storage(seen, booted):
                return interval
    return None


def _clock(
    own: ClockInterval | None, first: ClockInterval | None, printed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Compares clocks by storage, else by the lines of steps: then a node that prints late looks ahead."""
    if own and first:
        ahead = own.after(first)
        return _offset(ahead.middle_s, ahead.error_s, BY_STORAGE)
    if printed:
        return _offset(printed["offset_s"], printed["spread_s"], BY_STEPS)
    return _offset(None, None, None)


def _offset(seconds: float | None, error: float | None, how: str | None) -> dict[str, Any]:
    offset, uncertainty = (None if value is None else round(1000 * value, 3) for value in (seconds, error))
    return {"offset_ms": offset, "uncertainty_ms": uncertainty, "how": how}


REFERENCE = _offset(0.0, 0.0, "first node")
