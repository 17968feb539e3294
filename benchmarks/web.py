"""What 50 viewers of `gputel tail --web` cost the recording that they look at: ticks that the recorder misses.

Runs of the same length take turns, without a page, with a page without a viewer, and with viewers: a simulated
GPU at 100 Hz, and a command that prints 20 records a second. Every viewer takes all it is sent. A tick is missed
where no row stands within its period; CPU and memory are of the process that serves.

    python benchmarks/web.py                       three rounds of 15 s; writes benchmarks/results/web.md
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "web.md"
HZ = 100
TRAINING = """
import sys, time
for step in range(int(float(sys.argv[1]) * 20)):
    print(f"step {step}/100000 | loss: {9 / (step + 1) + 2:.6f} | dt: 50.00ms", flush=True)
    time.sleep(0.05)
"""
WAYS = {"no page": None, "a page, no viewer": 0, "a page, {} viewers": 50}


@dataclass(frozen=True)
class Outcome:
    missed: int
    of: int
    cpu: float | None = None  # of one core, in per cent
    mib: float | None = None
    kib_per_s: float | None = None  # to all viewers together


def recorded(folder: Path, seconds: float, viewers: int | None) -> Outcome:
    run = folder / "run"
    words = ["record", "--simulate", "1xH100", "--hz", str(HZ), "--out", str(run)]
    words += ["--", sys.executable, "-c", TRAINING, str(seconds)]
    with subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        if viewers is None:
            recorder.wait()
            return Outcome(*missed(run))
        while not (run / "run.json").exists():
            time.sleep(0.05)
        with served(run, folder) as (process, port), ExitStack() as stack:
            looking = [stack.enter_context(watching(port)) for _ in range(viewers)]
            before, begun = cpu_s(process), time.perf_counter()
            taken = take_all(looking, recorder)
            elapsed = time.perf_counter() - begun
            cpu, mib = 100 * (cpu_s(process) - before) / elapsed, most_mib(process)
    return Outcome(*missed(run), cpu, mib, taken / 1024 / elapsed)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gputel", *words]


@contextmanager
def served(run: Path, folder: Path) -> Iterator[tuple[int, int]]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    tail = command("tail", "--web", "--port", "0", str(run))
    with subprocess.Popen(
        tail, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout
        yield process.pid, int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        process.send_signal(signal.SIGINT)


@contextmanager
def watching(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield client


def take_all(looking: list[socket.socket], recorder: subprocess.Popen[bytes]) -> int:
    """Bytes, until the recording is over; no viewer may be let go before."""
    taken = 0
    with selectors.DefaultSelector() as ready:
        for client in looking:
            ready.register(client, selectors.EVENT_READ)
        while recorder.poll() is None:
            if not looking:
                time.sleep(0.1)
            for key, _ in ready.select(0.1) if looking else ():
                data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                assert data, "a viewer was let go"
                taken += len(data)
    return taken


def missed(run: Path) -> tuple[int, int]:
    """Ticks without a row, of all between the first and the last."""
    import gputel

    frame = gputel.open_run(run).scan().collect()
    stamps = frame["time"].dt.epoch("ns").to_numpy()
    ticks = set(((stamps - stamps[0] + 5_000_000) // (1_000_000_000 // HZ)).tolist())
    return max(ticks) + 1 - len(ticks), max(ticks) + 1


def cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_mib(process: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15)
    asked = parser.parse_args()
    found: dict[str, list[Outcome]] = {name: [] for name in WAYS}
    for _ in range(asked.rounds):
        for name, viewers in WAYS.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(recorded(Path(folder), asked.seconds, viewers))
            print(name.format(viewers), found[name][-1], flush=True)
    RESULTS.write_text(report(found, asked))
    print(RESULTS.read_text())


def report(found: dict[str, list[Outcome]], asked: argparse.Namespace) -> str:
    lines = [
        "# 50 viewers of a live page, and the recorder",
        "",
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores shared with other work, Python "
        f"{platform.python_version()}; one simulated GPU at {HZ} Hz, 20 records a second, {asked.rounds} rounds of "
        f"{asked.seconds:g} s in turns. The viewers run on the same cores. `python benchmarks/web.py`",
        "",
        "| | ticks missed, by round | of | CPU of the server, median | its memory, most | to all viewers |",
        "|---|---|---|---|---|---|",
    ]
    for name, outcomes in found.items():
        rounds = " · ".join(str(one.missed) for one in outcomes)
        served_by = [one for one in outcomes if one.cpu is not None]
        cells = ["–"] * 3
        if served_by:
            cells = [f"{statistics.median(one.cpu or 0 for one in served_by):.0f} % of a core"]
            cells += [f"{max(one.mib or 0 for one in served_by):.0f} MiB"]
            cells += [f"{statistics.median(one.kib_per_s or 0 for one in served_by):,.0f} KiB/s"]
        lines.append(f"| {name.format(WAYS[name])} | {rounds} | {outcomes[0].of:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
