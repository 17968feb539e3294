"""Takes snapshots of a session: frozen values, at most four per second, and none while nothing changes.

A duration that only grows with the clock is not a change: a snapshot has the time of the last record, not its age.
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
    """One run: its view, its active alarms, and alarms raised or cleared before, oldest first."""

    view: View
    active: Sequence[Alarm] = ()
    history: Sequence[Alarm] = ()


@dataclass(frozen=True)
class Snapshot:
    """All runs at one moment. `rings` counts alarms raised so far; `alarmed` says whether one is active."""

    at: datetime
    runs: Sequence[RunSnapshot] = ()
    notes: Sequence[str] = ()
    rings: int = 0
    alarmed: bool = False
    reading: str = ""
    """How far the first reading has come; empty once it is over."""


def snapshots(
    session: Session,
    troubles: Sequence[str] = (),
    ending: Event | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Snapshot]:
    """Yields snapshots until `ending` is set or every run is over. Other threads may append to `troubles`.

    It reads at most four times a second, since most of the cost of a read does not depend on its size.
    """
    ending = ending or Event()
    last_yield, last_state, rings = float("-inf"), None, 0
    for turn in session.turns(ending.is_set):
        rings += sum(notice.alarm.state == "on" for notice in turn.notices)
        state = _state(session, troubles, rings)
        if state != last_state and now() - last_yield >= PAUSE_S:
            last_yield, last_state = now(), state
            yield _snapshot(session, troubles, rings)
        if turn.updates and all(update.live for update in turn.updates):
            ending.wait(PAUSE_S)
    if _state(session, troubles, rings) != last_state:
        yield _snapshot(session, troubles, rings)


def _state(session: Session, troubles: Sequence[str], rings: int) -> object:
    """Everything that a snapshot depends on."""
    runs = [(run.state.changed, alarms.active, list(alarms.history)[-1:]) for run, alarms in session.runs()]
    return runs, _notes(session, troubles), rings


def _snapshot(session: Session, troubles: Sequence[str], rings: int) -> Snapshot:
    runs = [
        RunSnapshot(view, tuple(alarms.active), tuple(alarms.history)[-MOST_HISTORY:])
        for view, alarms in session.views()
    ]
    notes = _notes(session, troubles)
    return Snapshot(datetime.now(timezone.utc), runs, notes, rings, session.is_alarmed)


def _notes(session: Session, troubles: Sequence[str]) -> list[str]:
    follower = session.follower
    notes = [note for run in follower.runs for note in run.notes]
    unreadable = [f"{run.name}: {run.trouble}" for run in follower.runs if run.trouble]
    return [*follower.awaited, *unreadable, *troubles[-3:], *notes]
