"""Wakes a follower when a file changes, when a descriptor can be read, or after a timeout.

File notifications (watchdog: inotify, FSEvents) wake it within a millisecond. Under load they are paused and it
polls: a thousand notifications a second would cost more than reading.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog import events
from watchdog.observers import Observer

from gputel.analysis.live import files
from gputel.telemetry import filesystem

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch


class Wakeups:
    """`files` and `descriptors` say what to watch; `wait` sleeps; `wake` ends a `wait` from another thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._observer: BaseObserver | None = None
        self._watched: dict[Path, ObservedWatch] = {}
        self._names: set[str] = set()
        self.paused = False

    def files(self, paths: Iterable[Path]) -> None:
        """Watches these files and folders instead of the earlier ones; changes of files beside them do not wake."""
        names = {os.path.realpath(path) for path in paths}
        folders = {path if path.is_dir() else path.parent for path in map(Path, names)}
        self._names = names
        for folder in self._watched.keys() - folders:
            self._leave(folder)
        if not self.paused:
            for folder in folders - self._watched.keys():
                self._enter(folder)

    def descriptors(self, files: Iterable[int]) -> None:
        """Watches these descriptors instead of the earlier ones."""
        wanted = {*files, self._woken}
        registered = set(self._selector.get_map())
        for file in registered - wanted:
            self._selector.unregister(file)
        for file in wanted - registered:
            with contextlib.suppress(PermissionError):  # standard input is a regular file: always readable
                self._selector.register(file, selectors.EVENT_READ)

    def pause(self) -> None:
        """Stops file notifications until `resume`."""
        self.paused = True
        for folder in list(self._watched):
            self._leave(folder)

    def resume(self) -> None:
        self.paused = False
        self.files(map(Path, self._names))

    def wait(self, timeout_s: float) -> bool:
        """Returns whether something happened before the timeout."""
        is_woken = bool(self._selector.select(timeout_s))
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 65536)
        return is_woken

    def wake(self) -> None:
        """Ends `wait`; safe from another thread and from a signal handler."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b".")

    def close(self) -> None:
        if self._observer:
            self._observer.stop()
            self._observer.join()
        self._selector.close()
        os.close(self._woken)
        os.close(self._waker)

    def _enter(self, folder: Path) -> None:
        if not folder.is_dir() or not files.notifies(filesystem.kind(folder)):
            return
        kinds: list[Any] = [
            events.FileModifiedEvent,
            events.FileCreatedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
            events.DirCreatedEvent,
        ]
        if self._observer is None:
            # Its warnings would reach the screen.
            logging.getLogger("watchdog").addHandler(logging.NullHandler())
            self._observer = Observer()
            self._observer.daemon = True
            self._observer.start()
        # Where the limit of inotify watches is reached, the timeout wakes instead.
        with contextlib.suppress(OSError):
            watched = self._observer.schedule(_Handler(self), str(folder), event_filter=kinds)
            self._watched[folder] = watched

    def _leave(self, folder: Path) -> None:
        if self._observer:
            self._observer.unschedule(self._watched.pop(folder))

    def changed(self, *paths: str) -> None:
        """Wakes if one of the paths, or its folder, is watched."""
        if any(path in self._names or path.rpartition(os.sep)[0] in self._names for path in paths):
            self.wake()


class _Handler(events.FileSystemEventHandler):
    """Receives watchdog's events."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups

    def dispatch(self, event: Any) -> None:
        self._wakeups.changed(str(event.src_path), str(event.dest_path or ""))
