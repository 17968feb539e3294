"""Alarms of followed runs: feeds updates to the rules, and logs each alarm so that it is raised once.

Content from before following began is judged too, but only conditions still active at its end raise an alarm. Times
are the recorder's; the timestamps of a plain log may be in any time zone, so its records count from their arrival.
Rows that a later line may still change are judged after a pause: otherwise a log that ends with NaN would never
raise an alarm.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis.alarms import observations
from gputel.analysis.alarms.observations import (
    ClockTick,
    Evaluation,
    EventSeen,
    GpuSecond,
    Moment,
    Placed,
    Record,
    When,
)
from gputel.analysis.alarms.watch import Alarm, RuleEngine
from gputel.analysis.live import api_rows
from gputel.analysis.live.update import segment_of
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import wall_s
from gputel.telemetry.errors import DamagedFile, GputelError, reason
from gputel.telemetry.events import ALARM
from gputel.telemetry.remote.local_copy import is_copy
from gputel.telemetry.user_folders import user_folder

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.live.runs import Followed
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View
    from gputel.analysis.logs.incremental import Increment

UNSEEN = "cause not seen"
MOST_HISTORY = 200
LOOK_S = 0.9  # less than a second, so that a caller that comes once a second is never a moment too early
EXPLAINED = ("slower", "stalled", "rank_behind")
RECORDS = 30  # at least, that such an alarm is about
QUIET_S = 5.0  # silence after which open rows are judged as they are
BAR_S = 60.0  # the same for the rows of a progress bar
GIB = 1 << 30
NO_STACKS = "'gputel record --inside stacks' tells where each rank stands"
UNKEPT = "alarms are sent, and not kept"
Row = dict[str, Any]
Key = tuple[int, int, object]


class RunAlarms:
    """Judges one run. `active` are the alarms that are on now, `history` those raised and cleared, oldest first."""

    def __init__(self, run: Followed, rules: Sequence[Rule], now: Callable[[], float] = wall_s) -> None:
        self._run, self._rules, self._now = run, rules, now
        self._engine = RuleEngine(rules, self._explained)
        self._looked = float("-inf")
        self._live = False
        self._ended = False
        self._pending: dict[str, PendingRows] = {}
        self.history: deque[Alarm] = deque(maxlen=MOST_HISTORY)

    @property
    def active(self) -> list[Alarm]:
        """Alarms that are on now."""
        return self._engine.active

    def take(self, update: Update) -> list[Alarm]:
        """Judges an update and returns new alarms; none while it is catching up with earlier content."""
        if update.increment is not None and update.increment.afresh:
            self._engine, self._pending = RuleEngine(self._rules, self._explained), {}
        alarms = [alarm for moment in self._moments(update) for alarm in self._engine.see(moment)]
        self.history.extend(alarms)
        return alarms if self._live else []

    @property
    def is_live(self) -> bool:
        """Whether all earlier content has been judged."""
        return self._live

    @property
    def is_due(self) -> bool:
        """Whether a second has passed since the last look."""
        return self._now() - self._looked >= LOOK_S

    def look(self, view: View) -> list[Alarm]:
        """Judges the state of the run, once a second. The first look comes once all earlier content is read."""
        if not self.is_due:
            return []
        self._looked = now = self._now()
        caught_up = [] if self._live else self.active
        self._live = True
        alarms = [alarm for moment in self._state_moments(view, now) for alarm in self._engine.see(moment)]
        self.history.extend(alarms)
        return caught_up + alarms

    def _explained(self, alarm: Alarm) -> Alarm:
        """Adds what the machine around a recorded run says of a slow or silent one; not to what is long past."""
        if alarm.rule not in EXPLAINED or not self._live or not self._run.state.is_recorded:
            return alarm
        each_s = self._run.state.view().seconds_a_record
        rank = int(alarm.key) if alarm.key.isdigit() else None
        words = cause_now(Path(self._run.source), RECORDS * (each_s or 1.0), rank)
        return replace(alarm, text=f"{alarm.text}; {words}") if words else alarm

    def _moments(self, update: Update) -> Iterator[Moment]:
        increment = update.increment
        segment = segment_of(update.stream)
        if increment is not None and segment in self._run.state.logs:
            increment = api_rows.unprinted(increment, self._run.state.logs[segment].curves)
        if increment is not None:
            pending = self._pending.setdefault(update.stream, PendingRows())
            arrival = self._arrival(update)
            is_recorded = self._run.state.is_recorded
            when = observations.timestamp if is_recorded else lambda _: arrival
            rank = _rank(update, is_recorded=is_recorded)
            yield from pending.take(increment, when, rank, arrival)
        for event in update.recorder_events:
            if event.get("kind") != ALARM:
                yield EventSeen(str(event.get("kind")), str(event.get("text")), self._now(), facts=event)
        if update.live or not self._run.state.has_ended:
            yield from self._gpu_seconds(update)

    def _gpu_seconds(self, update: Update) -> Iterator[GpuSecond]:
        for row in () if update.gpu is None else update.gpu.iter_rows(named=True):
            yield self._gpu_second(row["gpu"], row["time"].timestamp(), row, update.stream)
        for second in update.gpu_seconds:
            for gpu, figures in second.by_gpu().items():
                yield self._gpu_second(gpu, second.second, figures, update.stream)

    def _arrival(self, update: Update) -> float:
        """When rows arrived; for earlier content, when the log was last written."""
        written = update.written
        return self._now() if self._live or written is None else min(written, self._now())

    def _gpu_second(self, gpu: str, at_s: float, row: Mapping[str, Any], stream: str) -> GpuSecond:
        """Uses the mean of a reading that has one, else its last value, as of a counter."""
        by_statistic = [
            {name.removesuffix(end): row[name] for name in row if name.endswith(end)}
            for end in ("_last", "_mean", "_any")
        ]
        values = {name: value for readings in by_statistic for name, value in readings.items()}
        total = self._run.state.memory_mib(gpu, stream)
        used = row.get("mem_used_mib_max")
        values["memory_share"] = used / total if used is not None and total else None
        return GpuSecond(_gpu_name(gpu, stream), at_s, values)

    def _state_moments(self, view: View, now: float) -> Iterator[Moment]:
        """The command's exit, open rows that have been quiet, and a clock tick."""
        code = self._run.state.exit_code
        if code is not None and not self._ended:
            self._ended = True
            yield EventSeen("exit", f"exit code {code}", now, view.step, self._run.state.exit_facts(code))
        for pending in self._pending.values():
            yield from pending.look(now)
        hours = None if view.elapsed_s is None else (view.elapsed_s + (view.eta_s or 0)) / 3600
        size = view.config.get("world_size")
        yield ClockTick(
            now,
            started_s=None if view.elapsed_s is None else now - view.elapsed_s,
            world_size=int(size) if isinstance(size, float | int) else None,
            hours=hours,
            dollars=(view.cost.at_end or view.cost.spent) if view.cost else None,
            foresees_end=bool(view.eta_s),
            is_awaited=self._run.is_awaited and view.status in ("running", "unknown"),
            usual_s=view.seconds_a_record,
            hint=NO_STACKS if self._run.state.is_recorded and not self._run.state.looks_inside else "",
            **_disk(Path(view.source)),
        )


