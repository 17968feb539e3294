"""What `gputel demo` records: two small trainings, or logs of such played in real time."""

from __future__ import annotations

import sys
from importlib.util import find_spec

DEPTHS = (2, 4)


def can_train() -> bool:
    """Looked for, not imported: torch takes seconds."""
    return find_spec("torch") is not None


def training(depth: int, steps: int, folder: str) -> list[str]:
    """The command of a real training on the CPU."""
    options = {
        "--depth": depth,
        "--steps": steps,
        "--seq": 128,
        "--device-batch-size": 8 // depth,
        "--eval-every": max(1, steps // 2),
        "--eval-tokens": 4096,
        "--optimizer": "adamw",  # on a CPU, Muon takes four times as long as all else of so small a step
        "--out": folder,
    }
    return [sys.executable, "-m", "gputel.trainer", *(str(word) for pair in options.items() for word in pair)]


def replay(depth: int, steps: int) -> list[str]:
    """The command that prints a training's log as fast as it was printed then."""
    return [sys.executable, "-m", "gputel.demo", f"depth{depth}", str(steps)]
