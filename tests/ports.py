"""Servers of other programs: ports for them, and the wait until they answer."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.recordings import until

Answer = TypeVar("Answer")

FIRST, COUNT = 20_000, 12_000
"""Below those that the kernel gives to a program that asks for any: none of them is taken between probe and use."""
_PORTS = itertools.count(os.getpid() * 97)
"""Workers of pytest-xdist begin far from each other."""


def answered(server: subprocess.Popen[bytes], answer: Callable[[], Answer], log: Path) -> Answer:
    """Gives the first answer that is true; fails with the server's log once the server has ended."""

    def look() -> Answer:
        assert server.poll() is None, log.read_text()
        return answer()

    return until(look, log.read_text, pause_s=0.02)


def free_port() -> int:
    """A port on which nothing listens, chosen here: these programs cannot choose one. Each call gives another."""
    while True:
        port = FIRST + next(_PORTS) % COUNT
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
