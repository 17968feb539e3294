"""How a thread asks to be woken on time, as far as it may: for itself alone, its children get none of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading

PR_SET_TIMERSLACK = 29
SCHED_RESET_ON_FORK = 0x40000000
NICE = -10


def raise_own() -> str:
    """What was allowed: `SCHED_FIFO`, `nice -10` or `normal`."""
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