def _rank(update: Update, *, is_recorded: bool) -> str | None:
    """Rank of rows that name none: the node or the command that printed them."""
    if update.stream.startswith("nodes/"):
        return "node " + update.stream.split("/")[1]
    return update.stream or None if not is_recorded else None


def _gpu_name(gpu: str, stream: str) -> str:
    return f"{gpu} of node {stream.split('/')[1]}" if stream.startswith("nodes/") else gpu


def _disk(place: Path) -> dict[str, float]:
    try:
        usage = shutil.disk_usage(place)
    except OSError:  # a pipe, a command, a deleted log
        return {}
    return {"disk_free_share": usage.free / usage.total, "disk_free_gib": usage.free / GIB}


class PendingRows:
    """The rows of one log as moments, each once. Open rows are held back until they are final or quiet."""

    def __init__(self) -> None:
        self._judged: dict[Key, Moment] = {}  # open rows already given out
        self._open: tuple[Increment, When, str | None] | None = None
        self._since, self._due = 0.0, QUIET_S

    def take(self, increment: Increment, when: When, rank: str | None, now: float) -> Iterator[Moment]:
        """Yields final rows; open ones wait from `now` on."""
        self._open, self._since, self._due = (increment, when, rank), now, QUIET_S
        rows = observations.placed(increment.records, increment.evals, increment.events, when, rank)
        for row in rows:
            if moment := _news(row, self._judged.pop(_key(row), None)):
                yield moment

    def look(self, now: float) -> Iterator[Moment]:
        """Yields open rows after `QUIET_S` without a new line, progress bars after `BAR_S`."""
        quiet = now - self._since
        if self._open is None or quiet < self._due:
            return
        self._due = BAR_S if quiet < BAR_S else math.inf
        before, self._judged = self._judged, {}
        for row in self._rows(*self._open, bars=quiet >= BAR_S):
            self._judged[_key(row)] = row[2]
            if moment := _news(row, before.get(_key(row))):
                yield moment

    def _rows(self, increment: Increment, when: When, rank: str | None, *, bars: bool) -> Iterable[Placed]:
        rows = observations.placed(
            increment.open_records, increment.open_evals, increment.open_events, when, rank
        )
        return rows if bars else (row for row in rows if row[0] not in increment.bars)


