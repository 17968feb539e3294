"""What is new of a run that is followed -> its alarms: rows become moments, and a look at the clock once a second.

What was there before the following began is judged too, but only what is still wrong at its end is news. Times are
those of the recorder; a plain log's own stamps may be of any time zone, so its records count from when they came.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis.alarms import replay
from gputel.analysis.alarms.moments import Clock, GpuSecond, Happened, Moment
from gputel.analysis.alarms.watch import Alarm, Watch
from gputel.analysis.live.unclosed import Unclosed
from gputel.telemetry.events import ALARM

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.live.runs import Followed
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View

MOST_HISTORY = 200
LOOK_S = 1.0
GIB = 1 << 30
Row = dict[str, Any]


class Judge:
    """Of one run. `active` is what is wrong now, `history` the alarms that began and ended, last ones last."""

    def __init__(self, run: Followed, rules: Sequence[Rule], now: Callable[[], float] = time.time) -> None:
        self._run, self._rules, self._now = run, rules, now
        self._watch = Watch(rules)
        self._looked = float("-inf")
        self._live = False
        self._ended = False
        self._unclosed: dict[str, Unclosed] = {}
        self.history: deque[Alarm] = deque(maxlen=MOST_HISTORY)

    @property
    def active(self) -> list[Alarm]:
        return self._watch.active

    def take(self, update: Update) -> list[Alarm]:
        """Alarms that are news; none while what was there before is caught up with."""
        if update.increment is not None and update.increment.afresh:
            self._watch, self._unclosed = Watch(self._rules), {}
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
            unclosed = self._unclosed.setdefault(update.stream, Unclosed())
            came = self._came(update)
            is_recorded = self._run.state.is_recorded
            when = replay.stamped if is_recorded else lambda _: came
            rank = _rank(update, is_recorded=is_recorded)
            yield from unclosed.take(update.increment, when, rank, came)
        for event in update.happened:
            if event.get("kind") != ALARM:
                yield Happened(str(event.get("kind")), str(event.get("text")), self._now(), facts=event)
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
            yield Happened("exit", f"the command ended with {code}", now, view.step, {"code": code})
        for unclosed in self._unclosed.values():
            yield from unclosed.look(now)
        hours = None if view.elapsed_s is None else (view.elapsed_s + (view.eta_s or 0)) / 3600
        size = view.config.get("world_size")
        yield Clock(
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
