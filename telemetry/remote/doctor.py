"""Checks that object storage is fit to be sent to: rights, conditional puts, its clock, its rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from gputel.telemetry.doctor import Check
from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import MIB
from gputel.telemetry.remote.storage import Storage

PROBE = "gputel-doctor"
RATE_BYTES = 4 * MIB
SLOW_BYTES = MIB / 8
"""A second. Eight GPUs at 100 Hz send a few KiB; what piled up while the network was away comes on top."""
CLOCK_S = 2.0


def examine(address: str, clock: Callable[[], float] = time.time) -> Iterator[Check]:
    """Puts two objects below the address, and deletes them where that is allowed."""
    small, large = (f"{PROBE}-{os.urandom(4).hex()}-{kind}" for kind in ("small", "large"))
    try:
        storage = Storage(address, create=True)
        yield from _of_small(storage, small, clock)
        yield _rate(storage, large)
    except GputelError as error:
        yield Check("storage", "bad", error.fault, error.hint)
        return
    yield _leftovers(storage, (small, large))


def _of_small(storage: Storage, name: str, clock: Callable[[], float]) -> Iterator[Check]:
    """What the courier does with its bundles: put if absent, list, read."""
    before = clock()
    storage.put_new(name, b"gputel")
    after = clock()
    listed = next((each for each in storage.objects() if each.name == name), None)
    if listed is None or storage.get(name) != b"gputel":
        yield Check("storage", "bad", "an object that was put is not there", "is this a cache, or a proxy?")
        return
    yield Check("storage", "good", "put, list and get are allowed")
    if storage.put_new(name, b"again"):
        hint = "run one courier at a time; a reader joins what two have sent"
        yield Check("conditional puts", "poor", "an object that exists is replaced", hint)
    else:
        yield Check("conditional puts", "good", "an object that exists is not replaced")
    yield _clock(listed.modified.timestamp(), before, after)


def _clock(modified: float, before: float, after: float) -> Check:
    """Storage rounds down to whole seconds."""
    lowest, highest = modified - after, modified + 1 - before
    if lowest > CLOCK_S or highest < -CLOCK_S:
        middle = (lowest + highest) / 2
        ours = "behind" if middle > 0 else "ahead of"
        found = f"this machine is {abs(middle):.0f} s {ours} the storage"
        return Check("storage's clock", "poor", found, "start chrony or systemd-timesyncd")
    return Check("storage's clock", "good", f"within {highest - lowest:.1f} s of this machine's")


def _rate(storage: Storage, name: str) -> Check:
    begun = time.monotonic()
    storage.put(name, os.urandom(RATE_BYTES))
    rate = RATE_BYTES / (time.monotonic() - begun)
    found = f"{rate / MIB:.1f} MiB/s for an object of {RATE_BYTES / MIB:.0f} MiB"
    if rate < SLOW_BYTES:
        return Check(
            "rate to storage", "poor", found, "lower --hz, or send the run at its end by gputel sync"
        )
    return Check("rate to storage", "good", found)


def _leftovers(storage: Storage, names: tuple[str, ...]) -> Check:
    """The key of a pod may only write: a right that the courier does not need."""
    with suppress(GputelError):
        for name in names:
            storage.delete(name)
        return Check("delete", "good", "allowed, and never needed")
    return Check("delete", "good", f"not allowed, and never needed; {' and '.join(names)} stay there")
