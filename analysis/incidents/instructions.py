"""Arguments of the watcher of hangs: the segment, the processes, and the longest silence that is allowed.

It imports nothing heavy: the recorder must stay without threads, or a signal would end it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from gputel.telemetry import own_process


@dataclass(frozen=True)
class Silence:
    """How long a silence is too long, as the alarm `stalled` has it: `intervals` usual gaps, but `fewest_s`.

    It is `start_s` before the tenth read, and `pause_s` where a rank runs in its own code while others wait: it may
    evaluate, or be in an endless loop.
    """

    intervals: float = 10.0
    fewest_s: float = 60.0
    start_s: float = 900.0
    pause_s: float = 900.0
    rounds: int = 3
    every_s: float = 2.0


@dataclass(frozen=True)
class WatchOrder:
    """The run to watch; `command` and `recorder` are process numbers."""

    segment: str
    folder: str
    recorder: int
    command: int = 0
    silence: Silence = field(default_factory=Silence)

    def as_argv(self) -> list[str]:
        """Arguments that start the watcher."""
        return own_process.argv("gputel.analysis.incidents.watcher", json.dumps(asdict(self)))


def parse_order(text: str) -> WatchOrder:
    """The order that `as_argv` wrote."""
    facts = json.loads(text)
    return WatchOrder(**{**facts, "silence": Silence(**facts["silence"])})
