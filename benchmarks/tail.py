"""`gputel tail` on a log that grows, beside what people have: `tail -f` piped into a script with a regex a line.

Latency is from the return of the write to the arrival of the row on the other end of a pipe, a line at a time. CPU
is of all processes of a way while lines come at a steady rate, ten writes a second at 100 lines/s and a hundred at
100,000, without its start. Catching up is to the end of a log of ten million lines: CPU seconds of following it as
a view does, of following and printing it, and of parsing it; with the memory that was held at most.

    python benchmarks/tail.py             everything; 1 GB of disk for the log
    python benchmarks/tail.py --quick     a tenth of it
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "tail.md"
LINE = (
    "step {:08d}/10000000 (0.07%) | loss: {:.6f} | lrm: 1.00 | dt: 658.60ms | tok/sec: 796,060 | mfu: 49.75\n"
)
SCRIPT = r"""
import re, sys
search = re.compile(r"step (\d+)/(\d+) \([\d.]+%\) \| loss: ([\d.]+) \| lrm: ([\d.]+) \| dt: ([\d.]+)ms"
                    r" \| tok/sec: ([\d,]+) \| mfu: ([\d.]+)").search
for line in sys.stdin:
    found = search(line)
    if found:
        step, total, loss, lrm, dt, rate, mfu = found.groups()
        rate = float(rate.replace(",", ""))
        print("step", int(step), "loss", float(loss), "dt", float(dt), "rate", rate, flush=True)
"""
STEP = re.compile(rb"step (\d+)")
Way = list[str]


def gputel(log: Path) -> Way:
    return [sys.executable, "-m", "gputel", "tail", "--plain", str(log)]


def script(log: Path) -> Way:
    return ["sh", "-c", f"exec tail -n +1 -f {log} | exec {sys.executable} -c '{SCRIPT}'"]


class Watched:
    """A way that follows a log, its rows counted and dated as they come."""

    def __init__(self, way: Way, folder: Path) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(folder), "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            way, stdout=subprocess.PIPE, env=environment, start_new_session=True, bufsize=0
        )
        self.arrived: dict[int, float] = {}
        self.rows = 0
        self.dated = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def cpu_s(self) -> float:
        """Of the whole session of processes."""
        ticks = 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self._process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def wait_for(self, rows: int) -> None:
        while self.rows < rows:
            time.sleep(0.005)

    def end(self) -> None:
        os.killpg(self._process.pid, 15)
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout
        rest = b""
        while data := os.read(self._process.stdout.fileno(), 1 << 20):
            now = time.perf_counter()
            whole, _, rest = (rest + data).rpartition(b"\n")
            if self.dated:
                self.arrived.update({int(step): now for step in STEP.findall(whole)})
            self.rows += data.count(b"\n")


def latency(way: Way, log: Path, folder: Path, count: int) -> list[float]:
    """Milliseconds, one line after the other, at moments that no clock of the follower knows."""
    log.write_text(LINE.format(0, 5))
    watched = Watched(way, folder)
    watched.wait_for(1)
    sent = {}
    with log.open("ab", buffering=0) as file:
        for step in range(1, count + 1):
            file.write(LINE.format(step, 5 - step / 10_000).encode())
            sent[step] = time.perf_counter()
            time.sleep(0.03 + step % 17 / 1000)
    watched.wait_for(count + 1)
    watched.end()
    return sorted((watched.arrived[step] - at) * 1000 for step, at in sent.items())


def cpu_share(way: Way, log: Path, folder: Path, rate: int, seconds: float) -> float:
    """Of one core, in per cent, after a second in which it got used to it."""
    log.write_text(LINE.format(0, 5))
    watched = Watched(way, folder)
    watched.dated = False
    watched.wait_for(1)
    writes = 10 if rate < 1000 else 100
    step, begun, before = 0, time.perf_counter(), 0.0
    with log.open("ab", buffering=0) as file:
        for turn in range(round((seconds + 1) * writes)):
            if turn == writes:
                before = watched.cpu_s()
            file.write("".join(LINE.format(step + i, 5) for i in range(rate // writes)).encode())
            step += rate // writes
            time.sleep(max(begun + (turn + 1) / writes - time.perf_counter(), 0))
    used = watched.cpu_s() - before
    watched.wait_for(step)
    watched.end()
    return 100 * used / seconds


def compose(log: Path, lines: int) -> None:
    with log.open("w") as file:
        for first in range(0, lines, 10_000):
            file.write("".join(LINE.format(step, 5 - step / lines) for step in range(first, first + 10_000)))


def measured(what: str, log: str) -> None:
    """In a process of its own: CPU seconds, MiB at most, rows."""
    from gputel.analysis.live import lines, resume
    from gputel.analysis.live.follower import Follower
    from gputel.analysis.runs import paths

    rows = 0
    if what == "parse":
        rows = paths.parse(log).records.height
    else:
        follower = Follower([log], positions=resume.open_positions([what, log]))
        printer = lines.Printer(lines.rows_text)
        with open(os.devnull, "w") as nothing:  # noqa: PTH123
            while news := follower.read():
                for one in news:
                    rows += one.increment.records.height if one.increment else 0
                    if what == "print":
                        nothing.writelines(f"{line}\n" for line in printer.lines(one))
                follower.shown()
        rows += 1  # the last record is open
        follower.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(used.ru_utime + used.ru_stime, peak, rows)


def caught_up(what: str, log: Path, folder: Path) -> tuple[float, float, int]:
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "POLARS_MAX_THREADS": "1",
    }
    command = [sys.executable, __file__, "--measure", what, str(log)]
    cpu, peak, rows = subprocess.check_output(command, env=environment, text=True).split()
    return float(cpu), float(peak), int(rows)


def report(quick: bool) -> list[str]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "train.log"
        ways = {"gputel tail --plain": gputel, "tail -f, a script": script}
        rows += [
            "| | p50 ms | p99 ms | % of a core at 100 lines/s | at 100,000 lines/s |",
            "|---|---|---|---|---|",
        ]
        for title, way in ways.items():
            found = latency(way(log), log, folder, 100 if quick else 1000)
            shares = []
            for number, rate in enumerate((100, 100_000)):
                other = log.with_name(f"{number}.log")
                shares.append(cpu_share(way(other), other, folder, rate, 3 if quick else 10))
                other.unlink()
            p99 = found[int(len(found) * 0.99)]
            rows.append(
                f"| {title} | {statistics.median(found):.1f} | {p99:.1f} | {shares[0]:.1f} | {shares[1]:.0f} |"
            )
            print(rows[-1], flush=True)
            log.unlink()
        lines = 1_000_000 if quick else 10_000_000
        compose(log, lines)
        size = log.stat().st_size / 1e6
        rows += ["", f"A log of {lines:,} lines, {size:,.0f} MB:", ""]
        rows += ["| | CPU s | MB/s | peak MiB |", "|---|---|---|---|"]
        ways_up = {"parse": "gputel parse", "follow": "following it", "print": "following and printing it"}
        for what, title in ways_up.items():
            cpu, peak, found_rows = caught_up(what, log, folder)
            assert found_rows == lines, (what, found_rows)
            rows.append(f"| {title} | {cpu:.1f} | {size / cpu:,.0f} | {peak:,.0f} |")
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.measure:
        measured(*options.measure)
        return
    rows = report(options.quick)
    machine = f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if not options.quick:
        head = "# benchmarks/tail.py\n\nWhat is measured, and how, stands at the top of the script.\n"
        RESULTS.write_text(f"{head}\n{machine}.\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
