"""64 nodes of eight GPUs that push to one database, a training whose network is dead, 1,000 recordings in storage.

    python benchmarks/fleet.py replay     # 64 pushers, a request each second: what arrives, and how late
    python benchmarks/fleet.py outage     # the database comes after ten minutes: how long until all is there
    python benchmarks/fleet.py dead       # step times of a training while its courier and pusher get no answer
    python benchmarks/fleet.py index      # `gputel runs s3://...` by one process, by all cores, by Ray

`replay` and `outage` replay the seconds of a simulated machine, with a process for each node that pushes as beside
a recording, into a real VictoriaMetrics. The outage is of 560 s that wait from the beginning and of 40 s in which
the database refuses connections, so that pushers back off as after ten minutes. At the end every sample is counted.

`dead` sends to servers that accept connections and never answer. In each pair of blocks of steps the processes
that send and judge run in one, and are stopped by SIGSTOP in the other.

`index` sends copies of a recording of five seconds, each with losses of its own and without facts.json, to moto.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from courier import KEYS, cpu_s, moto, recording, status_kib  # noqa: E402
from training_cost import RecordedTraining, driver, in_random_order, ratio  # noqa: E402

from gputel.telemetry import events, run_folder  # noqa: E402
from gputel.telemetry.remote import push  # noqa: E402
from gputel.telemetry.remote.courier import Sent, send  # noqa: E402
from gputel.telemetry.remote.live_rows import LiveRow, LiveRows  # noqa: E402
from gputel.telemetry.remote.receiver import Receiver  # noqa: E402
from gputel.telemetry.remote.storage import Storage  # noqa: E402
from tests.ports import free_port  # noqa: E402
from tests.recordings import Recorder, children, until  # noqa: E402
from tests.telemetry.remote.database import Database, running  # noqa: E402

RUN, MACHINE = "fleet", "8xH100"
RECORDED = 20  # seconds that are replayed, again and again
SMALL_BACKLOG = 3  # seconds that wait where nothing is held up
PATIENCE_S = 300.0
SENDERS = ("gputel.telemetry.remote.sidecar", "gputel.analysis.live.guard")
POWER = b"gputel_gpu_power_w_mean"


class Plan(NamedTuple):
    """What each node does: `queued` seconds wait before the first one of the replay."""

    address: str
    first: int
    queued: int
    seconds: int


class NodeResult(NamedTuple):
    samples: int
    lags_s: list[float]
    caught_up: float
    """When only fresh seconds waited, by the monotonic clock."""
    cpu_s: float
    events: list[str]


class TimedBacklog(push.Backlog):
    """Notes how long after its end each second was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.lags_s: list[float] = []

    def done(self, rows: list[Any]) -> None:
        now = time.time()
        self.lags_s += [now - row.second - 1 for row in rows]
        super().done(rows)


def node(number: int, snapshot: Path, place: Path, plan: Plan, begin: Event, results: Queue[Any]) -> None:
    """Pushes the replayed seconds of one node as `push.push` does those of a recording."""
    recorded = [row.values for row in LiveRows(snapshot, RUN, f"{number}").read() if has_power(row)]
    segment = run_folder.create(place / f"{number}", {"run": RUN, "started": {}}).path
    backlog, over = TimedBacklog(), threading.Event()
    pusher = push.Pusher(segment, Receiver(plan.address, {}), backlog, now=time.time)
    caught_up: list[float] = []

    def send() -> None:
        while len(backlog) or not over.is_set():
            over.wait(pusher.turn())
            if not caught_up and len(backlog) <= SMALL_BACKLOG:
                caught_up.append(time.monotonic())

    samples = 0
    begin.wait()
    sender = threading.Thread(target=send)
    for second in range(plan.first - plan.queued, plan.first + plan.seconds):
        if second >= plan.first:
            moment = second + 1 + push.SETTLED_S + push.SPREAD_S * (push.GOLDEN * number % 1)
            time.sleep(max(moment - time.time(), 0))
        values = recorded[second % len(recorded)]
        samples += len(values)
        backlog.add(LiveRow(second, values))
        if second >= plan.first - 1 and not sender.is_alive():
            sender.start()
    over.set()
    sender.join()
    noted = [event["text"] for event in events.read(segment)]
    results.put(NodeResult(samples, backlog.lags_s, caught_up[0], time.process_time(), noted))


def has_power(row: LiveRow) -> bool:
    return any(POWER in series for series in row.values)


def recorded_seconds(place: Path) -> Path:
    """A copy of a recording that goes on, whose seconds can be read."""
    run, copy = place / "recorded", place / "snapshot"
    with recording(run, 10 * RECORDED, MACHINE):
        until(lambda: sum(map(has_power, LiveRows(run, RUN, "0").read())) > RECORDED, "recorded seconds")
        shutil.copytree(run, copy)
    return copy


