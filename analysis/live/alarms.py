"""What is new of a run that is followed -> its alarms: rows become moments, and a look at the clock once a second.

What was there before the following began is judged too, but only what is still wrong at its end is news. Times are
those of the recorder; a plain log's own stamps may be of any time zone, so its records count from when they came.

Rows that a next line may still change: judged where no next line comes, and not again when one does.

An alarm would else wait for the line after the last one, and that of a log which ends with NaN for ever.

Which alarms were told already, so that whoever looks again, or looks twice, is not told twice.

Those of a run folder stand in its events.jsonl, where everybody finds them; those of a plain log in a folder of the
user's own state, since nothing is written beside a log.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from gputel.telemetry import events, run_folder
from gputel.telemetry.events import ALARM

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.live.runs import Followed
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View
    from gputel.analysis.logs.incremental import Increment

MOST_HISTORY = 200
LOOK_S = 1.0
GIB = 1 << 30
Row = dict[str, Any]


class RunAlarms:
    """Of one run. `active` is what is wrong now, `history` the alarms that began and ended, last ones last."""

    def __init__(self, run: Followed, rules: Sequence[Rule], now: Callable[[], float] = time.time) -> None:
        self._run, self._rules, self._now = run, rules, now
        self._watch = RuleEngine(rules)
        self._looked = float("-inf")
        self._live = False
        self._ended = False
        self._unclosed: dict[str, PendingRows] = {}
        self.history: deque[Alarm] = deque(maxlen=MOST_HISTORY)

    @property
    def active(self) -> list[Alarm]:
        return self._watch.active

    def take(self, update: Update) -> list[Alarm]:
        """Alarms that are news; none while what was there before is caught up with."""
        if update.increment is not None and update.increment.afresh:
            self._watch, self._unclosed = RuleEngine(self._rules), {}
        alarms = [alarm for moment in self._moments(update) for alarm in self._watch.see(moment)]
        self.history.extend(alarms)
        return alarms if self._live else []

    @property
    def is_live(self) -> bool:
        """Whether what was there before is caught up with."""
        return self._live

    @property
    def is_due(self) -> bool:
        """Whether a second has gone by since the last look."""
        return self._now() - self._looked >= LOOK_S

    def look(self, view: View) -> list[Alarm]:
        """Once a second, with what is known of the run. The first look comes when all that was there is read."""
        if not self.is_due:
            return []
        self._looked = now = self._now()
        caught_up = [] if self._live else self.active
        self._live = True
        alarms = [alarm for moment in self._of(view, now) for alarm in self._watch.see(moment)]
        self.history.extend(alarms)
        return caught_up + alarms

    def _moments(self, update: Update) -> Iterator[Moment]:
        if update.increment is not None:
            unclosed = self._unclosed.setdefault(update.stream, PendingRows())
            came = self._came(update)
            is_recorded = self._run.state.is_recorded
            when = observations.stamped if is_recorded else lambda _: came
            rank = _rank(update, is_recorded=is_recorded)
            yield from unclosed.take(update.increment, when, rank, came)
        for event in update.happened:
            if event.get("kind") != ALARM:
                yield EventSeen(str(event.get("kind")), str(event.get("text")), self._now(), facts=event)
        if update.gpu is not None and (update.live or not self._run.state.has_ended):
            for row in update.gpu.iter_rows(named=True):
                yield self._second(row, update.stream)

    def _came(self, update: Update) -> float:
        """Of rows that were there before nobody but a recorder knows more than when the log was last written."""
        written = update.written
        return self._now() if self._live or written is None else min(written, self._now())

    def _second(self, row: Row, stream: str) -> GpuSecond:
        values = {name.rpartition("_")[0]: row[name] for name in row if name.endswith(("_mean", "_any"))}
        values["ecc"] = row.get("ecc_last")
        total = self._run.state.memory_mib(row["gpu"], stream)
        used = row.get("mem_used_mib_max")
        values["memory_share"] = used / total if used is not None and total else None
        return GpuSecond(_named(row["gpu"], stream), row["time"].timestamp(), values)

    def _of(self, view: View, now: float) -> Iterator[Moment]:
        code = self._run.state.exit_code
        if code is not None and not self._ended:
            self._ended = True
            yield EventSeen("exit", f"the command ended with {code}", now, view.step, {"code": code})
        for unclosed in self._unclosed.values():
            yield from unclosed.look(now)
        hours = None if view.elapsed_s is None else (view.elapsed_s + (view.eta_s or 0)) / 3600
        size = view.config.get("world_size")
        yield ClockTick(
            now,
            started_s=None if view.elapsed_s is None else now - view.elapsed_s,
            world_size=int(size) if isinstance(size, float | int) else None,
            hours=hours,
            dollars=(view.cost.at_end or view.cost.spent) if view.cost else None,
            is_awaited=self._run.is_awaited and view.status in ("running", "unknown"),
            usual_s=view.seconds_a_record,
            **_disk(Path(view.source)),
        )


def _rank(update: Update, *, is_recorded: bool) -> str | None:
    """Of a row that names none: the command or the node that printed it."""
    if update.stream.startswith("nodes/"):
        return "node " + update.stream.split("/")[1]
    return update.stream or None if not is_recorded else None


def _named(gpu: str, stream: str) -> str:
    return f"{gpu} of node {stream.split('/')[1]}" if stream.startswith("nodes/") else gpu


def _disk(place: Path) -> dict[str, float]:
    try:
        usage = shutil.disk_usage(place)
    except OSError:  # a pipe, a command, a log that is gone
        return {}
    return {"disk_free_share": usage.free / usage.total, "disk_free_gib": usage.free / GIB}


QUIET_S = 5.0  # after which nobody waits for a next line
BAR_S = 60.0  # nor for a bar to be drawn again
Key = tuple[int, int, object]


class PendingRows:
    """Of one log: increments go in, with what tells the time and the rank of rows; each moment comes out once."""

    def __init__(self) -> None:
        self._judged: dict[Key, Moment] = {}
        self._left: tuple[Increment, When, str | None] | None = None
        self._since, self._due = 0.0, QUIET_S

    def take(self, increment: Increment, when: When, rank: str | None, now: float) -> Iterator[Moment]:
        """What has come to its end; the rest is left from now on."""
        self._left, self._since, self._due = (increment, when, rank), now, QUIET_S
        rows = observations.placed(increment.records, increment.evals, increment.events, when, rank)
        for row in rows:
            if moment := _news(row, self._judged.pop(_key(row), None)):
                yield moment

    def look(self, now: float) -> Iterator[Moment]:
        """What was left for so long that it is judged as it stands."""
        quiet = now - self._since
        if self._left is None or quiet < self._due:
            return
        self._due = BAR_S if quiet < BAR_S else math.inf
        before, self._judged = self._judged, {}
        for row in self._rows(*self._left, bars=quiet >= BAR_S):
            self._judged[_key(row)] = row[2]
            if moment := _news(row, before.get(_key(row))):
                yield moment

    def _rows(self, left: Increment, when: When, rank: str | None, *, bars: bool) -> Iterable[Placed]:
        rows = observations.placed(left.open_records, left.open_evals, left.open_events, when, rank)
        return rows if bars else (row for row in rows if row[0] not in left.bars)


def _key(row: Placed) -> Key:
    """What tells rows of one line apart."""
    line, order, moment = row
    match moment:
        case Evaluation(name=name):
            return line, order, name
        case EventSeen(kind=kind):
            return line, order, kind
    return line, order, None


def _news(row: Placed, judged: Moment | None) -> Moment | None:
    """What was not judged of it: of a record the values that are new, or other than they were."""
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
    """`folder` None keeps it in mind alone: of a pipe there is nothing to come back to."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: set[tuple[object, ...]] = set()

    def is_new(self, alarm: Alarm) -> bool:
        """True once for each; it is written down before anybody is told."""
        self._read()
        key = _alarm_key(asdict(alarm))
        if key in self._known:
            return False
        self._known.add(key)
        self._write(alarm)
        return True

    def _read(self) -> None:
        """Again each time: another one may follow the same run."""
        if self._folder is not None:
            alarms = (event for event in events.read(self._folder) if event.get("kind") == events.ALARM)
            self._known.update(map(_alarm_key, alarms))

    def _write(self, alarm: Alarm) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {name: value for name, value in asdict(alarm).items() if name not in ("text", "at_s")}
        wall = 0 if alarm.at_s is None else int(alarm.at_s * 1e9)
        events.append(self._folder, wall, events.ALARM, alarm.text, **facts)


def folder_for(source: Path, state: Path | None = None) -> Path | None:
    """Of the last segment of a run, or of a log; a file that was replaced is another."""
    if run_folder.is_run(source):
        return run_folder.open_folder(source).segments[-1].path
    try:
        facts = source.stat()
    except OSError:
        return None
    identity = f"{source.resolve()}\0{facts.st_dev}\0{facts.st_ino}"
    return (state or _state()) / "alarms" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def _state() -> Path:
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "gputel"


def _alarm_key(facts: dict[str, object]) -> tuple[object, ...]:
    return tuple(facts.get(name) for name in ("rule", "key", "state", "step"))
