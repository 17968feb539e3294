"""The courier and the pusher against what networks and machines do to them, and what they cost.

    python benchmarks/courier.py kills --rounds 200     # two couriers, one of them killed again and again
    python benchmarks/courier.py cost --seconds 120     # CPU and memory beside eight GPUs at 100 Hz

`kills` records a simulated machine with output, and sends it through a proxy that answers 503 or 403, drops
requests, loses answers after storage has kept the object, and is slow or away for seconds. At the end the copy is
compared byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gputel.telemetry.remote import file_kinds  # noqa: E402
from gputel.telemetry.remote.local_copy import local_copy  # noqa: E402
from gputel.telemetry.remote.sidecar import PushOrder, Sending, SyncOrder  # noqa: E402
from gputel.telemetry.remote.storage import Storage  # noqa: E402

FAULTS = {"503": 0.15, "403": 0.03, "drop": 0.07, "lost": 0.10, "slow": 0.10}
SLOW_S, AWAY_EVERY_S, AWAY_S = 0.5, 30.0, 6.0
TRAINING = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
step = 0
while time.monotonic() < end:
    step += 1
    print(f"step {step} | loss {3 / step:.6f} | tok/s {40_000 + step % 97}", flush=True)
    time.sleep(0.02)
"""
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "x" * 40,
    "AWS_REGION": "us-east-1",
}


