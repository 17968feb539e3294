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
    "loop": "the loop: deadlines, lateness, budget, watchdog's marks, GPM and slow tiers at their rates",
    "store": "the store: rows kept as bytes, decoded and written each second",
    "sampler": "the whole process: watchdog, status page, Xid errors, events",
}
THREADS = {
    "sampling": "of it the thread that samples",
    "gputel-journal": "of it the one that decodes and encodes",
    "gputel-disk": "of it the one that writes",
    "watchdog": "of it watchdog and status page",
    "xid": "of it the one that waits for Xid errors",
}
BESIDE = ("viewer", "keeper")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--hz", type=int, default=100)
    parser.add_argument("--stage", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        stage, place = options.stage
        print(json.dumps(measure(stage, place, options.gpus, options.hz, options.seconds)))
        return
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        driver = FakeNvml(Path(folder) / "driver", build(Path(folder) / "build"), [H100] * options.gpus)
        for i in range(options.gpus):
            driver.fault("FanSpeed", 0, i)
            driver.power([(duration * MS, level + i) for duration, level in STEP], i)
        for number in range(options.rounds):
            for stage in STAGES:
                place = str(Path(folder) / f"{number}-{stage}")
                for name, cost in run(stage, place, options, driver).items():
                    rows.setdefault(name, []).append(cost)
            for name, cost in beside(Path(folder) / f"{number}-run", options, driver).items():
                rows.setdefault(name, []).append(cost)
    rows["all"] = [
        sum(costs) for costs in zip(rows["sampler"], *(rows[name] for name in BESIDE), strict=True)
    ]
    print(f"Median CPU of {options.rounds} rounds, {options.gpus} GPUs at {options.hz} Hz\n")
    print("| what is done | µs a tick | of the raw loop |\n|---|---|---|")
    words = {**STAGES, **{f"thread {name}": text for name, text in THREADS.items()}}
    words |= {name: f"the {name}, a process beside it" for name in BESIDE} | {
        "all": "sampler, viewer and keeper"
    }
    for name, text in words.items():
        of_raw = statistics.median(a / b for a, b in zip(rows[name], rows["raw"], strict=True))
        print(f"| {text} | {statistics.median(rows[name]):.0f} | {of_raw:.2f} |")


def run(stage: str, place: str, options: argparse.Namespace, driver: FakeNvml) -> dict[str, float]:
    """The stage's cost, and that of its threads."""
    measures = [str(options.gpus), str(options.hz), str(options.seconds)]
    if stage == "raw":
        command = [sys.executable, str(HERE / "plain" / "raw_loop.py"), *measures, place]
    else:
        gpus, hz, seconds = measures
        command = [sys.executable, __file__, "--gpus", gpus, "--hz", hz, "--seconds", seconds]
        command += ["--stage", stage, place]
    answer = subprocess.run(command, env=driver.environment, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(answer.stdout)
    threads = {name: cost for name, cost in measured.items() if name.startswith("thread ")}
    return {stage: float(measured["cpu_us"]), **(threads if stage == "sampler" else {})}


def beside(folder: Path, options: argparse.Namespace, driver: FakeNvml) -> dict[str, float]:
    """What the viewer and the keeper of a recording cost while its command sleeps."""
    program = f"import sys; sys.path.insert(0, {str(HERE.parent)!r}); from gputel.cli import main; main()"
    words = ["record", "--hz", str(options.hz), "--out", str(folder), "--", "sleep", str(options.seconds + 4)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=driver.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    pids = [process.pid, int(children[0])]
    before = [processor_us(pid) for pid in pids]
    time.sleep(options.seconds)
    costs = [processor_us(pid) - used for pid, used in zip(pids, before, strict=True)]
    process.wait()
    return {name: cost / (options.seconds * options.hz) for name, cost in zip(BESIDE, costs, strict=True)}


def processor_us(pid: int) -> float:
    """Processor time of another process: Linux makes the number of its clock from its pid."""
    return time.clock_gettime(~pid << 3 | 2) * 1e6


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
    return measured(looped(machine, made, clock, place if stage == "store" else None), seconds, hz)


def looped(machine, made, clock, place: str | None) -> Callable[[float], None]:  # type: ignore[no-untyped-def]
    from gputel.telemetry.sampling.budget import Budget
    from gputel.telemetry.sampling.cost import SamplingCost
    from gputel.telemetry.sampling.loop import Loop
    from gputel.telemetry.sampling.watchdog import Turn
    from gputel.telemetry.store.journal import Writer
    from gputel.telemetry.store.part_writer import PartWriter

    def silent(*_: object, **__: object) -> None:
        pass

    class Nothing:
        append = append_raw = rearrange = close = staticmethod(silent)

    if place:
        Path(place).mkdir()
    tiers = [tier.tier for tier in made.tiers]
    store = (
        Writer(PartWriter(Path(place), tiers, clock, on_trouble=silent, compactor=None))
        if place
        else Nothing()
    )
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