def fleet(nodes: int, queued: int, seconds: int, refused_s: float) -> dict[str, Any]:
    """Pushes from all nodes at once, to a database that is there after `refused_s`."""
    forked = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        place = Path(name)
        snapshot, port = recorded_seconds(place), free_port()
        server = running("victoria-metrics", place, port)
        database = None if refused_s else opened.enter_context(server)
        first = int(time.time()) + 8  # when all processes have been started
        plan = Plan(f"http://127.0.0.1:{port}", first, queued, seconds)
        begin, results = forked.Event(), forked.Queue()
        processes = [
            forked.Process(target=node, args=(number, snapshot, place / "nodes", plan, begin, results))
            for number in range(nodes)
        ]
        (place / "nodes").mkdir()
        for process in processes:
            process.start()
        begin.set()
        time.sleep(max(first - time.time(), 0) + refused_s)
        database = database or opened.enter_context(server)
        there, pid = time.monotonic(), database.process.pid
        before = cpu_s(pid)
        found: list[NodeResult] = [results.get(timeout=PATIENCE_S) for _ in processes]
        took, used = time.monotonic() - there, cpu_s(pid) - before
        for process in processes:
            process.join()
        expected = {"seconds": nodes * (queued + seconds), "samples": sum(each.samples for each in found)}
        counts = counted(database, expected)
        lags = np.percentile(np.concatenate([each.lags_s[queued:] for each in found]), [50, 99, 100])
        drains = [each.caught_up - there for each in found]
        return {
            "nodes": nodes,
            "series": round(expected["samples"] / expected["seconds"] * nodes),
            "expected": expected,
            "lost": {what: expected[what] - counts[what] for what in expected},
            "lag_s": dict(zip(("p50", "p99", "max"), lags.round(2), strict=True)),
            "drained_after_s": refused_s
            and {"p50": round(np.median(drains), 1), "max": round(max(drains), 1)},
            "cpu_s_of_a_node": round(float(np.median([each.cpu_s for each in found])), 2),
            "server": {
                "cpu_percent": round(100 * used / took, 1),
                "cpu_us_a_sample": round(1e6 * used / expected["samples"], 2),
                "peak_mib": round(status_kib(pid, "VmHWM") / 1024),
            },
            "events": sorted({text for each in found for text in each.events}),
        }


def counted(database: Database, expected: dict[str, int]) -> dict[str, int]:
    """What the database has, once it has all or shows nothing new."""
    counts: dict[str, int] = {}
    queries = {
        "seconds": f'sum(count_over_time(gputel_gpu_power_w_mean{{run="{RUN}",gpu="0"}}[1h]))',
        "samples": f'sum(count_over_time({{run="{RUN}"}}[1h]) keep_metric_names)',
    }
    for _ in range(30):
        counts, before = {what: asked(database, query) for what, query in queries.items()}, counts
        if counts == expected or (before == counts and counts["samples"]):
            break
        time.sleep(1)
    return counts


def asked(database: Database, query: str) -> int:
    words = urlencode({"query": query, "time": f"{time.time() + 5:.0f}", "nocache": 1})
    with urlopen(f"{database.address}/api/v1/query?{words}") as answer:
        found = json.load(answer)["data"]["result"]
    return int(found[0]["value"][1]) if found else 0


@contextmanager
def never_answering() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def senders(recorder: Recorder) -> Sequence[int]:
    """The courier's process and the guard."""
    return until(lambda: _senders(recorder.viewer), "the processes that send")


def _senders(viewer: int) -> list[int]:
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(viewer)}
    found = [pid for pid, argv in words.items() if any(module.encode() in argv for module in SENDERS)]
    return found if len(found) == len(SENDERS) else []


