"""The training's state now, from the guard to the process that pushes it: figures and alarms.

One hidden file in the segment, replaced as a whole each second. A state that is older than that by far counts as
unknown, as the guard may have been killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import SECOND, boot_ns
from gputel.telemetry.errors import GputelError
from gputel.telemetry.own_files import read_own
from gputel.telemetry.whole_files import write_whole

NAME = ".training.json"
LARGEST = 1 << 20
FRESH_S = 15


@dataclass(frozen=True)
class TrainingState:
    """Figures by the names of their metrics, such as `gputel_step`; the rules of the alarms that are active."""

    figures: Mapping[str, float]
    alarms: Sequence[str]


def write(segment: Path, state: TrainingState) -> None:
    """Replaces the state; a full disk keeps the one before."""
    figures = {name: repr(float(value)) for name, value in state.figures.items()}  # JSON has no NaN
    content = {"boot_ns": boot_ns(), "figures": figures, "alarms": sorted(set(state.alarms))}
    with suppress(OSError):
        write_whole(segment / NAME, json.dumps(content).encode())


def read(segment: Path) -> TrainingState | None:
    """Returns the state of the last seconds; None without one."""
    try:
        content = parse_json(read_own(segment / NAME, LARGEST))
        if boot_ns() - content["boot_ns"] > FRESH_S * SECOND:
            return None
        figures = {str(name): float(value) for name, value in content["figures"].items()}
        return TrainingState(figures, [str(rule) for rule in content["alarms"]])
    except (OSError, GputelError, ValueError, KeyError, TypeError, AttributeError):
        return None
