"""What `gputel demo` records: two small trainings, or logs of such played in real time.

`python -m gputel.demo depth2 30`: a real training's log, its lines paced by the step times in them.
"""

from __future__ import annotations

import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path

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
        "--out": folder,
        "--run-name": f"depth-{depth}",
    }
    return [sys.executable, "-m", "gputel.trainer", *(str(word) for pair in options.items() for word in pair)]


def replay(depth: int, steps: int) -> list[str]:
    """The command that prints a training's log as fast as it was printed then."""
    return [sys.executable, "-m", "gputel.demo", f"depth{depth}", str(steps)]


HERE = Path(__file__).parent
STEP = re.compile(r"^step (\d+)/\d+ .*\bdt: ([\d.]+)ms")


def main(name: str, steps: int) -> None:
    say(f"PLAYED: the log of a training that ran on a CPU before; {steps} of its steps, as fast as they were")
    for line in (HERE / f"{name}.log").read_text().splitlines():
        found = STEP.match(line)
        if found and int(found[1]) >= steps:
            return
        if found:
            time.sleep(float(found[2]) / 1000)
        say(line)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