def dead(steps: int, block: int, gpus: int, seed: int) -> dict[str, Any]:
    """Step times with the senders running to those with the senders stopped, while nothing answers them."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, never_answering() as address:
        place = Path(name)
        environment = {**driver(place, gpus), **KEYS, "AWS_ENDPOINT_URL": address}
        record = ("--sync", "s3://runs/dead", "--push", address)
        training = RecordedTraining(place, record, environment, senders)
        with training.going_on():
            blocks = [
                in_random_order(chance, partial(training.block, block)) for _ in range(-(-steps // block))
            ]
            share = training.share_of_a_core(steps)
        noted = [event["text"] for event in events.read(place / "run")]
    elapsed, processor = (
        [tuple([step[part] for step in side] for side in pair) for pair in blocks] for part in (0, 1)
    )
    stopped, sending = (np.array([pair[side] for pair in elapsed]).ravel() for side in (0, 1))
    return {
        "gpus": gpus,
        "pairs": len(blocks),
        "steps_of_a_block": block,
        "ms_stopped": dict(zip(("p50", "p99"), np.percentile(stopped, [50, 99]).round(2), strict=True)),
        "ms_sending": dict(zip(("p50", "p99"), np.percentile(sending, [50, 99]).round(2), strict=True)),
        "p99": f"{ratio(elapsed, lambda steps: np.percentile(steps, 99), seed)}",
        "p50_by_pairs": f"{ratio(elapsed, None, seed)}",
        "p99_of_processor_time": f"{ratio(processor, lambda steps: np.percentile(steps, 99), seed)}",
        "p50_of_processor_time_by_pairs": f"{ratio(processor, None, seed)}",
        "senders_of_a_core_percent": round(100 * share, 2),
        "events": noted,
    }


def indexed(runs: int) -> dict[str, Any]:
    """Seconds and CPU of indexing as many recordings by each engine, and whether the answers are equal."""
    with tempfile.TemporaryDirectory() as name, moto(Path(name)) as port:
        place = Path(name)
        os.environ.update(KEYS, XDG_CACHE_HOME=f"{place}/cache", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        recorded, begun = small_recording(place), time.monotonic()
        objects = sum(sent.objects for sent in send_copies(recorded, runs, place))
        sending_s = time.monotonic() - begun
        rows, digests = {}, set()
        ask_runs([])  # fetches what is there
        for engine, (prefix, options) in ENGINES.items():
            for base in (place / "cache" / "gputel").glob("catalogue-*"):
                base.unlink()
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            answer = ask_runs(options, prefix)
            took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found = json.loads(answer)["runs"]
            digests.add(hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest())
            rows[engine] = {"runs": len(found), "wall_s": round(took, 1), "cpu_s": round(used, 1)}
        losses = len({row["loss"] for row in found})
        return {
            "objects": objects,
            "sending_s": round(sending_s, 1),
            "engines": rows,
            "different_losses": losses,
            "equal": len(digests) == 1,
        }


LOSS = re.compile(rb"loss \d\.\d{6}")
ENGINES: dict[str, tuple[list[str], list[str]]] = {
    "here": (["taskset", "-c", "0"], []),  # one core pays for no worker
    "local": ([], []),
    "ray": ([], ["--engine", "ray"]),
}


def small_recording(place: Path) -> Path:
    run = place / "d12"
    with recording(run, 5.0, "1xH100") as recorder:
        recorder.wait()
    (run / "facts.json").unlink(missing_ok=True)
    return run


def send_copies(run: Path, count: int, place: Path) -> Iterator[Sent]:
    """Sends each under a name and with losses of its own, which have as many digits in all copies."""
    lines = (run / "output.log").read_bytes().splitlines(keepends=True)
    for number in range(count):
        copy = place / "copies" / f"run{number:04d}"
        shutil.copytree(run, copy)
        last = LOSS.sub(f"loss {number / 1000:.6f}".encode(), lines[-1])
        (copy / "output.log").write_bytes(b"".join([*lines[:-1], last]))
        yield send(copy, Storage(f"s3://runs/many/{copy.name}"))
        shutil.rmtree(copy)


def ask_runs(options: list[str], prefix: Sequence[str] = ()) -> bytes:
    words = [*prefix, sys.executable, "-m", "gputel", "runs", "s3://runs/many/", "--json", "--columns", "all"]
    return subprocess.run([*words, *options], check=True, capture_output=True, cwd=ROOT).stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["replay", "outage", "dead", "index"])
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=45, help="of the replay")
    parser.add_argument("--queued", type=int, default=560, help="seconds that wait from the beginning")
    parser.add_argument("--refused", type=int, default=40, help="seconds in which the database is away")
    parser.add_argument("--steps", type=int, default=2000, help="timed steps of each kind")
    parser.add_argument("--block", type=int, default=25, help="steps of a block")
    parser.add_argument("--runs", type=int, default=1000, help="recordings that are indexed")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for what in asked.what:
        load = os.getloadavg()[0]
        if what == "replay":
            result = fleet(asked.nodes, 0, asked.seconds, 0.0)
        elif what == "outage":
            result = fleet(asked.nodes, asked.queued, asked.refused + asked.seconds, asked.refused)
        elif what == "dead":
            result = dead(asked.steps, asked.block, 8, asked.seed)
        else:
            result = indexed(asked.runs)
        loads = [round(load, 1), round(os.getloadavg()[0], 1)]
        print(json.dumps({"what": what, **result, "load": loads}, indent=2), flush=True)


if __name__ == "__main__":
    main()
