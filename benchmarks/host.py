"""What recording the machine costs: CPU of its thread, and of a whole process that does nothing else.

Beside it sleep processes of a command, which are looked at once a second. CPU time is measured, as wall time
says nothing on a busy machine, with the price of a system call as its scale. See `--help`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

CALLS = 10_000
FORKS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        time.sleep(3600)
print("ready", flush=True)
time.sleep(3600)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, nargs="*", default=[0, 200])
    parser.add_argument("--budget", type=float, default=1.0, help="of a core; 1 lowers no rate")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds that are not counted")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options)))
        return
    print(
        "| processes | thread, % of a core | whole process, % of a core | `pread`s of /proc/self/stat, µs |"
    )
    print("|---|---|---|---|")
    for processes in options.processes:
        rounds = [_round(processes) for _ in range(options.rounds)]
        middle = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        cells = f"{100 * middle['thread']:.2f} | {100 * middle['process']:.2f} | {middle['pread_us']:.2f}"
        print(f"| {processes} | {cells} |", flush=True)


def _round(processes: int) -> dict[str, float]:
    """In a process of its own, with the same options."""
    words = [sys.executable, __file__, *sys.argv[1:], "--measure", str(processes)]
    answer = subprocess.run(words, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(answer.stdout)
    return result


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Shares of a core after the warm-up, and the CPU time of a `pread`."""
    from gputel.telemetry.clock import SystemClock
    from gputel.telemetry.host.recorder import HostRecorder

    command = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(options.measure)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert command.stdout is not None
    command.stdout.readline()
    with tempfile.TemporaryDirectory() as folder:
        recorder = HostRecorder(
            Path(folder), SystemClock(), _report, command=command.pid, budget=options.budget
        )
        recorder.start()
        time.sleep(options.warmup)
        thread, process, began = recorder.spent_ns(), _cpu_s(), time.monotonic()
        time.sleep(options.seconds)
        took = time.monotonic() - began
        shares = {
            "thread": (recorder.spent_ns() - thread) / 1e9 / took,
            "process": (_cpu_s() - process) / took,
        }
        recorder.close()
    os.killpg(command.pid, 9)
    command.communicate()
    return {**shares, "pread_us": _pread_us()}


def _report(kind: str, text: str, **_facts: object) -> None:
    print(kind, text, file=sys.stderr)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _pread_us() -> float:
    file = os.open("/proc/self/stat", os.O_RDONLY)
    began = time.thread_time_ns()
    for _ in range(CALLS):
        os.pread(file, 1024, 0)
    return (time.thread_time_ns() - began) / CALLS / 1000


if __name__ == "__main__":
    main()
