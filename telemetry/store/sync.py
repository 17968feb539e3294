"""Makes files durable in a thread of its own, so that no writer waits: a sync may take half a minute.

Only a power failure needs this. A kill loses nothing that a write call took.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

EVERY_S = 5.0


class Syncer:
    """Syncs open files every few seconds, and sealed files once more before it closes them.

    `open_files` returns copies of the descriptors being written, which are closed here.
    """

    def __init__(
        self, open_files: Callable[[], Sequence[int]], on_trouble: Callable[[str, str], None]
    ) -> None:
        self._open_files = open_files
        self._on_trouble = on_trouble
        self._sealed: list[tuple[Sequence[int], Callable[[], None]]] = []
        self._wake = threading.Event()
        self._closing = False
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="gputel-sync", daemon=True)
        self._thread.start()

    def seal(self, files: Sequence[int], sealed: Callable[[], None]) -> None:
        """Sync and close these files, then call `sealed`."""
        self._sealed.append((files, sealed))
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Finish; True if everything is on the disk, False if the disk takes longer than `timeout_s`."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(EVERY_S)
            self._wake.clear()
            self._sync(self._open_files())
            self._finish_sealed()
        self._finish_sealed()

    def _finish_sealed(self) -> None:
        while self._sealed:
            files, sealed = self._sealed.pop(0)
            self._sync(files)
            sealed()

    def _sync(self, files: Sequence[int]) -> None:
        for file in files:
            try:
                getattr(os, "fdatasync", os.fsync)(file)
            except OSError as error:
                self._report(error)
            with contextlib.suppress(OSError):
                os.close(file)

    def _report(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            self._on_trouble("disk_error", f"telemetry may not survive a power failure: {error.strerror}")
