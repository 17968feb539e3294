"""A local copy of runs in object storage that is kept up to date: whatever follows files follows it.

While a segment is being sent, its output is held open for writing, as its recorder does where it runs. So a run
goes on for its readers, and is cut off once nothing has come of it for long.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from gputel.analysis import text
from gputel.telemetry.errors import GputelError
from gputel.telemetry.own_files import UNFOLLOWED
from gputel.telemetry.remote.local_copy import local_copy
from gputel.telemetry.remote.sidecar import EVERY_S

SILENT_S = 3 * EVERY_S
"""How long nothing may come of a segment, by our clock, which may differ from the clock of storage."""


@dataclass
class _Sending:
    """A segment without a seal: its newest object, when we first saw that, and the output that is held open."""

    newest: datetime
    seen: float
    handle: int | None
    is_silent: bool = False

    def let_go(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
        self.handle = None


class Mirror:
    """Looks at an address every ten seconds until it is closed. Raises GputelError where nothing is.

    Faults and silence are told to `on_note`, from a thread of its own, once when they begin.
    """

    def __init__(
        self,
        address: str,
        on_note: Callable[[str], object],
        *,
        now: Callable[[], float] = time.monotonic,
        every_s: float = EVERY_S,
    ) -> None:
        self._address, self._on_note, self._now = address, on_note, now
        self._sending: dict[str, _Sending] = {}
        self._is_held_up = False
        self._closed = threading.Event()
        copy = local_copy(address)
        self.path = copy.path
        self._hold(copy.unsealed)
        self._thread = threading.Thread(target=self._look_again, args=(every_s,), daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Fetches what is new."""
        try:
            unsealed = local_copy(self._address).unsealed
        except (GputelError, OSError) as error:
            if not self._is_held_up:
                self._on_note(f"{error}; trying again")
            self._is_held_up = True
        else:
            self._is_held_up = False
            self._hold(unsealed)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for segment in self._sending.values():
            segment.let_go()

    def _look_again(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            self.look()

    def _hold(self, unsealed: Mapping[str, datetime]) -> None:
        """Holds the outputs of segments that are being sent; lets go of those that are sealed or silent."""
        for name in self._sending.keys() - unsealed.keys():
            self._sending.pop(name).let_go()
        for name, newest in unsealed.items():
            before = self._sending.get(name)
            if before is None or before.newest != newest:
                handle = before.handle if before else None
                self._sending[name] = _Sending(
                    newest, self._now(), self._open(name) if handle is None else handle
                )
            elif not before.is_silent and self._now() - before.seen >= SILENT_S:
                before.is_silent = True
                before.let_go()
                self._on_note(
                    f"{self._address}: {name or 'the run'} was last heard of at {text.moment(newest)}"
                )

    def _open(self, segment: str) -> int | None:
        """Its output, if it has one: a recording without a command prints nothing."""
        with suppress(OSError):
            return os.open(self.path / segment / "output.log", os.O_WRONLY | os.O_CLOEXEC | UNFOLLOWED)
        return None
