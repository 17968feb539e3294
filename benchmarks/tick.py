"""Where the microseconds of a tick go: what each part of the sampler adds to a loop of raw ctypes calls.

Each row is a process of its own that does what the row before does, and one thing more. They run one after the
other in each round, beside the same fake driver. `python benchmarks/tick.py --help`
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from recorder import NOTHING_LOWERED, STEP, cpu_us, sample  # noqa: E402

from tests.fake_nvml import H100, MS, FakeNvml, build  # noqa: E402

STAGES = {
    "raw": "the raw calls, prepared, and a sleep to each deadline",
    "ask": "the readers of the plan, slow and GPM tiers at their rates",
    "answer": "decoding, rates of the counters",
    "loop": "the loop: deadlines, lateness, budget, watchdog's marks",
    "store": "the store: journals written each second",
    "sampler": "the whole process: watchdog, status page, events, start of its threads",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--hz", type=int, default=100)
    parser.add_argument("--stage", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(measure(*options.stage, options.gpus, options.hz, options.seconds)))
        return
    results: dict[str, list[float]] = {stage: [] for stage in STAGES}
    with tempfile.TemporaryDirectory() as folder:
        driver = FakeNvml(Path(folder) / "driver", build(Path(folder) / "build"), [H100] * options.gpus)
        for i in range(options.gpus):
            driver.fault("FanSpeed", 0, i)
            driver.power([(duration * MS, level + i) for duration, level in STEP], i)
        for number in range(options.rounds):
            for stage in STAGES:
                place = str(Path(folder) / f"{number}-{stage}")
                results[stage].append(run(stage, place, options, driver))
    print(f"Median CPU of {options.rounds} rounds, {options.gpus} GPUs at {options.hz} Hz\n")
    print("| what is done | µs a tick | more than the row before | of the raw loop |\n|---|---|---|---|")
    before = 0.0
    for stage, words in STAGES.items():
        cost = statistics.median(results[stage])
        of_raw = statistics.median(a / b for a, b in zip(results[stage], results["raw"], strict=True))
        print(f"| {words} | {cost:.0f} | {cost - before:+.0f} | {of_raw:.2f} |")
        before = cost


def run(stage: str, place: str, options: argparse.Namespace, driver: FakeNvml) -> float:
    measures = [str(options.gpus), str(options.hz), str(options.seconds)]
    if stage == "raw":
        command = [sys.executable, str(HERE / "plain" / "raw_loop.py"), *measures, place]
    else:
        gpus, hz, seconds = measures
        command = [sys.executable, __file__, "--gpus", gpus, "--hz", hz, "--seconds", seconds]
        command += ["--stage", stage, place]
    answer = subprocess.run(command, env=driver.environment, capture_output=True, text=True, check=True)
    return float(json.loads(answer.stdout)["cpu_us"])


def measure(stage: str, place: str, gpus: int, hz: int, seconds: float) -> dict[str, float]:
    if stage == "sampler":
        return sample(Path(place), hz, seconds, gpus)
    from gputel.telemetry.clock import SystemClock
    from gputel.telemetry.nvml.devices import open_machine
    from gputel.telemetry.sampling import plan

    machine, clock = open_machine(), SystemClock()
    made = plan.make(machine, machine.gpus, hz, clock, max_overhead=NOTHING_LOWERED)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    if stage in ("loop", "store"):
        return measured(looped(machine, made, clock, place if stage == "store" else None), seconds, hz)
    readers = [(tier.every, [machine.reader(*part) for part in tier.parts]) for tier in made.tiers]

    def work(seconds: float) -> None:
        began = time.monotonic_ns()
        for tick in range(round(seconds * hz)):
            clock.sleep_until(began + (tick + 1) * 1_000_000_000 // hz)
            for every, parts in readers:
                if tick % every == 0:
                    for reader in parts:
                        reader.ask()
                    for reader in parts if stage == "answer" else ():
                        reader.answer(clock.monotonic())

    return measured(work, seconds, hz)


def looped(machine, made, clock, place: str | None) -> Callable[[float], None]:  # type: ignore[no-untyped-def]
    from gputel.telemetry.sampling.budget import Budget
    from gputel.telemetry.sampling.cost import SamplingCost
    from gputel.telemetry.sampling.loop import Loop, Turn
    from gputel.telemetry.store.journal import Writer

    def silent(*_: object, **__: object) -> None:
        pass

    class Nothing:
        append = close = staticmethod(silent)

    if place:
        Path(place).mkdir()
    tiers = [tier.tier for tier in made.tiers]
    store = Writer(Path(place), tiers, clock, on_trouble=silent, compactor=None) if place else Nothing()
    cost, budget = SamplingCost(round(1e9 / made.hz)), Budget(made, silent)
    loop = Loop(machine, made, store, clock, cost=cost, budget=budget, turn=Turn(), report=silent)
    return lambda seconds: loop.run(clock.monotonic() + round(seconds * 1e9))


def measured(work: Callable[[float], None], seconds: float, hz: int) -> dict[str, float]:
    work(0.5)
    before = cpu_us()
    work(seconds)
    return {"cpu_us": (cpu_us() - before) / (seconds * hz)}


if __name__ == "__main__":
    main()
