"""200 recordings, each with one process killed at a random moment: what was lost?

Viewer, keeper and sampler in turn, at a moment between the command's first line and its end 2.5 s later, three
recordings at a time. Counts rounds in which output, exit code or telemetry came short of what the tests ask for.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.recordings import Recorder  # noqa: E402
from tests.recordings.kills import LAST_SAMPLE_S, LONGEST_GAP_S, Round, kill_round  # noqa: E402

ROUNDS, AT_A_TIME = 200, 3
VICTIMS = ("viewer", "keeper", "sampler")


def one(number: int) -> Round:
    chance = random.Random(number)
    with tempfile.TemporaryDirectory() as place:
        started: list[Recorder] = []

        def record(*command: str, **how: Any) -> Recorder:
            started.append(Recorder(Path(place) / "run", *command, **how))
            return started[-1]

        try:
            return kill_round(record, VICTIMS[number % len(VICTIMS)], chance.uniform(0, 2.5))
        finally:
            for recorder in started:
                recorder.stop()


def summary(rounds: list[Round]) -> dict[str, object]:
    gaps = [r.gap_s for r in rounds if r.gap_s is not None]
    before = [r.before_end_s for r in rounds if r.before_end_s is not None]
    return {
        "rounds": len(rounds),
        "output_kept": sum(r.output_as_printed for r in rounds),
        "exit_code_kept": sum(r.exit_code == 7 for r in rounds),
        "longest_gap_s": round(max(gaps), 3),
        "last_sample_before_end_s": round(max(before), 3),
        "faults": Counter(fault for r in rounds for fault in r.faults()),
    }


def main() -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        rounds = list(pool.map(one, range(ROUNDS)))
    rows = {victim: summary([r for r in rounds if r.victim == victim]) for victim in VICTIMS}
    print(json.dumps(rows, indent=2))
    result = {
        "date": date.today().isoformat(),
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "asked": {"longest_gap_s": LONGEST_GAP_S, "last_sample_before_end_s": LAST_SAMPLE_S},
        "rows": rows,
    }
    (ROOT / "benchmarks" / "results" / "kills.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
