"""Timely wake-ups for one thread of the recorder, where the system allows them.

Processes that the thread starts later do not inherit it: neither the command nor the recorder's children may run
before others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading

PR_SET_TIMERSLACK = 29
SCHED_RESET_ON_FORK = 0x40000000
NICE = -10


def raise_priority() -> str:
    """Ask for timely wake-ups, for the calling thread alone; returns `SCHED_FIFO`, `nice -10` or `normal`."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO | SCHED_RESET_ON_FORK, os.sched_param(1))
        return "SCHED_FIFO"
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER | SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        return f"nice {NICE}"
    return "normal"
