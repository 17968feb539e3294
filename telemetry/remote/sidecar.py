"""The process beside a recording that sends its files to object storage, and its seconds to a server.

A process of its own, so that a network that hangs holds nothing up, until the recorder has gone. The files are the
queue: what could not be sent is sent later, and a fault is one event when it begins and one when it is over.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gputel.telemetry import events, own_process, recorder_lock, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import file_kinds
from gputel.telemetry.remote.courier import Courier, SendingRate, Sent
from gputel.telemetry.remote.storage import Storage

EVERY_S = 10.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 30.0  # after a fault, doubled by each
GRACE_S = 120.0
"""How long the end of a recording may take to be sent."""
LOOK_S = 0.5
LAST_WORDS_S = 5.0
"""How long a sampler may outlive the others of its recorder, if that was killed."""
LEAST_PRIORITY = 19


@dataclass(frozen=True)
class SyncOrder:
    """Where a segment goes."""

    run: str
    segment: str
    address: str
    every_s: float = EVERY_S
    bytes_per_s: float | None = None

    def courier(self, sent: Sent) -> Courier:
        """A courier that goes on from what is there; it reads the keys of the storage anew."""
        storage, segment = Storage(self.address, create=True), Path(self.segment)
        home = file_kinds.home(run_folder.Segment(segment), Path(self.run))
        rate = SendingRate(self.bytes_per_s)
        return Courier(segment, storage, home, storage.objects(), sent, rate=rate)


@dataclass(frozen=True)
class PushOrder:
    """Where the seconds of a segment are pushed to, and the labels of their series."""

    segment: str
    address: str
    run: str
    node: int

    def push(self) -> None:
        from gputel.telemetry.remote import push

        try:
            push.push(Path(self.segment), self.address, self.run, self.node)
        except Exception as error:
            _note(Path(self.segment), f"pushing has ended by a fault of gputel: {error}", events.PUSH)
            raise


@dataclass(frozen=True)
class Sending:
    """The work of one sending process."""

    sync: SyncOrder | None = None
    push: PushOrder | None = None

    def start(self, _command: int) -> Sequence[str]:
        """Arguments that start the process."""
        return own_process.argv(__name__, json.dumps(asdict(self)))


def main(text: str) -> None:
    viewer = os.getppid()
    with suppress(OSError):
        os.nice(LEAST_PRIORITY)
    with Path(os.devnull).open("wb") as null:  # we may outlive the recorder, and a pipe wait for us
        os.dup2(null.fileno(), sys.stderr.fileno())
    orders = json.loads(text)
    pushing = threading.Thread(target=PushOrder(**orders["push"]).push) if orders["push"] else None
    if pushing:
        pushing.start()
    if orders["sync"]:
        follow(SyncOrder(**orders["sync"]), viewer=viewer)
    if pushing:
        pushing.join()


def follow(order: SyncOrder, sleep: Callable[[float], None] = time.sleep, viewer: int | None = None) -> None:
    """Sends until all of an ended segment is there, or the grace after its end is over.

    Where its parent, the viewer, was killed, the sampler may still write its last rows and statistics.
    """
    segment, courier = Path(order.segment), None
    faults, left_s, wait_s = 0, GRACE_S, 0.0
    while True:
        over = recorder_lock.recorder_of(segment) is None
        if over and viewer not in (None, os.getppid()):
            sleep(LAST_WORDS_S)
            viewer = None
        try:
            courier = courier or order.courier(Sent())
            courier.send(over=over)
        except (GputelError, OSError) as error:
            courier = None
            wait_s = min(FIRST_WAIT_S * 2**faults, LONGEST_WAIT_S) * random.uniform(0.5, 1.0)
            faults += 1
            if faults == 1:
                _note(segment, f"sending is held up: {error}")
            if over and (left_s := left_s - wait_s) < 0:
                return
        else:
            if over and not faults:
                return
            wait_s = order.every_s
            if faults:
                _note(segment, f"sending goes on after {faults} faults")
                faults, wait_s = 0, 0.0  # that event is to be sent, too
        _wait(wait_s, segment, sleep, over=over)


def _wait(wait_s: float, segment: Path, sleep: Callable[[float], None], *, over: bool) -> None:
    """Waits, but no longer than until the recorder has gone."""
    while wait_s > 0 and (over or recorder_lock.recorder_of(segment)):
        sleep(min(wait_s, LOOK_S))
        wait_s -= LOOK_S


def _note(segment: Path, text: str, kind: str = events.SYNC) -> None:
    """An event; a full disk leaves it out."""
    with suppress(OSError):
        events.note(segment, kind, text)
