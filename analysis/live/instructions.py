"""Instructions of the guard, as the command line gives them and the recorder passes them on.

It imports nothing heavy: the recorder must stay without threads, or a signal would end it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from gputel.telemetry import own_process


@dataclass(frozen=True)
class Instructions:
    """The guard's instructions, from the command line. `command` and `recorder` are process numbers, 0 for none."""

    run: str = ""
    segment: str = ""
    command: int = 0
    recorder: int = 0
    stop_on: list[str] = field(default_factory=list)
    stop_after_s: float | None = None
    budget: float | None = None
    price: float | None = None
    grace_s: float = 600.0
    then: list[str] = field(default_factory=list)
    prometheus: str | None = None
    pushes: bool = False
    """Whether another process pushes what the guard finds."""
    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_argv(self) -> list[str]:
        """Arguments that start the guard."""
        return own_process.argv("gputel.analysis.live.guard", json.dumps(asdict(self)))
