"""`python -m gputel.demo depth2 30`: a real training's log, its lines paced by the step times in them."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
STEP = re.compile(r"^step (\d+)/\d+ .*\bdt: ([\d.]+)ms")


def main(name: str, steps: int) -> None:
    say(f"PLAYED: the log of a training that ran on a CPU before; {steps} of its steps, as fast as they were")
    for line in (HERE / f"{name}.log").read_text().splitlines():
        step = STEP.match(line)
        if step and int(step[1]) >= steps:
            return
        if step:
            time.sleep(float(step[2]) / 1000)
        say(line)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
