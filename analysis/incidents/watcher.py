"""The process beside a recording that looks into the training when nothing is printed any more.

It watches output.idx. After a silence that is long for this run it takes several looks; an incident is written only
if no rank moved in all of them. A healthy run that prints nothing is asked again ever more rarely.
"""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from gputel.analysis.incidents import incident
from gputel.analysis.incidents.instructions import Silence, WatchOrder, parse_order
from gputel.analysis.incidents.process_states import Standing, standings
from gputel.analysis.incidents.verdict import HangVerdict, judge
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.inside import ask, unseen
from gputel.telemetry.process.output_index import RECORD

LOOK_S = 1.0
READS = 64
"""Reads of the output whose gaps are the usual ones."""
FEWEST_READS = 10
MOST_INCIDENTS = 5
APART = 10
"""Times the silence that is long for the run, from one incident to the next."""


def allowed_s(silence: Silence, reads: Sequence[int]) -> float:
    """Seconds without a print that are not too long, after reads at these moments in nanoseconds."""
    if len(reads) < FEWEST_READS:
        return silence.start_s
    gaps = [(later - earlier) / SECOND for earlier, later in pairwise(reads)]
    return max(silence.fewest_s, silence.intervals * statistics.median(gaps))


def may_be_work(verdict: HangVerdict, silent_s: float, silence: Silence) -> bool:
    """Whether the rank for which the others wait may still evaluate or save: it runs in its own code."""
    return verdict.standing is not None and verdict.standing.runs and silent_s < silence.pause_s


class HangWatcher:
    """Watches one segment until its command and its recorder have ended."""

    def __init__(self, order: WatchOrder, now: Callable[[], float] = time.monotonic) -> None:
        self._order, self._now = order, now
        self._segment, self._folder = Path(order.segment), Path(order.folder)
        self._reads: list[int] = []
        self._size = 0
        self._since_s = self._asked_s = self._now()
        self._written = [self._now() for _ in incident.read(self._segment)]
        self._removed = False
        self._known = ""
        """What was written of this silence; the same is not written again."""

    def run(self) -> None:
        """Looks once a second."""
        command = _open(self._order.command)
        processes = [each for each in (command, _open(self._order.recorder)) if each]
        while processes:
            ended = select.select(processes, [], [], LOOK_S)[0]
            processes = [each for each in processes if each not in ended]
            with contextlib.suppress(OSError):
                self.look()
                self._report_unseen(command)

    def _report_unseen(self, command: int | None) -> None:
        """Says once what cannot be seen; after the command the recorder removes the folder itself."""
        if self._folder.is_dir():
            unseen.report(self._segment, self._folder)
        elif command and not self._removed and not select.select([command], [], [], 0)[0]:
            self._removed = True
            _say(self._order, f"no stacks of any process: {self._folder} was removed")

    def look(self) -> None:
        """Asks the training if the silence is long, and writes what holds it up."""
        self._read_index()
        now = self._now()
        allowed = allowed_s(self._order.silence, self._reads)
        asked = max(0.0, self._asked_s - self._since_s)
        if now - self._since_s < max(allowed, 2 * asked) or not self._may_write(now, allowed):
            return
        self._asked_s = now
        looks = ask.rounds(self._folder, self._order.silence.rounds, self._order.silence.every_s)
        found = standings(looks)
        verdict = judge(found)
        if verdict and may_be_work(verdict, now - self._since_s, self._order.silence):
            return
        self._read_index()
        if verdict and self._asked_s == now and verdict.sentence != self._known:
            self._write(verdict, found)

    def _may_write(self, now: float, allowed: float) -> bool:
        apart = not self._written or now - self._written[-1] >= APART * allowed
        return apart and len(self._written) < MOST_INCIDENTS

    def _read_index(self) -> None:
        """Takes what was printed since the last look; anything ends the silence."""
        try:
            size = (self._segment / "output.idx").stat().st_size // RECORD.size * RECORD.size
        except FileNotFoundError:
            return
        if size == self._size:
            return
        with (self._segment / "output.idx").open("rb") as index:
            index.seek(max(0, size - READS * RECORD.size))
            stamps = [
                wall for wall, _ in RECORD.iter_unpack(index.read(min(size, READS * RECORD.size))) if wall
            ]
        self._reads, self._size = stamps, size
        self._since_s = self._asked_s = self._now()
        self._known = ""

    def _write(self, verdict: HangVerdict, found: Sequence[Standing]) -> None:
        wall = run_folder.now_ns(self._segment)
        since = self._reads[-1] if self._reads else None
        written = incident.write(self._segment, wall, since, verdict, found)
        self._written.append(self._now())
        self._known = verdict.sentence
        place = str(written.folder.relative_to(self._segment))
        events.append(self._segment, wall, incident.KIND, written.line, place=place, rank=verdict.rank)


def _open(process: int) -> int | None:
    """A descriptor that is ready once the process has ended; None if it already has."""
    with contextlib.suppress(ProcessLookupError):
        return os.pidfd_open(process) if process else None
    return None


def main(order: str) -> None:
    """Runs the watcher; `order` is the JSON that `WatchOrder.as_argv` made. A fault of its own is an event."""
    with contextlib.suppress(OSError):
        os.nice(19)
    placed = parse_order(order)
    try:
        _say_if_restarted(placed)
        HangWatcher(placed).run()
    except Exception as error:
        _say(placed, f"hangs are not watched any more: {type(error).__name__}: {error}")


def _say_if_restarted(order: WatchOrder) -> None:
    """The recorder starts the watcher again where one was killed, and has removed the folder where it has ended."""
    try:
        with contextlib.suppress(FileNotFoundError):
            (Path(order.folder) / "watched").touch(exist_ok=False)
    except FileExistsError:
        _say(
            order,
            "what watches for hangs was killed, and is started again; it knows nothing of the time before",
        )


def _say(order: WatchOrder, words: str) -> None:
    events.note(Path(order.segment), unseen.KIND, words)
