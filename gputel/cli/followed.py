"""What `gputel tail` does with its words: opens what is followed, and hands it to whoever shows it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence

from gputel.analysis import logs
from gputel.analysis.live import commands, plain
from gputel.analysis.live.follow import Followed, Follower
from gputel.cli import show, sources
from gputel.telemetry.errors import GputelError


def opened(paths: Sequence[str], froms: Sequence[str], chosen: str | None) -> Follower:
    if not paths and not froms:
        mend = "name a log, a run folder, or --from RANK=COMMAND"
        raise GputelError("tail", "nothing to follow", mend, exit_code=2)
    words = [str(sources.latest()) if word == "latest" else word for word in paths]
    return Follower(words, [commands.split(text) for text in froms], logs.chosen(chosen))


def plainly(
    paths: Sequence[str], froms: Sequence[str], chosen: str | None, *, as_json: bool, **_rest: object
) -> int:
    """A line for each row until everything is over, or somebody ends it."""
    follower = opened(paths, froms, chosen)
    write = plain.as_json if as_json else plain.text
    said: dict[tuple[str, str], plain.Said] = {}
    notes = _Notes()
    with contextlib.closing(follower), _until_told(follower) as ended:
        for news in follower.news(lambda: bool(ended)):
            notes.tell(follower.runs, follower.waiting)
            lines = []
            for one in news:
                if one.increment is not None:
                    stream = one.run.streams[one.stream]
                    known = said.setdefault((one.run.source, one.stream), plain.Said())
                    for saying in known.new(one.increment, settled=stream.increments.is_settled):
                        lines += write(one.run.name, saying)
            if lines:
                sys.stdout.write("\n".join(lines) + "\n")
                sys.stdout.flush()
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
