"""Real time-series databases on this machine, as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from gputel.telemetry.remote.push import EMPTY, Backlog, Pusher
from gputel.telemetry.remote.receiver import Receiver
from tests.ports import answered, free_port


@dataclass
class Database:
    """A server with an HTTP API that answers queries."""

    address: str
    process: subprocess.Popen[bytes]

    def query(self, query: str) -> list[dict[str, Any]]:
        with urlopen(f"{self.address}/api/v1/query?{urlencode({'query': query})}") as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def samples(self, selector: str) -> dict[str, list[tuple[float, str]]]:
        """All samples of each series, by its GPU."""
        found = self.query(f"{selector}[1d]")
        return {each["metric"].get("gpu", ""): [tuple(pair) for pair in each["values"]] for each in found}


SERVERS = {
    "prometheus": ["--storage.tsdb.path={folder}/data", "--web.listen-address={host}",
                   "--web.enable-remote-write-receiver", "--config.file={folder}/prometheus.yml"],
    "victoria-metrics": ["-storageDataPath={folder}/data", "-httpListenAddr={host}",
                         "-dedup.minScrapeInterval=1ms", "-search.latencyOffset=1s"],
}  # fmt: skip


@contextmanager
def running(name: str, folder: Path, port: int | None = None) -> Iterator[Database]:
    host = f"127.0.0.1:{port or free_port()}"
    (folder / "prometheus.yml").write_text("global: {}\n")
    words = [word.format(folder=folder, host=host) for word in SERVERS[name]]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([name, *words], stdout=log, stderr=log)
    try:
        receiver = Receiver(f"http://{host}", {})
        answered(process, lambda: receiver.post(EMPTY).verdict == "taken", folder / "log")
        receiver.close()
        yield Database(f"http://{host}", process)
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()


def push_all(folder: Path, database: Database, backlog: Backlog) -> None:
    """Pushes all that waits."""
    server = Receiver(database.address, {})
    pusher = Pusher(folder, server, backlog, now=time.time)
    while len(backlog):
        pusher.turn()
    server.close()
