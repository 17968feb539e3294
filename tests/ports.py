"""Ports for servers of other programs, which cannot be asked for any free one."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

FIRST, COUNT = 20_000, 12_000
"""Below those that the kernel gives to a program that asks for any: none of them is taken between probe and use."""
_PORTS = itertools.count(os.getpid() * 97)
"""Workers of pytest-xdist begin far from each other."""


def free_port() -> int:
    """A port on which nothing listens; each call gives another one."""
    while True:
        port = FIRST + next(_PORTS) % COUNT
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
