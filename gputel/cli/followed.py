"""What `gputel tail` does with its words: opens what is followed, and hands it to whoever shows it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gputel.analysis import logs
from gputel.analysis.live import commands, kept, plain
from gputel.analysis.live.follow import Follower
from gputel.analysis.live.runs import Followed
from gputel.cli import show, sources
from gputel.telemetry.errors import GputelError


def opened(
    paths: Sequence[str], froms: Sequence[str], chosen: str | None, view: str, *, fresh: bool = False
) -> Follower:
    """`view` names what shows the runs: each kind goes on where it was itself."""
    if not paths and not froms:
        mend = "name a log, a run folder, or --from RANK=COMMAND"
        raise GputelError("tail", "nothing to follow", mend, exit_code=2)
    words = [str(sources.latest()) if word == "latest" else word for word in paths]
    ranks = [commands.split(text) for text in froms]
    formats = logs.chosen(chosen)
    if "-" in words:
        return Follower(words, ranks, formats)  # nobody can know what of a pipe was shown before
    identity = [view, chosen or "", *(str(Path(word).resolve()) for word in words), *froms]
    memory = kept.remembered(identity, formats, fresh=fresh)
    if memory is None:
        show.note("this is followed elsewhere, too: all of it is shown, and nothing remembered")
    return Follower(words, ranks, formats, kept=memory)


def plainly(
    paths: Sequence[str], froms: Sequence[str], chosen: str | None, *, as_json: bool, fresh: bool
) -> int:
    """A line for each row until everything is over, or somebody ends it."""
    view = "json" if as_json else "plain"
    follower = opened(paths, froms, chosen, view, fresh=fresh)
    write = plain.as_json if as_json else plain.text
    notes = _Notes()
    with contextlib.closing(follower), _until_told(follower) as ended:
        for news in follower.news(lambda: bool(ended)):
            notes.tell(follower.runs, follower.waiting)
            new = "".join(line + "\n" for one in news for line in plain.lines(one, write)).encode()
            sys.stdout.buffer.write(new[follower.already :])
            sys.stdout.buffer.flush()
    return 0


class _Notes:
    """What a user has to know of the following, once each, on standard error."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, runs: Sequence[Followed], waiting: Sequence[str]) -> None:
        said = [note for run in runs for note in run.notes]
        said += [f"{run.source}: {run.trouble}" for run in runs if run.trouble]
        said += [f"{word}: is not there yet; it is waited for" for word in waiting]
        for note in said:
            if note not in self._told:
                self._told.add(note)
                show.note(note)


@contextlib.contextmanager
def _until_told(follower: Follower) -> Iterator[list[int]]:
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
