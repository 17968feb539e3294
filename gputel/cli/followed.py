"""What `gputel tail` does with its words: opens what is followed, and hands it to whoever shows it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gputel.analysis.live import lines, resume
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.session import Session
from gputel.analysis.live.sources import split
from gputel.analysis.live.view import Terms
from gputel.analysis.logs import files
from gputel.cli import alarms, show, sources
from gputel.telemetry.errors import GputelError

LINES = ("plain", "json")  # views that print lines


def opened(
    paths: Sequence[str],
    froms: Sequence[str],
    chosen: str | None,
    view: str,
    *,
    fresh: bool = False,
    piped: int = 0,
) -> Follower:
    """`view` names what shows the runs. Lines go on where those of the same view stopped; a screen and a page show
    all of a run, and so does `-`, of which nobody can know what was shown before. `piped` is what `-` reads.
    """
    if not paths and not froms:
        mend = "name a log, a run folder, or --from RANK=COMMAND"
        raise GputelError("gputel tail", "nothing to follow", mend, exit_code=2)
    words = [str(sources.latest()) if word == "latest" else word for word in paths]
    ranks = [split(text) for text in froms]
    formats = files.chosen(chosen)
    if "-" in words or view not in LINES:
        return Follower(words, ranks, formats, piped=piped)
    identity = [view, chosen or "", *(str(Path(word).resolve()) for word in words), *froms]
    positions = resume.opened(identity, fresh=fresh)
    if positions is None:
        show.note("this is followed elsewhere, too: all of it is shown, and no position is saved")
    return Follower(words, ranks, formats, positions=positions)


def shown(asked: Mapping[str, Any]) -> int:
    """On a terminal its view, else a line for each row, until everything is over or somebody ends it."""
    if not (asked["plain"] or asked["as_json"]) and (piped := show.taken()) is not None:
        return on_the_terminal(asked, piped)
    with session(asked, "json" if asked["as_json"] else "plain", show.note) as following:
        return plainly(following, asked)


def on_the_terminal(asked: Mapping[str, Any], piped: int) -> int:
    from gputel.analysis.live.terminal import app, snapshots

    troubles: list[str] = []
    with session(asked, "terminal", troubles.append, piped) as following:
        terminal = app.Terminal(
            lambda ending: snapshots.pictures(following, troubles, ending),
            following.follower.wake,
            bell=asked["bell"],
            exit_on_alarm=asked["exit_on_alarm"],
        )
        try:
            code = terminal.run()
        finally:
            terminal.wait()
    if terminal.fault is not None:
        raise terminal.fault
    if code:
        for run in terminal.picture.runs:
            for alarm in run.active:
                show.note(f"{run.view.name}: {alarm.line}")
    return code or 0


@contextlib.contextmanager
def session(
    asked: Mapping[str, Any], view: str, on_trouble: Callable[[str], None], piped: int = 0
) -> Iterator[Session]:
    """With whoever is told of alarms; what cannot be done is said before anything is followed."""
    rules = alarms.wanted(asked)
    terms = Terms(asked["price"], asked["budget"])
    with (
        alarms.notifier(asked, on_trouble) as notifier,
        alarms.exporter(asked["prometheus"]) as exporter,
        contextlib.closing(
            opened(
                asked["paths"], asked["commands"], asked["chosen"], view, fresh=asked["fresh"], piped=piped
            )
        ) as follower,
    ):
        yield Session(follower, rules, terms, notifier, exporter)


def plainly(following: Session, asked: Mapping[str, Any]) -> int:
    follower, notes = following.follower, Notes()
    said = lines.LinePrinter(lines.rows_json if asked["as_json"] else lines.rows_text)
    with until_told(follower) as ended:
        for turn in following.turns(lambda: bool(ended)):
            notes.tell(follower)
            rows = "".join(line + "\n" for update in turn.updates for line in said.rows(update)).encode()
            alarms = "".join(line + "\n" for line in said.alarms(turn)).encode()
            sys.stdout.buffer.write(rows + alarms)
            sys.stdout.buffer.flush()
            follower.shown()
            if asked["bell"] and alarms:
                show.bell()
            if asked["exit_on_alarm"] and following.is_alarmed:
                return 4
    return 0


class Notes:
    """What a user has to know of the following, once each, on standard error."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, follower: Follower) -> None:
        said = [note for run in follower.runs for note in run.notes]
        said += [f"{run.source}: {run.trouble}" for run in follower.runs if run.trouble]
        said += [*follower.awaited, *follower.notes]
        for note in said:
            if note not in self._told:
                self._told.add(note)
                show.note(note)


@contextlib.contextmanager
def until_told(follower: Follower) -> Iterator[list[int]]:
    """SIGINT and SIGTERM end the following, and neither harms what is followed."""
    ended: list[int] = []

    def end(number: int, _frame: object) -> None:
        ended.append(number)
        follower.wake()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
