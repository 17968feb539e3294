"""Pushes a recording's seconds to a server that takes Prometheus remote write, a second after they are over.

What cannot be pushed now waits in memory, an hour at most, and the oldest goes first: the picture is for those who
look at it live, and the run folder has it all. A fault is one event when it begins and one when it is over.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gputel.telemetry import events, recorder_lock, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.remote import remote_write
from gputel.telemetry.remote.live_rows import LiveRow, LiveRows
from gputel.telemetry.remote.receiver import PushAnswer, Receiver

EVERY_S, RAREST_S = 1.0, 10.0
SETTLED_S = 0.25  # until the sampler has written a second that is over
SPREAD_S = 0.5  # over which the nodes of a run push, each at its own moment
SLOW_S = 0.5  # an answer that takes longer is asked for less often
MOST_ROWS = 10
"""Seconds in one request."""
HOUR = 3600
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
GRACE_S = 60.0
"""How long pushing goes on after the end of a recording."""
AHEAD_S = 60.0
"""How far a clock may be ahead: a server that took samples of the future refuses those of the present."""
EMPTY = remote_write.request([], [], np.empty((0, 0)))
PUSHED = ".pushed"
GOLDEN = 0.618


class Server(Protocol):
    address: str

    def post(self, body: bytes) -> PushAnswer: ...


class _Waiting(NamedTuple):
    number: int
    second: int
    values: npt.NDArray[np.float64]


class Backlog:
    """Rows that wait, of an hour at most; one thread adds and another takes."""

    def __init__(self, most: int = HOUR) -> None:
        self.dropped = 0
        self._most, self._lock = most, threading.Lock()
        self._rows: deque[_Waiting] = deque()
        self._series: dict[bytes, int] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: LiveRow) -> None:
        with self._lock:
            places = [self._series.setdefault(series, len(self._series)) for series in row.values]
            values = np.full(len(self._series), remote_write.ABSENT)
            values[places] = list(row.values.values())
            self._rows.append(_Waiting(self._added, row.second, values))
            self._added += 1
            if len(self._rows) > self._most:
                self._rows.popleft()
                self.dropped += 1

    def first(self, most: int) -> tuple[list[_Waiting], bytes]:
        """The oldest rows, and a request of them."""
        with self._lock:
            rows, series = [self._rows[i] for i in range(min(most, len(self._rows)))], list(self._series)
        table = np.full((len(rows), len(series)), remote_write.ABSENT)
        for line, row in zip(table, rows, strict=True):
            line[: len(row.values)] = row.values
        return rows, remote_write.request(series, [1000 * row.second for row in rows], table)

    def done(self, rows: list[_Waiting]) -> None:
        with self._lock:
            while self._rows and rows and self._rows[0].number <= rows[-1].number:
                self._rows.popleft()


class Pusher:
    """Sends the rows of a backlog; `turn` makes one request and returns the seconds until the next one is due."""

    def __init__(
        self,
        segment: Path,
        server: Server,
        backlog: Backlog,
        *,
        now: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._segment, self._server, self._backlog = segment, server, backlog
        self._now, self._steady = now, steady
        self._is_tried = False  # whether the server takes requests at all, and its clock is ours
        self._alone = 0  # rows that are sent one by one, since a request of them was refused
        self._every_s = EVERY_S
        self._faults = self._refused = 0
        self._is_full = False

    def turn(self) -> float:
        if self._backlog.dropped and not self._is_full:
            self._is_full = True
            self._note("more than an hour waits to be pushed: the oldest seconds are left out")
        if not self._is_tried:
            return self._try()
        rows, body = self._backlog.first(1 if self._alone else MOST_ROWS)
        if not rows:
            return self._every_s
        asked = self._steady()
        answer = self._server.post(body)
        took = self._steady() - asked
        if answer.verdict == "later":
            return self._fault(f"{self._server.address} {answer.text}", answer.wait_s)
        if answer.verdict == "refused" and len(rows) > 1:
            self._alone = len(rows)
            return 0.0
        if answer.verdict == "refused":
            self._refuse(answer.text)
        self._backlog.done(rows)
        self._alone = max(self._alone - 1, 0)
        self._remember(rows[-1].second)
        self._over()
        self._is_tried = not self._is_ahead(answer)
        self._every_s = min(2 * took, RAREST_S) if took > SLOW_S else EVERY_S
        return 0.0 if self._alone or len(self._backlog) > self._every_s else self._every_s

    def close(self) -> None:
        """Says what has not arrived."""
        left = len(self._backlog)
        lacking = [
            f"{count:,} {what}"
            for count, what in (
                (self._refused, "were refused"),
                (self._backlog.dropped, "waited for more than an hour"),
                (left, "were still waiting at the end"),
            )
            if count
        ]
        if lacking:
            self._note(f"seconds that were not pushed: {', '.join(lacking)}")

    def _try(self) -> float:
        """Sends an empty request before any sample, since a sample cannot be taken back."""
        answer = self._server.post(EMPTY)
        if answer.verdict == "later":
            return self._fault(f"{self._server.address} {answer.text}", answer.wait_s)
        if self._is_ahead(answer):
            return self._fault(
                "this machine's clock is ahead of the server's by more than a minute; start chrony"
            )
        self._is_tried = True
        return 0.0

    def _is_ahead(self, answer: PushAnswer) -> bool:
        return answer.date_s is not None and self._now() - answer.date_s > AHEAD_S

    def _fault(self, text: str, least_s: float = 0.0) -> float:
        if not self._faults:
            self._note(f"pushing is held up: {text}")
        wait_s: float = min(FIRST_WAIT_S * 2**self._faults, LONGEST_WAIT_S) * random.uniform(0.5, 1.0)
        self._faults = min(self._faults + 1, 1000)
        return max(wait_s, least_s)

    def _over(self) -> None:
        if self._faults:
            self._note(f"pushing goes on after {self._faults} faults")
            self._faults = 0

    def _refuse(self, text: str) -> None:
        if not self._refused:
            self._note(f"seconds are left out, as {self._server.address} {text}")
        self._refused += 1

    def _remember(self, second: int) -> None:
        """Saves the last second that was pushed; a restarted pusher goes on after it."""
        with suppress(OSError):
            (self._segment / PUSHED).write_text(f"{second:012d}")

    def _note(self, text: str) -> None:
        """Writes an event, unless the disk is full."""
        with suppress(OSError):
            events.note(self._segment, events.PUSH, text)


def push(segment: Path, address: str, run: str, node: int) -> None:
    """Pushes until the recording has ended and nothing waits, or the grace after its end is over.

    `run` and `node` are labels of all series.
    """

    def now() -> float:
        return run_folder.now_ns(segment) / SECOND

    rows = LiveRows(segment, run, f"{node}", _pushed(segment) + 1)
    backlog, over = Backlog(), threading.Event()
    pusher = Pusher(segment, Receiver(address), backlog, now=now)
    sender = threading.Thread(target=_send, args=(pusher, backlog, over), name="gputel-push", daemon=True)
    sender.start()
    moment = SETTLED_S + SPREAD_S * (GOLDEN * node % 1)
    is_alive = True
    while is_alive:
        time.sleep(1 - (now() - moment) % 1)
        is_alive = recorder_lock.recorder_of(segment) is not None
        for row in rows.read():
            backlog.add(row)
    over.set()
    sender.join(GRACE_S)
    pusher.close()


def _send(pusher: Pusher, backlog: Backlog, over: threading.Event) -> None:
    while len(backlog) or not over.is_set():
        wait_s = pusher.turn()
        time.sleep(wait_s) if over.is_set() else over.wait(wait_s)


def _pushed(segment: Path) -> int:
    """The last second that a pusher before us has pushed; 0 if none has."""
    try:
        return int((segment / PUSHED).read_text())
    except (OSError, ValueError):
        return 0
