"""A session: follows runs, judges them, sends alarms and serves Prometheus, for every view of `gputel tail`.

for turn in session.turns(stop):
    turn.updates, turn.notices, session.views()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.live.alarms import AlarmLog, RunAlarms, folder_for, last_segment
from gputel.analysis.live.notify import Notice
from gputel.analysis.live.view import Terms

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.alarms.watch import Alarm
    from gputel.analysis.live.follower import Follower
    from gputel.analysis.live.notify import Notifier
    from gputel.analysis.live.prometheus import Exporter
    from gputel.analysis.live.runs import Followed
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View


@dataclass(frozen=True)
class SessionUpdate:
    """New updates, and alarms that were not raised before."""

    updates: Sequence[Update]
    notices: Sequence[Notice]


class Session:
    """Runs of one follower. The caller closes `notifier` and `exporter`."""

    def __init__(
        self,
        follower: Follower,
        rules: Sequence[Rule],
        terms: Terms | None = None,
        notifier: Notifier | None = None,
        exporter: Exporter | None = None,
    ) -> None:
        self.follower, self.terms = follower, terms or Terms()
        self._rules, self._notifier, self._exporter = rules, notifier, exporter
        self._alarms: dict[str, RunAlarms] = {}
        self._alarm_logs: dict[str, AlarmLog] = {}

    def turns(self, stop: Callable[[], bool] = lambda: False) -> Iterator[SessionUpdate]:
        """Yields as often as the follower has updates, at least once a second."""
        for updates in self.follower.updates(stop):
            yield SessionUpdate(updates, self._judge(updates))
        if not stop():  # a run that was over at once has not been judged yet
            yield SessionUpdate([], self._judge([]))

    def views(self) -> list[tuple[View, RunAlarms]]:
        """The state and the alarms of every run."""
        return [(run.state.view(self.terms), alarms) for run, alarms in self.runs()]

    def runs(self) -> list[tuple[Followed, RunAlarms]]:
        """Every followed run with its alarms."""
        return [(run, self._alarms_of(run)) for run in self.follower.runs]

    @property
    def is_alarmed(self) -> bool:
        """Whether an alarm is on now, including alarms raised by an earlier session."""
        return any(alarms.is_live and alarms.active for alarms in self._alarms.values())

    def _judge(self, updates: Sequence[Update]) -> list[Notice]:
        runs = {run.source: run for run in self.follower.runs}
        notices: list[Notice] = []
        for update in updates:
            run = runs[update.source]
            notices += self._new(run, self._alarms_of(run).take(update))
        catching_up = {update.source for update in updates if not update.live}
        due = [
            run for run in self.follower.runs if run.source not in catching_up and self._alarms_of(run).is_due
        ]
        for run in due:
            notices += self._new(run, self._alarms_of(run).look(run.state.view(self.terms)))
        if due and self._exporter is not None:
            self._exporter.show([(view, [a.rule for a in alarms.active]) for view, alarms in self.views()])
        if self._notifier is not None:
            for notice in notices:
                self._notifier.send(notice)
        return notices

    def _new(self, run: Followed, alarms: Sequence[Alarm]) -> list[Notice]:
        log = self._alarm_logs[run.source]
        return [Notice(run.name, alarm) for alarm in alarms if log.is_new(alarm)]

    def _alarms_of(self, run: Followed) -> RunAlarms:
        if run.source not in self._alarms:
            self._alarms[run.source] = RunAlarms(run, self._rules)
            self._alarm_logs[run.source] = AlarmLog(
                folder_for(Path(run.source)), last_segment(Path(run.source))
            )
        return self._alarms[run.source]
