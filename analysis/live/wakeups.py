"""Wakes a follower: when a file changes, when a descriptor can be read, and in any case when its time is over.

Where changes are told (watchdog: inotify, FSEvents), they wake it within a millisecond. Under load it is the clock
that wakes it: a thousand tellings a second would cost more than the reading.
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
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._told, self._tell = os.pipe()
        for end in (self._told, self._tell):
            os.set_blocking(end, False)
        self._selector.register(self._told, selectors.EVENT_READ)
        self._observer: BaseObserver | None = None
        self._watched: dict[Path, ObservedWatch] = {}
        self._names: set[str] = set()
        self.paused = False

    def files(self, paths: Iterable[Path]) -> None:
        """Tell of changes to these files and folders, and of no others beside them."""
        names = {os.path.realpath(path) for path in paths}
        folders = {path if path.is_dir() else path.parent for path in map(Path, names)}
        self._names = names
        for folder in self._watched.keys() - folders:
            self._leave(folder)
        if not self.paused:
            for folder in folders - self._watched.keys():
                self._enter(folder)

    def descriptors(self, files: Iterable[int]) -> None:
        wanted = {*files, self._told}
        known = set(self._selector.get_map())
        for file in known - wanted:
            self._selector.unregister(file)
        for file in wanted - known:
            with contextlib.suppress(
                PermissionError
            ):  # a regular file as standard input: it can always be read
                self._selector.register(file, selectors.EVENT_READ)

    def pause(self) -> None:
        """Much comes: changes are not told until `files` is called again."""
        self.paused = True
        for folder in list(self._watched):
            self._leave(folder)

    def resume(self) -> None:
        self.paused = False
        self.files(map(Path, self._names))

    def wait(self, timeout_s: float) -> bool:
        """Whether something was told before the time was over."""
        told = bool(self._selector.select(timeout_s))
        with contextlib.suppress(BlockingIOError):
            os.read(self._told, 65536)
        return told

    def wake(self) -> None:
        """From another thread, or a signal."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._tell, b".")

    def close(self) -> None:
        if self._observer:
            self._observer.stop()
            self._observer.join()
        self._selector.close()
        os.close(self._told)
        os.close(self._tell)

    def _enter(self, folder: Path) -> None:
        if not folder.is_dir() or not files.is_told(filesystem.kind(folder)):
            return
        kinds: list[Any] = [
            events.FileModifiedEvent,
            events.FileCreatedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
            events.DirCreatedEvent,
        ]
        if self._observer is None:
            logging.getLogger("watchdog").addHandler(
                logging.NullHandler()
            )  # it is told what it tells too late
            self._observer = Observer()
            self._observer.daemon = True
            self._observer.start()
        with contextlib.suppress(OSError):  # no more watches are allowed: it is looked at every second
            watched = self._observer.schedule(_Handler(self), str(folder), event_filter=kinds)
            self._watched[folder] = watched

    def _leave(self, folder: Path) -> None:
        if self._observer:
            self._observer.unschedule(self._watched.pop(folder))

    def told(self, *paths: str) -> None:
        if any(path in self._names or path.rpartition(os.sep)[0] in self._names for path in paths):
            self.wake()


class _Handler(events.FileSystemEventHandler):
    """What watchdog calls."""

    def __init__(self, watch: Wakeups) -> None:
        self._watch = watch

    def dispatch(self, event: Any) -> None:
        self._watch.told(str(event.src_path), str(event.dest_path or ""))
