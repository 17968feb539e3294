"""What is to be done beside a recording, as the command line orders it and `attend.py` carries it out.

It loads nothing heavy: who gives the orders is the recorder, which must stay without threads.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

START = "import sys; del sys.path[0]; from gputel.analysis.live.attend import main; main(sys.argv[1])"
"""Without the user's folder on the path, in which any of our modules' names may stand."""


@dataclass(frozen=True)
class Orders:
    """`command` and `recorder` are processes, 0 is none."""

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
    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_argv(self) -> list[str]:
        return [sys.executable, "-c", START, json.dumps(asdict(self))]
