"""Recordings, each with one process killed at a random moment: what was lost?

Viewer, keeper and sampler in turn, at a moment between the command's first line and its end 2.5 s later, three
recordings at a time. Counts rounds in which output, exit code or telemetry came short of what the tests ask for,
and lists them. A gap has two parts: what the killed sampler had not yet written, up to a second, and the time until
its successor takes its first sample. `python benchmarks/kills.py --help`
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.recordings import Recorder  # noqa: E402
from tests.recordings.kills import LAST_SAMPLE_S, LONGEST_GAP_S, Round, kill_round  # noqa: E402

AT_A_TIME = 3
RESULT = ROOT / "benchmarks" / "results" / "kills.json"
VICTIMS = ("viewer", "keeper", "sampler")


def one(number: int, seed: int) -> Round:
    chance = random.Random(seed + number)
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
        "longest_gap_s": round(max(gaps), 3) if gaps else None,
        "last_sample_before_end_s": round(max(before), 3) if before else None,
        "without_a_sample": sum(r.before_end_s is None for r in rounds),
        "not_written_s": spread([r.lost_s for r in rounds]),
        "back_after_s": spread([r.back_s for r in rounds]),
        "faulty": [{"faults": r.faults(), **asdict(r)} for r in rounds if r.faults()],
    }


def spread(values: Sequence[float | None]) -> dict[str, float]:
    """Median, 90th percentile and the most."""
    present = sorted(value for value in values if value is not None)
    places = {"p50": 0.5, "p90": 0.9, "max": 1.0}
    return {
        name: round(present[math.ceil(share * len(present)) - 1], 3)
        for name, share in places.items()
        if present
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="Recordings, each with one kill.")
    parser.add_argument("--seed", type=int, default=0, help="Of the moments of the kills.")
    parser.add_argument("--out", type=Path, default=RESULT, help="The file of the result.")
    options = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        rounds = list(pool.map(partial(one, seed=options.seed), range(options.rounds)))
    rows = {
        victim: summary(some) for victim in VICTIMS if (some := [r for r in rounds if r.victim == victim])
    }
    print(json.dumps(rows, indent=2))
    result = {
        "date": date.today().isoformat(),
        "seed": options.seed,
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "nice": os.nice(0),
            "load_average": {"begin": load, "end": round(os.getloadavg()[0], 1)},
        },
        "asked": {"longest_gap_s": LONGEST_GAP_S, "last_sample_before_end_s": LAST_SAMPLE_S},
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
