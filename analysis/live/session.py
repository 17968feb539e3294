"""What every view of `gputel tail` does besides showing: follow runs, judge them, tell of alarms, serve figures.

for turn in session.turns(stop): turn.updates, turn.notices, session.views()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.live.alarms import AlarmLog, RunAlarms, folder_for
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
    """What came, and the alarms that nobody was told of before."""

    updates: Sequence[Update]
    notices: Sequence[Notice]


class Session:
    """`notifier` and `exporter` are closed by whoever opened them."""

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
        self._judges: dict[str, RunAlarms] = {}
        self._told: dict[str, AlarmLog] = {}

    def turns(self, stop: Callable[[], bool] = lambda: False) -> Iterator[SessionUpdate]:
        """As often as the follower has news, and once a second at least."""
        for updates in self.follower.updates(stop):
            yield SessionUpdate(updates, self._judged(updates))
        if not stop():  # what was over at once has not been looked at
            yield SessionUpdate([], self._judged([]))

    def views(self) -> list[tuple[View, RunAlarms]]:
        return [(run.state.view(self.terms), judge) for run, judge in self.judged()]

    def judged(self) -> list[tuple[Followed, RunAlarms]]:
        return [(run, self._judge(run)) for run in self.follower.runs]

    @property
    def is_alarmed(self) -> bool:
        """Whether something is wrong now, also where it was told before."""
        return any(judge.is_live and judge.active for judge in self._judges.values())

    def _judged(self, updates: Sequence[Update]) -> list[Notice]:
        runs = {run.source: run for run in self.follower.runs}
        notices: list[Notice] = []
        for update in updates:
            run = runs[update.source]
            notices += self._new(run, self._judge(run).take(update))
        behind = {
            update.source for update in updates if not update.live
        }  # still reading what was there before
        due = [run for run in self.follower.runs if run.source not in behind and self._judge(run).is_due]
        for run in due:
            notices += self._new(run, self._judge(run).look(run.state.view(self.terms)))
        if due and self._exporter is not None:
            self._exporter.show([(view, [a.rule for a in judge.active]) for view, judge in self.views()])
        if self._notifier is not None:
            for notice in notices:
                self._notifier.send(notice)
        return notices

    def _new(self, run: Followed, alarms: Sequence[Alarm]) -> list[Notice]:
        told = self._told[run.source]
        return [Notice(run.name, alarm) for alarm in alarms if told.is_new(alarm)]

    def _judge(self, run: Followed) -> RunAlarms:
        if run.source not in self._judges:
            self._judges[run.source] = RunAlarms(run, self._rules)
            self._told[run.source] = AlarmLog(folder_for(Path(run.source)))
        return self._judges[run.source]
