"""What sampling costs and how well it keeps time: gputel beside a C sampler, a raw ctypes loop and two of pynvml.

All read the same 18 readings of each GPU from the same fake driver: 17 at the full rate, the fan once a second.
gputel reads its other slow ones on top, and keeps its store, watchdog and status page. They run one after the other
in each round, so that whatever else the machine does meets all of them. `python benchmarks/recorder.py --help`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.fake_nvml import H100, MS, FakeNvml, build  # noqa: E402

CONTESTANTS = ("gputel", "C", "raw ctypes", "pynvml", "pynvml, batched")
CALLS_A_TICK = {"gputel": 8, "C": 8, "raw ctypes": 8, "pynvml": 16, "pynvml, batched": 8}
STEP = [(330, 690_000), (140, 610_000), (40, 380_000), (60, 520_000), (33, 140_000)]
"""A training step (ms, mW): what is recorded changes, as it would."""
NOTHING_LOWERED = 10.0
"""As `max_overhead`: at 1000 Hz the default budget would halve gputel's rate, and the comparison with it."""


@dataclass(frozen=True)
class Case:
    gpus: int
    hz: int
    latency_us: int

    def __str__(self) -> str:
        return f"{self.gpus} GPU{'s' * (self.gpus > 1)}, {self.hz} Hz, {self.latency_us} µs a call"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--hz", type=int, nargs="+", default=[100, 1000])
    parser.add_argument(
        "--latency", type=int, nargs="+", default=[0, 3], help="of each call, in microseconds"
    )
    parser.add_argument(
        "--out", type=Path, help="where to write the results as Markdown, else standard output"
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, hz, seconds, gpus = options.child
        print(json.dumps(sample(Path(folder), float(hz), float(seconds), int(gpus))))
        return
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(*case) for case in product(options.gpus, options.hz, options.latency)]
        results = measure(Path(folder), cases, options.rounds, options.seconds)
    text = "\n".join(report(results, options.rounds, options.seconds)) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


COLUMNS = (
    "case", "sampler", "CPU µs a tick", "of C's", "of the raw loop's", "of pynvml's", "Hz", "within one period",
    "late p50 µs", "p99 µs", "max µs", "resident MiB", "net of the driver",
)  # fmt: skip
Results = dict[tuple[Case, str], list[dict[str, float]]]


def measure(folder: Path, cases: list[Case], rounds: int, seconds: float) -> Results:
    driver = FakeNvml(folder / "driver", build(folder / "build"), [H100] * 8)
    for i in range(8):
        driver.fault("FanSpeed", 0, i)
        driver.power([(duration * MS, level + i) for duration, level in STEP], i)
    plain = folder / "plain_sampler"
    subprocess.run(["cc", "-O2", "-o", str(plain), str(HERE / "plain" / "sampler.c"), "-ldl"], check=True)
    results: Results = {}
    for number, case, contestant in product(range(rounds), cases, CONTESTANTS):
        driver.state.gpu_count = case.gpus
        driver.state.latency_ns = case.latency_us * 1000
        print(f"round {number + 1}: {case}: {contestant}", file=sys.stderr)
        measured = run(contestant, case, seconds, folder / f"{number}", plain, driver)
        results.setdefault((case, contestant), []).append(measured)
    return results


