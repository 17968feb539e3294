"""A followed run folder: its segments on all nodes, each with its output, GPUs, machine, steps and events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.incidents import hangs
from gputel.analysis.live import files, run_folder
from gputel.analysis.live.api_rows import LiveGiven
from gputel.analysis.live.machine import LiveMachine
from gputel.analysis.live.resume import Position, Positions
from gputel.analysis.live.run_folder import LiveJournals, Output
from gputel.analysis.live.runs import Followed, Formats, Stream, WriterCheck
from gputel.analysis.live.sources import LiveSource
from gputel.analysis.live.step_parts import LiveSteps
from gputel.analysis.live.update import Update, stream_of
from gputel.analysis.logs.incremental import Increment
from gputel.telemetry import completeness, filesystem

if TYPE_CHECKING:
    from gputel.telemetry.run_folder import Segment
    from gputel.telemetry.store.live_seconds import LiveSeconds

EVENTS = "events of "  # prefix of a segment's name, for positions in its events.jsonl


class FollowedRun(Followed):
    """A run folder.

    With `viewed=False` it reads only whole seconds of its GPUs, which the alarms need, and no other telemetry.
    """

    def __init__(
        self, path: Path, positions: Positions | None, formats: Formats, *, viewed: bool = True
    ) -> None:
        super().__init__(path.resolve().name, str(path), positions, formats)
        self._path, self._viewed = path, viewed
        self._outputs: dict[str, Output] = {}
        self._writer_checks: dict[str, WriterCheck] = {}
        self._journals: dict[str, LiveJournals] = {}
        self._machines: dict[str, LiveMachine] = {}
        self._seconds: dict[str, LiveSeconds] = {}
        self._events: dict[str, run_folder.EventsFile] = {}
        self._given: dict[str, LiveGiven] = {}
        self._steps: dict[str, LiveSteps] = {}
        self._inside: dict[str, object] = {}
        if note := files.filesystem_note(path, filesystem.kind(path)):
            self.notes.append(note)
        completeness.warn(*run_folder.descriptions(path))
        self.look()

    @property
    def is_over(self) -> bool:
        return super().is_over and not any(given.is_pending for given in self._given.values())

    @property
    def is_awaited(self) -> bool:
        """Whether records are expected; a recording without a command prints none."""
        return super().is_awaited and any(output.written for output in self._outputs.values())

    def look(self) -> None:
        """Checks for new segments, changed descriptions and killed recorders."""
        segments, facts = run_folder.descriptions(self._path)
        for segment, fact in zip(segments, facts, strict=True):
            name = str(segment.path.relative_to(self._path)) if segment.path != self._path else ""
            if name not in self._outputs:
                self._begin(name, segment)
            self._outputs[name].is_over = bool(fact.get("ended"))
            self._inside[name] = fact.get("inside")
        self.state.describe(facts)
        written = {self._is_written(name) for name, output in self._outputs.items() if not output.is_over}
        self.state.set_written(True if True in written else None if None in written or not written else False)

    def read(self) -> Iterator[Update]:
        yield from super().read()
        yield from self._read_inside()
        for name, journals in self._journals.items():
            live = journals.has_begun
            if (seconds := journals.read()) is not None:
                yield replace(self._update(name), gpu=seconds, live=live)
            if (machine := self._machines[name].read()) is not None:
                yield replace(self._update(name), machine=machine, live=live)
        for name, gpus in self._seconds.items():
            if new := gpus.read():
                yield replace(self._update(name), gpu_seconds=new, live=not self._outputs[name].is_over)
        for name, file in self._events.items():
            events, shown = file.read()
            if events:
                events = hangs.on_all_nodes(self._path, events)
                yield replace(self._update(name), recorder_events=events, shown=shown)

    def _read_inside(self) -> Iterator[Update]:
        """What the command itself gives: rows of `gputel.log`, and its steps."""
        for name, given in self._given.items():
            live = given.has_begun
            if (increment := given.read(self._inside[name])) is not None:
                is_printed = bool(self.streams[name].increments.parser.records.begun)
                update = replace(self._update(stream_of(name)), increment=increment, log=given.log)
                yield replace(update, live=live, shown=is_printed)
        for name, steps in self._steps.items():
            live = steps.has_begun
            if parts := steps.read(self._inside[name]):
                yield replace(self._update(name), step_parts=parts, live=live)

    def positions(self) -> dict[str, Position]:
        places = {EVENTS + name: events.place for name, events in self._events.items()}
        events = {name: Position(place) if place else self._before(name) for name, place in places.items()}
        return {**super().positions(), **events}

    def close(self) -> None:
        super().close()
        for events in self._events.values():
            events.close()

    def _begin(self, name: str, segment: Segment) -> None:
        def output(before: Position) -> LiveSource:
            self._outputs[name] = Output(segment, before.place)
            return self._outputs[name]

        self._open(name, output)
        self._writer_checks[name] = WriterCheck(segment.output)
        self._events[name] = run_folder.EventsFile(segment, self._before(EVENTS + name).place)
        self._given[name] = LiveGiven(segment)
        self._steps[name] = LiveSteps(segment)
        if self._viewed:
            self._journals[name] = LiveJournals(segment.gpu)
            self._machines[name] = LiveMachine(segment.path, segment.node or "")
        else:
            self._seconds[name] = run_folder.live_seconds(segment)
        self.paths += [segment.path, segment.gpu]

    def _is_written(self, name: str) -> bool | None:
        changed = self._outputs[name].written
        return None if changed is None else self._writer_checks[name].look(changed)

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment.with_times(self._outputs[stream.name].dated)
