"""Checks that this machine can record well: clocks, priority, wake-ups, disk, container limits.

Each check is a function that returns one `Check`. The driver and its readings are probed by `sampling/plan.py`,
as in every recording.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gputel.telemetry import filesystem
from gputel.telemetry.host import cgroup
from gputel.telemetry.priority import SCHED_RESET_ON_FORK
from gputel.telemetry.readings import MIB


@dataclass(frozen=True)
class Check:
    """The result of one check; `hint` says how to fix it and is empty if nothing is wrong."""

    check: str
    state: Literal["good", "poor", "bad"]
    found: str
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def examine(folder: Path) -> Iterator[Check]:
    """All checks except those of the GPUs; `folder` is where recordings will be written."""
    yield platform()
    if sys.platform == "linux":
        yield realtime()
        yield clock_source()
        yield synchronized()
        yield wake_ups()
    yield disk_speed(folder)
    yield disk_space(folder)
    if sys.platform == "linux":
        yield container_cpu()
        yield container_memory()


def platform() -> Check:
    system = os.uname()
    if system.sysname == "Linux":
        return Check("platform", "good", f"Linux {system.release}")
    return Check("platform", "poor", system.sysname, "record on Linux; every other command works here")


def realtime() -> Check:
    """Whether real-time priority is allowed: tries it on this process alone, then restores the old policy."""
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError as error:
        nice = resource.getrlimit(resource.RLIMIT_NICE)[0] > 20 or os.geteuid() == 0
        instead = "a higher nice value will be used" if nice else "ordinary priority will be used"
        hint = "allow it: `ulimit -r 1`, or CAP_SYS_NICE (docker: --cap-add SYS_NICE)"
        return Check("real-time priority", "poor", f"not allowed ({error.strerror}); {instead}", hint)
    os.sched_setscheduler(0, policy & ~SCHED_RESET_ON_FORK, parameter)
    return Check("real-time priority", "good", "allowed: sampler and keeper run under SCHED_FIFO")


def clock_source() -> Check:
    cost_ns = _median_ns(time.monotonic_ns)
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        source = "unknown"
    text = f"{source}, {cost_ns:.0f} ns a reading"
    if cost_ns > 1000:
        return Check("clock", "poor", text, "boot with clocksource=tsc, or choose another kind of machine")
    return Check("clock", "good", text)


def synchronized() -> Check:
    """Whether the wall clock is synchronized, by adjtimex; the clocks of several nodes are compared."""
    buffer = ctypes.create_string_buffer(256)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    if state == 5:  # TIME_ERROR
        return Check("wall clock", "poor", "not synchronized", "start chrony or systemd-timesyncd")
    if state < 0:
        return Check(
            "wall clock", "poor", f"cannot be checked ({os.strerror(ctypes.get_errno())})", "check the host"
        )
    return Check("wall clock", "good", "synchronized")


def wake_ups() -> Check:
    """How late a sleeping process wakes up, as the sampler would."""
    late = []
    deadline = time.monotonic_ns()
    for _ in range(100):
        deadline += 5_000_000
        time.sleep(max(0, deadline - time.monotonic_ns()) / 1e9)
        late.append((time.monotonic_ns() - deadline) / 1e6)
    worst = statistics.quantiles(late, n=100)[98]
    text = f"{statistics.median(late):.2f} ms late at the median, {worst:.2f} ms at the 99th percentile"
    if worst > 5:
        return Check("wake-ups", "poor", text, "leave a core free, or lower --hz")
    return Check("wake-ups", "good", text)


def disk_speed(folder: Path) -> Check:
    """How fast 8 MiB are written and flushed where recordings will be."""
    home = _existing(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=home, prefix=".gputel-doctor-") as file:
            began = time.perf_counter()
            file.write(os.urandom(8 * MIB))
            file.flush()
            os.fsync(file.fileno())
            seconds = time.perf_counter() - began
    except OSError as error:
        return Check(
            "disk speed", "bad", f"cannot write in {home} ({error.strerror})", "choose another --out"
        )
    text = f"{8 / seconds:.0f} MiB/s with a flush ({filesystem.kind(home) or 'unknown filesystem'})"
    if seconds > 4:
        return Check(
            "disk speed", "poor", text, "record to a local disk with --out and copy the run afterwards"
        )
    return Check("disk speed", "good", text)


def disk_space(folder: Path) -> Check:
    """Whether there is room for a day: eight GPUs at 100 Hz take about 1 GiB, plus the training's output."""
    free = shutil.disk_usage(_existing(folder)).free
    text = f"{free / 2**30:.1f} GiB free"
    if free < 2 * 2**30:
        return Check("disk space", "poor", text, "make room, or choose another --out")
    return Check("disk space", "good", text)


def container_cpu() -> Check:
    cores, allowed = cgroup.cores(), cgroup.allowance().cores
    text = f"{cores} cores" + ("" if allowed is None else f", of which the container may use {allowed:g}")
    if cores < 2 or (allowed is not None and allowed < 2):
        return Check("cores", "poor", text, "give it two cores or more: the sampler needs one at times")
    return Check("cores", "good", text)


def container_memory() -> Check:
    room = cgroup.allowance().memory_left
    if room is None:
        return Check("memory", "good", "no container limit")
    text = f"{room / 2**20:,.0f} MiB left under the container's limit"
    if room < 512 * MIB:
        return Check("memory", "poor", text, "raise the container's memory limit")
    return Check("memory", "good", text)


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _median_ns(call: Callable[[], object]) -> float:
    durations = []
    for _ in range(2000):
        began = time.perf_counter_ns()
        call()
        durations.append(time.perf_counter_ns() - began)
    return statistics.median(durations)
