"""An hour of faults: stalls, kills, full disks, lost GPUs, a busy machine. What of the recording is wrong?

The faults are planned from a seed. First on virtual time, of which an hour takes minutes: no tick may be missed but
those of a call that hung. Then in real time, with real recordings: ticks that are missed because the machine did
not schedule the sampler are counted apart. Every value is compared with what the fake driver's sensors held at
that moment. `python benchmarks/soak.py --help`
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.soak import realtime, virtual  # noqa: E402
from tests.soak.check import Soaked  # noqa: E402
from tests.soak.plan import SoakPlan, make_plan  # noqa: E402

REAL_EVERY_S = {"kill": 25.0, "gone": 60.0, "full": 60.0, "load": 30.0, "restart": 90.0}
"""More often than on virtual time, which is cheaper."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600, help="Of virtual time.")
    parser.add_argument("--real-seconds", type=float, default=600)
    parser.add_argument("--gpus", type=int, default=3)
    parser.add_argument("--hz", type=float, default=100.0)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(
        f"{date.today()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {load:.1f} at the start; seed {options.seed}, {options.gpus} GPUs, {options.hz:g} Hz\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        if options.seconds:
            plan = make_plan(options.seed, options.seconds, gpus=options.gpus, hz=options.hz)
            on_virtual_time(Path(folder) / "virtual", plan)
        if options.real_seconds:
            plan = make_plan(
                options.seed, options.real_seconds, gpus=options.gpus, hz=options.hz, every_s=REAL_EVERY_S
            )
            in_real_time(Path(folder) / "real", plan)


def on_virtual_time(folder: Path, plan: SoakPlan) -> None:
    began = time.monotonic()
    result = virtual.run(folder, plan)
    print(f"## Virtual time: {plan.seconds:,.0f} s in {time.monotonic() - began:,.0f} s\n")
    print(f"- faults: {faults(plan)}; {result.stalls} of the stalls met a call; {result.lives} processes")
    print_findings(result.soaked)
    print(f"- counted as missed by the sampler, while a call hung: {result.missed}")
    print(f"- processes whose ticks and missed ticks do not add up: {len(result.uncounted)}\n")
    for text in (*result.uncounted, *result.soaked.wrong):
        print(f"  - {text}")


def in_real_time(folder: Path, plan: SoakPlan) -> None:
    folder.mkdir()
    result = realtime.run(folder, plan)
    disk = "" if result.small_disk else " (not done: no small disk can be mounted here)"
    print(f"## Real time: {plan.seconds:,.0f} s, load {os.getloadavg()[0]:.1f} at the end\n")
    print(f"- faults: {faults(plan)}{disk}")
    print_findings(result.soaked)
    print(f"- exit code {result.exit_code}; {result.lines:,} lines, {result.torn} of them wrong")
    print(f"- events: {', '.join(f'{count} {kind}' for kind, count in result.events.items())}\n")
    for text in result.soaked.wrong:
        print(f"  - {text}")


def faults(plan: SoakPlan) -> str:
    counts = Counter(fault.kind for fault in plan.faults)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def print_findings(soaked: Soaked) -> None:
    print(
        f"- {soaked.ticks:,} ticks, {soaked.values:,} values, {soaked.nulls:,} nulls: {len(soaked.wrong)} wrong"
    )
    print(f"- {soaked.hz:.2f} Hz while driver, disk and machine allowed it")
    print(f"- without ticks because of a hung call, a full disk or a kill: {soaked.excused_s:.1f} s")
    print(f"- ticks missed otherwise: {soaked.not_scheduled}")


if __name__ == "__main__":
    main()
