"""The processes that guard and watch the command: started once it runs or has use for them, and anew if killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from gputel.telemetry.process import spawn
from gputel.telemetry.process.signals import ENDING

Order = Callable[[int], Sequence[str]]
"""From the command's process id, or 0, to the arguments that start a companion."""
OnDemand = tuple[Callable[[], bool], Order]
"""When to start it: asked at every turn."""
MOST_STARTS = 4


class Companions:
    """Starts each; one that was asked to end, or has ended by itself, stays so. `say` shows a line to the user."""

    def __init__(
        self,
        orders: Sequence[Order],
        env: Mapping[str, str],
        say: Callable[[str], None],
        on_demand: Sequence[OnDemand] = (),
    ) -> None:
        self._orders, self._env, self._say = orders, env, say
        self._on_demand = list(on_demand)
        self._command = 0
        self._running: dict[int, Order] = {}
        self._starts = dict.fromkeys([*orders, *(order for _, order in on_demand)], 0)

    def start(self, command: int) -> None:
        """Start all, beside this command."""
        self._command = command
        for order in self._orders:
            self._start(order)

    def look(self) -> None:
        """Start those that there is a use for now."""
        for waiting in [each for each in self._on_demand if each[0]()]:
            self._on_demand.remove(waiting)
            self._start(waiting[1])

    def reaped(self, pid: int, status: int) -> bool:
        """Returns whether the process was one of these; one that a signal has killed is started again."""
        order = self._running.pop(pid, None)
        if order is None:
            return False
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        if number is not None and number not in ENDING:
            if self._starts[order] < MOST_STARTS:
                self._start(order)
            else:
                name = signal.Signals(number).name
                self._say(f"a helper process was killed by {name} again and is not restarted")
        return True

    def _start(self, order: Order) -> None:
        self._starts[order] += 1
        try:
            self._running[spawn.start_beside(order(self._command), self._env)] = order
        except (OSError, MemoryError) as error:
            self._say(f"what guards and watches the command cannot start: {error}")
