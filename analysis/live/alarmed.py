"""Alarms as lines, between the rows that plain.py says: `12:00:01 d16 alarm: loss spike at step 812: ...`.

An alarm stands in the events of a recorded run, whoever raised it. Ours comes back from there, and is said once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live import plain, printed
from gputel.telemetry.events import ALARM

if TYPE_CHECKING:
    from gputel.analysis.live.session import Turn
    from gputel.analysis.live.update import Update

FACTS = ("rule", "what", "state", "key", "text", "step")


class Lines:
    """Of one view, for as long as it lasts."""

    def __init__(self, write: printed.Writer) -> None:
        self._printer = plain.Printer(write)
        self._said: set[tuple[object, ...]] = set()

    def rows(self, update: Update) -> list[str]:
        """Everything that is new of a run, but alarms that were said when they were raised."""
        alarms = [event for event in update.happened if event.get("kind") == ALARM]
        if not alarms:
            return self._printer.lines(update)
        rest = [event for event in update.happened if event.get("kind") != ALARM]
        found = [] if update.shown else [_alarm(event) for event in alarms]
        run = update.run
        said = [self._line(run, alarm, time) for alarm, time in found if self._is_new(run, alarm)]
        return self._printer.lines(replace(update, happened=rest)) + said

    def alarms(self, turn: Turn) -> Iterator[str]:
        for notice in turn.notices:
            if self._is_new(notice.run, notice.alarm):
                at = notice.alarm.at_s
                time = None if at is None else text.moment(int(at * 1e9))
                yield self._line(notice.run, notice.alarm, time)

    def _is_new(self, run: str, alarm: Alarm) -> bool:
        key = (run, alarm.rule, alarm.key, alarm.state, alarm.step)
        new = key not in self._said
        self._said.add(key)
        return new

    def _line(self, run: str, alarm: Alarm, time: str | None) -> str:
        facts = asdict(alarm) if self._printer.write is printed.as_json else {"text": alarm.line}
        facts.pop("at_s", None)
        dated = {"time": time} if time else {}
        return plain.told(run, {"kind": ALARM, **dated, **facts}, self._printer.write)


def _alarm(event: Mapping[str, Any]) -> tuple[Alarm, str | None]:
    """As Told wrote it."""
    facts: dict[str, Any] = {name: event.get(name) for name in FACTS}
    return Alarm(**facts, at_s=None), event.get("time")
