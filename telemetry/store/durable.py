"""A thread that makes files durable, so that no writer waits: power may fail, and a sync may take half a minute.

A kill needs none of this: what a write call took stays. `seal` hands a file over for its last sync, closes it and
then calls `sealed`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

EVERY_S = 5.0


class Syncer:
    """`open_files` says which descriptors are being written; those it gives are copies, and are closed here."""

    def __init__(
        self, open_files: Callable[[], Sequence[int]], on_trouble: Callable[[str, str], None]
    ) -> None:
        self._open_files = open_files
        self._on_trouble = on_trouble
        self._sealed: list[tuple[Sequence[int], Callable[[], None]]] = []
        self._wake = threading.Event()
        self._closing = False
        self._told = False
        self._thread = threading.Thread(target=self._run, name="gputel-sync", daemon=True)
        self._thread.start()

    def seal(self, files: Sequence[int], sealed: Callable[[], None]) -> None:
        self._sealed.append((files, sealed))
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """True when everything handed over is on the disk; a disk that hangs is not waited for longer."""
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
                self._tell(error)
            with contextlib.suppress(OSError):
                os.close(file)

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            self._on_trouble("disk_error", f"telemetry may not survive a power failure: {error.strerror}")