def run(
    contestant: str, case: Case, seconds: float, folder: Path, plain: Path, driver: FakeNvml
) -> dict[str, float]:
    folder.mkdir(exist_ok=True)
    place = folder / f"{contestant[:3]}-{time.monotonic_ns()}"
    plainly = [str(case.gpus), str(case.hz), str(seconds), str(place)]
    command = {
        "C": [str(plain), *plainly],
        "raw ctypes": [sys.executable, str(HERE / "plain" / "raw_loop.py"), *plainly],
        "pynvml": [sys.executable, str(HERE / "plain" / "pynvml_loop.py"), *plainly],
        "pynvml, batched": [sys.executable, str(HERE / "plain" / "pynvml_loop.py"), *plainly, "batched"],
        "gputel": [
            sys.executable,
            __file__,
            "--child",
            str(place),
            str(case.hz),
            str(seconds),
            str(case.gpus),
        ],
    }[contestant]
    answer = subprocess.run(command, env=driver.environment, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(answer.stdout)
    return measured


def sample(folder: Path, hz: float, seconds: float, gpus: int) -> dict[str, float]:
    """The whole sampler as it is recorded with, measured from its first tick to its last."""
    import threading

    from gputel.telemetry import run_folder as runs
    from gputel.telemetry.clock import SystemClock
    from gputel.telemetry.identity import facts
    from gputel.telemetry.sampling import sampler
    from gputel.telemetry.sampling.status import Board

    runs.create(folder, facts([], env={}, cwd=folder.parent, name="benchmark", tags={}))
    spec = sampler.Spec(folder, "nvml", hz, None, max_overhead=NOTHING_LOWERED)
    ended, end = os.pipe()
    sys.setswitchinterval(sampler.GIL_WAIT_S)
    recorder = sampler.Sampler(spec, Board(), SystemClock())
    watching = threading.Thread(target=recorder.watch, args=([ended],), name="watchdog")
    watching.start()
    # the first second is not its loop yet: what it writes at its start is written then
    while recorder.cost.ticks < hz:
        time.sleep(0.01)
    before, ticks, by_thread = cpu_us(), recorder.cost.ticks, threads_us()
    time.sleep(seconds)
    cpu, ticks = cpu_us() - before, recorder.cost.ticks - ticks
    after = threads_us()
    os.close(end)
    watching.join()
    costs = recorder.cost.as_json()
    lateness = costs["lateness_us"]
    assert isinstance(lateness, dict)
    sampling = runs.describe(folder)["sampling"]
    assert isinstance(sampling, dict)
    assert sampling["statistics"]["lowered"] == []
    assert recorder.columns == gpus * 23
    return {
        "ticks": ticks,
        "hz": recorder.cost.hz or 0.0,
        "cpu_us": cpu / ticks,
        "late": (recorder.cost.late + recorder.cost.missed)
        / (recorder.cost.ticks + recorder.cost.missed)
        * ticks,
        "p50_us": lateness["p50"],
        "p99_us": lateness["p99"],
        "max_us": lateness["max"],
        "resident_mib": resident_mib(),
        **{
            f"thread {name}": (after[name] - used) / ticks
            for name, used in by_thread.items()
            if name in after
        },
    }


def threads_us() -> dict[str, float]:
    """Processor time of each thread of this process."""
    import threading

    return {
        thread.name: time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) * 1e6
        for thread in threading.enumerate()
        if thread.ident
    }


def cpu_us() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def resident_mib() -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def report(results: Results, rounds: int, seconds: float) -> Iterator[str]:
    yield f"# The recorder beside what users would write instead, {date.today().isoformat()}"
    yield ""
    yield f"`python benchmarks/recorder.py --rounds {rounds} --seconds {seconds:g}`"
    yield f"on a virtual machine without a GPU: {os.cpu_count()} cores ({processor()}), Linux,"
    yield f"Python {platform.python_version()}, fake driver."
    yield f"Medians of {rounds} interleaved rounds; CPU is getrusage of the whole process over its loop, the time"
    yield "inside the driver's library with it; the last column is a share of a core, and takes it off."
    yield ""
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|---" * len(COLUMNS) + "|"
    for (case, contestant), runs in results.items():
        yield line(case, contestant, runs, results)


def line(case: Case, contestant: str, runs: list[dict[str, float]], results: Results) -> str:
    def median(key: str, of: list[dict[str, float]] = runs) -> float:
        return statistics.median(run[key] for run in of)

    cpu = median("cpu_us")
    ratios = [
        statistics.median(a["cpu_us"] / b["cpu_us"] for a, b in zip(runs, results[case, other], strict=True))
        for other in ("C", "raw ctypes", "pynvml")
    ]
    kept = 100 * (1 - sum(run["late"] for run in runs) / sum(run["ticks"] for run in runs))
    net = (cpu - CALLS_A_TICK[contestant] * case.gpus * case.latency_us) * case.hz / 1e6
    cells = [
        str(case),
        contestant,
        f"{cpu:.0f}",
        *[f"{ratio:.2f}" for ratio in ratios],
        f"{median('hz'):.2f}",
    ]
    cells += [
        f"{kept:.3f} %",
        *[f"{median(key):.0f}" for key in ("p50_us", "p99_us", "max_us", "resident_mib")],
    ]
    return "| " + " | ".join([*cells, f"{net:.2%}"]) + " |"


def processor() -> str:
    names = (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return next(names, "model name: unknown").partition(":")[2].strip()


if __name__ == "__main__":
    main()
