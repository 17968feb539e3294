"""Follows and makes pictures: frozen values, at most four a second, and none while nothing changes.

Durations that grow by the clock alone are no change: a picture says when the last record came, not how long ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from threading import Event

from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.session import Session
from gputel.analysis.live.view import View

PAUSE_S = 0.25
MOST_HISTORY = 50


@dataclass(frozen=True)
class RunSnapshot:
    """One run: what is known of it, what is wrong now, and what began or ended before, last ones last."""

    view: View
    active: Sequence[Alarm] = ()
    history: Sequence[Alarm] = ()


@dataclass(frozen=True)
class Snapshot:
    """`rings` counts the alarms that have begun, `alarmed` says whether something is wrong now."""

    at: datetime
    runs: Sequence[RunSnapshot] = ()
    notes: Sequence[str] = ()
    rings: int = 0
    alarmed: bool = False


def pictures(
    session: Session,
    troubles: Sequence[str] = (),
    ending: Event | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Snapshot]:
    """Until `ending` is set, or nothing more will come; `troubles` grows while others report what failed.

    What comes meanwhile is read at once: most of what a reading costs does not depend on how much there is.
    """
    ending = ending or Event()
    drawn, seen, rings = float("-inf"), None, 0
    for turn in session.turns(ending.is_set):
        rings += sum(notice.alarm.state == "on" for notice in turn.notices)
        stands = _stands(session, troubles, rings)
        if stands != seen and now() - drawn >= PAUSE_S:
            drawn, seen = now(), stands
            yield _picture(session, troubles, rings)
        if turn.updates and all(update.live for update in turn.updates):
            ending.wait(PAUSE_S)
    if _stands(session, troubles, rings) != seen:
        yield _picture(session, troubles, rings)


def _stands(session: Session, troubles: Sequence[str], rings: int) -> object:
    """What a picture depends on."""
    runs = [(run.state.changed, judge.active, list(judge.history)[-1:]) for run, judge in session.judged()]
    return runs, _notes(session, troubles), rings


def _picture(session: Session, troubles: Sequence[str], rings: int) -> Snapshot:
    runs = [
        RunSnapshot(view, tuple(judge.active), tuple(judge.history)[-MOST_HISTORY:])
        for view, judge in session.views()
    ]
    notes = _notes(session, troubles)
    return Snapshot(datetime.now(timezone.utc), runs, notes, rings, session.is_alarmed)


def _notes(session: Session, troubles: Sequence[str]) -> list[str]:
    follower = session.follower
    told = [note for run in follower.runs for note in run.notes]
    ill = [f"{run.name}: {run.trouble}" for run in follower.runs if run.trouble]
    return [*follower.awaited, *ill, *troubles[-3:], *told]
