"""Who uses the GPUs, asked of the driver every few seconds: one GPU at a time, between two ticks."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping, Sequence

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import Gpu, GpuLost, GpuUsers, Machine, UserLook

EVERY = 5 * SECOND
REST = 1000
"""A GPU is left alone for so many times as long as the driver took to answer."""
HOLDS = 4
"""An answer stands for so many times as long as until the next."""
NEVER = 1 << 63


class UserLooks:
    """`latest` has the last look at each GPU, by index; another thread reads it.

    A GPU whose call has not returned is not asked again.
    """

    def __init__(
        self, machine: Machine, gpus: Sequence[Gpu], clock: Clock, latest: MutableMapping[str, UserLook]
    ) -> None:
        self._machine, self._clock, self.latest = machine, clock, latest
        self._due = dict.fromkeys(gpus, 0)

    def due(self, now: int, absent: Collection[Gpu]) -> Gpu | None:
        """The GPU that has waited longest, if it is time."""
        waiting = [gpu for gpu, due in self._due.items() if due <= now and gpu not in absent]
        return min(waiting, key=self._due.__getitem__, default=None)

    def ask(self, gpu: Gpu) -> None:
        """Ask the driver; the caller watches that it returns."""
        self._due[gpu], began = NEVER, self._clock.monotonic()
        try:
            users = self._machine.users(gpu, began)
        except GpuLost as lost:
            users = GpuUsers((), str(lost))
        now = self._clock.monotonic()
        rest = max(EVERY, REST * (now - began))
        self.latest[gpu.index] = UserLook(users, now + HOLDS * rest)
        self._due[gpu] = now + rest