def _key(row: Placed) -> Key:
    """Identifies a row among those of its line."""
    line, order, moment = row
    match moment:
        case Evaluation(name=name):
            return line, order, name
        case EventSeen(kind=kind):
            return line, order, kind
    return line, order, None


def _news(row: Placed, judged: Moment | None) -> Moment | None:
    """The part of a row that was not judged yet: for a record, its new or changed values."""
    match row[2], judged:
        case Record() as moment, Record(values=before):
            added = {
                name: value for name, value in moment.values.items() if not _same(before.get(name), value)
            }
            return replace(moment, values=added, at_s=judged.at_s) if added else None
        case Evaluation(value=value), Evaluation(value=before) if _same(before, value):
            return None
        case EventSeen(text=text), EventSeen(text=before) if before == text:
            return None
    return row[2]


def _same(before: float | None, value: float) -> bool:
    return before == value or (before is not None and math.isnan(before) and math.isnan(value))


class AlarmLog:
    """Alarms raised so far, in a folder's events.jsonl; in memory only if `folder` is None, as for a pipe.

    Those that a recorder has written into `recorded` are known, too.
    """

    def __init__(self, folder: Path | None, recorded: Path | None = None) -> None:
        self._folder = folder
        self._read_from = {each for each in (folder, recorded) if each}
        self._logged: set[tuple[object, ...]] = set()

    def is_new(self, alarm: Alarm) -> bool:
        """Returns True once per alarm, after writing it to the log."""
        self._read()
        key = _alarm_key(asdict(alarm))
        if key in self._logged:
            return False
        self._logged.add(key)
        self._write(alarm)
        return True

    def _read(self) -> None:
        """Reads the log each time, because another follower of the same run may have written to it."""
        for folder in self._read_from:
            alarms = (event for event in events.read(folder) if event.get("kind") == events.ALARM)
            self._logged.update(map(_alarm_key, alarms))

    def _write(self, alarm: Alarm) -> None:
        if self._folder is None:
            return
        facts = {name: value for name, value in asdict(alarm).items() if name not in ("text", "at_s")}
        wall = 0 if alarm.at_s is None else int(alarm.at_s * 1e9)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            events.append(self._folder, wall, events.ALARM, alarm.text, **facts)
        except OSError as error:  # of a full disk, or of another user's run, which we may only read
            warnings.warn(DamagedFile(self._folder / events.NAME, reason(error), UNKEPT), stacklevel=2)


def folder_for(source: Path, state: Path | None = None) -> Path | None:
    """Folder for a run's alarms: its last segment. For a plain log, one in the user's state, by path and inode.

    Also for the copy of a run in storage.
    """
    if not is_copy(source) and (segment := last_segment(source)):
        return segment
    try:
        facts = source.stat()
    except OSError:
        return None
    identity = f"{source.resolve()}\0{facts.st_dev}\0{facts.st_ino}"
    return (state or user_folder("STATE")) / "alarms" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def last_segment(source: Path) -> Path | None:
    return run_folder.open_folder(source).segments[-1].path if run_folder.is_run(source) else None


def _alarm_key(facts: dict[str, object]) -> tuple[object, ...]:
    return tuple(facts.get(name) for name in ("rule", "key", "state", "step"))


def cause_now(path: Path, lasts_s: float, rank: int | None = None) -> str | None:
    """Says why a recorded run is slow or silent, with evidence of its machine; None where that was not recorded.

    `lasts_s` is how long it has been slow, `rank` whose processes are looked at, if they are known.
    """
    from gputel.analysis.report.causes import cause
    from gputel.analysis.report.machine_seconds import open_machine, recent
    from gputel.analysis.runs.recording import open_recording

    if not run_folder.is_run(path):
        return None
    try:
        recording = open_recording(path)
        machine = open_machine(recording, rank=rank) or open_machine(recording)
    except (GputelError, OSError):
        return None
    named = cause(machine, recent(machine, lasts_s)) if machine else None
    if machine is None or named is None:
        return UNSEEN if machine else None
    return f"{named.answer}: {'; '.join(named.evidence)}"
