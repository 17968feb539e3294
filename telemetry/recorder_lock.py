"""The lock of a segment: held by its recorder as long as that lives, however it ends; or by what removes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from gputel.telemetry.own_files import UNFOLLOWED

NAME = ".recorder"


def hold(segment: Path, why: str = "") -> int:
    """Lock the segment for its recorder; returns a descriptor, whose last copy unlocks it. Raises OSError.

    Another process than a recorder says `why`, such as `, which removes it`.
    """
    handle = os.open(segment / NAME, os.O_RDWR | os.O_CREAT | UNFOLLOWED, 0o644)
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}{why}".encode())
    return handle


def recorder_of(segment: Path) -> str | None:
    """Who records a segment now, such as `process 4242 on node7`; None if none does."""
    try:
        handle = os.open(segment / NAME, os.O_RDWR | UNFOLLOWED)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 300).decode(errors="replace") or "another process"
    except OSError:
        return None
    finally:
        os.close(handle)
    return None