class FaultyProxy(ThreadingHTTPServer):
    """Passes requests on to `server`, but for those that chance takes."""

    daemon_threads = True

    def __init__(self, server: int, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.server, self.chance = server, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.begun = time.monotonic()
        self.honest = False

    def fate(self) -> str:
        if self.honest:
            return "passed"
        if (time.monotonic() - self.begun) % AWAY_EVERY_S > AWAY_EVERY_S - AWAY_S:
            return "away"
        left = self.chance.random()
        for fault, share in FAULTS.items():
            left -= share
            if left < 0:
                return fault
        return "passed"

    def handle_error(self, *_words: object) -> None:
        """A courier that is killed leaves broken connections."""


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate = self.server.fate()
        self.server.counts[fate] += 1
        if fate in ("503", "403"):
            self.send_response(int(fate))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fate in ("drop", "away"):
            self.close_connection = True
            return
        if fate == "slow":
            time.sleep(SLOW_S)
        upstream = HTTPConnection("127.0.0.1", self.server.server, timeout=30)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if fate == "lost":
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        length = answer.headers["Content-Length"] if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", f"{length}")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def moto(folder: Path) -> Iterator[int]:
    """The port of an S3 server with a bucket, `runs`."""
    log = folder / "moto.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        while "Running on http://127.0.0.1:" not in (text := log.read_text()):
            time.sleep(0.05)
        port = int(text.partition("http://127.0.0.1:")[2].split()[0])
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/runs", method="PUT")).close()
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def server(folder: Path, port: int | None) -> Iterator[int]:
    """The port of a running S3 server that has a bucket `runs`, or of one of our own."""
    if port:
        yield port
    else:
        with moto(folder) as ours:
            yield ours


@contextmanager
def recording(run: Path, seconds: float, machine: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [
        "record",
        "--simulate",
        machine,
        "--out",
        f"{run}",
        "--",
        sys.executable,
        "-c",
        TRAINING,
        f"{seconds}",
    ]
    with (run.parent / "recorder.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "gputel", *words], stdout=log, stderr=log)
    try:
        while not (run / "run.json").exists():
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


def sender(sending: Sending, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(sending.start(0), env={**os.environ, **env}, cwd=ROOT)


def kills(rounds: int, seed: int, given: int | None) -> dict[str, Any]:
    """Kills one of two couriers after a moment, `rounds` times, while the other one sends, too."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place, server(Path(place), given) as port:
        run, proxy = Path(place) / "d20", FaultyProxy(port, seed)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        os.environ.update(
            KEYS, XDG_CACHE_HOME=f"{place}/cache", AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.server_port}"
        )
        address, begun = "s3://runs/d20", time.monotonic()
        order = Sending(SyncOrder(f"{run}", f"{run}", address, every_s=0.5))
        with recording(run, 3600, "8xH100") as recorder:
            couriers = [sender(order), sender(order)]
            for number in range(rounds):
                time.sleep(chance.uniform(0.2, 2.0))
                couriers[number % 2].kill()
                couriers[number % 2].wait()
                couriers[number % 2] = sender(order)
            recorder.terminate()
            recorder.wait()
        took = time.monotonic() - begun
        for courier in couriers:
            courier.wait()
        proxy.honest = True
        copy = local_copy(address)
        differing = compared(run, copy.path)
        objects = [each.name for each in Storage(address).objects()]
        bundles = sorted(int(name[-8:]) for name in objects if file_kinds.kind_of(name) == "bundle")
        proxy.shutdown()
        return {
            "kills": rounds,
            "seconds": round(took),
            "requests": dict(proxy.counts),
            "objects": len(objects),
            "bundles": len(bundles),
            "bundles_missing": len(set(range(1, max(bundles, default=0) + 1)) - set(bundles)),
            "files": sum(1 for path in run.rglob("*") if path.is_file()),
            "bytes": sum(path.stat().st_size for path in run.rglob("*") if path.is_file()),
            "differing": differing,
            "sealed": not copy.unsealed,
        }


def compared(run: Path, copy: Path) -> list[str]:
    """The files of the run that the copy lacks or has otherwise, and those that it should not have."""
    there = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    kinds: tuple[file_kinds.Kind, ...] = ("final", "growing", "replaced")
    sent = set(file_kinds.files(run, *kinds))
    extra = {file for file in there - sent if file_kinds.kind_of(file) in kinds}
    return sorted(
        extra
        | {
            file
            for file in sent
            if file not in there or (run / file).read_bytes() != (copy / file).read_bytes()
        }
    )


def cost(seconds: float) -> dict[str, Any]:
    """CPU and memory of the process that sends and pushes, its start left out of the share."""
    with tempfile.TemporaryDirectory() as place, moto(Path(place)) as port:
        run = Path(place) / "d20"
        taking = ThreadingHTTPServer(("127.0.0.1", 0), _Taking)
        threading.Thread(target=taking.serve_forever, daemon=True).start()
        env = {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        rows = {}
        push = PushOrder(f"{run}", f"http://127.0.0.1:{taking.server_port}", "d20", 0)
        sync = SyncOrder(f"{run}", f"{run}", "s3://runs/d20")
        for name, sending in {
            "courier": Sending(sync),
            "pusher": Sending(None, push),
            "both": Sending(sync, push),
        }.items():
            shutil.rmtree(run, ignore_errors=True)
            urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")
            )
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/runs", method="PUT"))
            with recording(run, seconds + 30, "8xH100"):
                process = sender(sending, **env)
                time.sleep(10)
                before, at = cpu_s(process.pid), time.monotonic()
                time.sleep(seconds)
                used, over = cpu_s(process.pid) - before, time.monotonic() - at
                rows[name] = {
                    "start_cpu_s": round(before, 2),
                    "cpu_percent_of_a_core": round(100 * used / over, 2),
                    "resident_mib": round(status_kib(process.pid, "VmRSS") / 1024, 1),
                    "peak_mib": round(status_kib(process.pid, "VmHWM") / 1024, 1),
                }
                process.kill()
                process.wait()
        taking.shutdown()
        return {"seconds": seconds, "rows": rows}


class _Taking(BaseHTTPRequestHandler):
    """A server of remote write that keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_kib(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("kills", "cost"))
    parser.add_argument(
        "--port", type=int, help="of an S3 server on this machine with an empty bucket `runs`; else moto"
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    result = kills(asked.rounds, asked.seed, asked.port) if asked.what == "kills" else cost(asked.seconds)
    print(json.dumps({**result, "load": [round(load, 1), round(os.getloadavg()[0], 1)]}, indent=2))
    sys.exit(bool(result.get("differing")) or result.get("sealed") is False)


if __name__ == "__main__":
    main()
