"""Whether somebody still writes a log that is followed: what tells a run that is silent from one that is over.

Nobody can tell everywhere. A writer on another machine, in another container or of another user is not seen, nor is
one that opens the log for each of its lines: where it grows, and nobody is seen to write it, silence says nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from gputel.analysis import writers
from gputel.analysis.live import mounts
from gputel.telemetry import filesystem

FRESH_S = 60.0  # what was written so lately may be written by somebody who comes again
RARELY_S = 60.0  # between two searches through all processes for a writer that is not seen


class Written:
    """Of one file. `look` once a second, with the moment at which it last grew."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._handle: Path | None = None
        self._was_seen = False  # the last time that we searched, or since
        self._is_hidden = False  # nobody is seen, and it has grown, or may be written by whom we cannot see
        self._searched = float("-inf")
        self._changed: float | None = None  # when we searched

    def look(self, changed: float) -> bool | None:
        """True and False where that can be told."""
        if self._handle and writers.holds(self._handle, self._path):
            return True
        if self._is_search_due(changed):
            self._search(changed)
        if self._handle:
            return True
        is_fresh = not self._was_seen and self._now() - changed < FRESH_S
        return None if is_fresh or self._is_hidden else False

    def _is_search_due(self, changed: float) -> bool:
        if self._handle is None and changed == self._changed:
            return False
        return not self._is_hidden or self._now() - self._searched >= RARELY_S

    def _search(self, changed: float) -> None:
        had, first = self._handle is not None, self._changed is None
        self._handle = writers.handle(self._path, changed)
        self._was_seen = had or self._handle is not None
        self._is_hidden = not self._was_seen and (not first or not _is_ours(self._path))
        self._searched, self._changed = self._now(), changed


def _is_ours(path: Path) -> bool:
    """Whether those who write it are likely among the processes that we may look at."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return (
        os.geteuid() in (0, owner)
        and mounts.is_told(filesystem.kind(path))
        and Path("/proc/self/fd").exists()
    )
