"""How true are the stamps of output.idx, and what does the keeper cost?

A command writes its own clock into each line, one write call a line; the stamp less that is the error. 1, 100
and 100,000 lines a second, each alone and beside two busy loops. The keeper's share of a core is its CPU time from
/proc over the command's. A line at 100,000 a second waits up to 5 ms by design. The last row is without the right
to a real-time priority, as for most users: then a line waits until the scheduler lets the keeper run.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gputel.telemetry.process import output_index  # noqa: E402
from tests.recordings import Recorder, is_alive  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITER = """
import os, time
rate, seconds = {rate}, {seconds}
burst = max(1, rate // 1000)
begin = time.monotonic()
for turn in range(rate * seconds // burst):
    time.sleep(max(0, begin + turn * burst / rate - time.monotonic()))
    for _ in range(burst):
        os.write(1, b'%d step 100 loss 2.345678 lr 3.0e-04\\n' % time.time_ns())
"""
RATES = {1: 15, 100: 10, 100_000: 8}
PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def cost_until_end(recorder: Recorder) -> tuple[float | None, int]:
    """The keeper's CPU time, looked at until it is gone, and its scheduling policy."""
    keeper, spent, policy = recorder.keeper(), None, 0
    while is_alive(keeper):
        try:
            spent, policy = cpu_s(keeper), os.sched_getscheduler(keeper)
        except OSError:
            break
        try:
            recorder.process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    return spent, policy


def measure(rate: int, loops: int) -> dict[str, object]:
    seconds = RATES[rate]
    with tempfile.TemporaryDirectory() as place, busy_loops(loops):
        recorder = Recorder(
            Path(place) / "run", sys.executable, "-c", WRITER.format(rate=rate, seconds=seconds), options=()
        )
        spent, policy = cost_until_end(recorder)
        assert recorder.wait() == 0
        lines = list(output_index.lines(recorder.folder / "output.log", recorder.folder / "output.idx"))
        took = (int(lines[-1][1].split()[0]) - int(lines[0][1].split()[0])) / 1e9 or 1.0
    errors = sorted((wall - int(text.split()[0])) / 1e6 for wall, text in lines if wall is not None)
    return {
        "lines_per_s": rate,
        "busy_loops": loops,
        "keeper_priority": "SCHED_FIFO" if policy & os.SCHED_FIFO else "normal",
        "achieved_lines_per_s": round((len(lines) - 1) / took, 1),
        "stamped": len(errors),
        "lines": len(lines),
        "error_ms": {
            "p50": round(errors[len(errors) // 2], 3),
            "p99": round(errors[int(len(errors) * 0.99)], 3),
            "max": round(errors[-1], 3),
        },
        "keeper_cpu_share": spent and round(spent / took, 4),
    }


def refuse_priority() -> None:
    """Take from what is started from here on the right to a real-time priority."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)


def main() -> None:
    rows = [measure(rate, loops) for rate in RATES for loops in (0, 2)]
    refuse_priority()
    rows.append(measure(100_000, 2))
    for row in rows:
        print(json.dumps(row))
    machine: dict[str, object] = {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    machine["load"] = round(os.getloadavg()[0], 1)
    result = {"date": date.today().isoformat(), "machine": machine, "rows": rows}
    (ROOT / "benchmarks" / "results" / "stamps.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
