"""A run whose nodes push to Prometheus or VictoriaMetrics, followed by asking that server: all nodes at once.

One query a second gets the samples as they were pushed. A query over a range would repeat the last value of a node
that is gone for minutes. There is no output; steps and losses are those that the guard of each node has read.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import polars as pl

from gputel.analysis.live.runs import Followed
from gputel.analysis.live.update import Update
from gputel.analysis.live.whole_logs import SHARE, HandedOut, WholeLog
from gputel.analysis.logs.incremental import Increment
from gputel.analysis.stores.assemble import make_log
from gputel.analysis.stores.points import StoredRun, TagValues
from gputel.telemetry.characters import parse_json, visible_line
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote.receiver import authorization, is_server
from gputel.telemetry.secrets import mask

PREFIX = "prometheus:"
PAST_S, LATE_S, GONE_S = 600, 5, 30
EVERY_S, TIMEOUT_S = 1.0, 10.0
LONGEST_FAULT = 200
LARGEST_ANSWER = 256 << 20
"""Ten minutes of a hundred nodes are a third of it."""
LAST_S = 1 << 32  # the year 2106, in seconds since 1970
LARGEST_STEP = 1 << 53
RANK = re.compile(r"[0-9]{1,9}")
TRAINING = "gputel_train_"
GPU = "gputel_gpu_"
WANTED = (
    f"{GPU}(?:power_w_mean|power_w_max|temp_c_max|util_mean|mem_used_mib_max|sm_mhz_mean|throttle_any|info)"
    f"|gputel_up|gputel_step|gputel_steps_total|{TRAINING}.+"
)

Samples = dict[tuple[str, str, str], list[tuple[float, float]]]
"""(metric, node, GPU) -> moments in seconds since 1970, and values."""


class PushedSeries(NamedTuple):
    """One series of a server's answer, with moments in seconds since 1970."""

    labels: dict[str, str]
    values: list[tuple[float, float]]


class Database:
    """Asks a server for the samples of one run. Raises GputelError unless the address is an http one."""

    def __init__(self, address: str, run: str, env: Mapping[str, str] = os.environ) -> None:
        place = f"--from {PREFIX}{mask(address)}"
        if not is_server(address):
            hint = f"such as --from {PREFIX}https://metrics.example.com"
            raise GputelError(place, "is no address of a server", hint, exit_code=2)
        self._address, self._run = address.rstrip("/"), run
        self._headers = authorization(place, address, env)
        self._opener = urllib.request.build_opener(_NoRedirects)

    def ask(self, seconds: int) -> list[PushedSeries]:
        """The series of the last seconds. Raises OSError, HTTPException or ValueError."""
        name = self._run.replace("\\", "\\\\").replace('"', '\\"')
        query = f'{{__name__=~"{WANTED}",run="{name}"}}[{seconds}s]'
        request = urllib.request.Request(
            f"{self._address}/api/v1/query", urlencode({"query": query}).encode(), self._headers
        )
        with self._opener.open(request, timeout=TIMEOUT_S) as answer:
            return series_of(answer.read(LARGEST_ANSWER))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would take the token to another server."""

    def redirect_request(self, *_words: object) -> None:
        return None


def series_of(answer: bytes) -> list[PushedSeries]:
    """The series in an answer of Prometheus' API; raises ValueError for anything else."""
    try:
        return [
            PushedSeries(
                {f"{label}": f"{text}" for label, text in each["metric"].items()},
                [(float(at), float(value)) for at, value in each["values"] if 0 <= float(at) < LAST_S],
            )
            for each in parse_json(answer)["data"]["result"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
        raise ValueError("the answer is not one of Prometheus' API") from None


class FollowedDatabase(Followed):
    """A run in a database; a thread asks for it, since a server may take its time."""

    def __init__(self, address: str, run: str, now: Callable[[], float] = time.time) -> None:
        super().__init__(run, f"{PREFIX}{mask(address)}/{run}", None, None)
        self._database, self._now = Database(address, run), now
        self._answers: queue.SimpleQueue[list[PushedSeries] | str] = queue.SimpleQueue()
        self._seen: dict[tuple[tuple[str, str], ...], float] = {}
        self._newest: dict[str, float] = {}
        self._up: dict[str, float] = {}
        self._training = _Training(run, self.source)
        self._cards: dict[tuple[str, str], dict[str, str]] = {}
        self._fault: str | None = None
        self._begun = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="gputel-database", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        if self._fault:
            return self._fault
        silent = sorted(node for node, at in self._newest.items() if self._is_gone(node, at))
        return f"not heard of for {GONE_S} s: node {', '.join(silent)}" if silent else None

    @property
    def is_over(self) -> bool:
        """Whether every node has said that its recording has ended."""
        return bool(self._up) and not any(self._up.values()) and not self._training.is_pending

    def look(self) -> None:
        hosts = [
            {
                "node_rank": int(node) if RANK.fullmatch(node) else node,
                "host": {"name": cards[0].get("host")},
                "gpus": [
                    {"gpu": card.get("gpu", ""), "uuid": card.get("uuid"), "name": card.get("model")}
                    for card in cards
                ],
            }
            for node in sorted({node for node, _ in self._cards})
            if (cards := [card for (of_node, _), card in sorted(self._cards.items()) if of_node == node])
        ]
        if hosts:
            self.state.describe(hosts)
        if self._up:
            self.state.set_written(any(self._up.values()))

    def read(self) -> Iterator[Update]:
        samples: Samples = {}
        while not self._answers.empty():
            answer = self._answers.get()
            self._fault = answer if isinstance(answer, str) else None
            if not isinstance(answer, str):
                self._take(answer, samples)
                self.look()
        live, self._begun = self._begun, self._begun or bool(samples)
        for node in sorted({node for metric, node, _ in samples if metric.startswith(GPU)}):
            yield Update(self.name, self.source, f"nodes/{node}", gpu=_seconds(samples, node), live=live)
        increment = self._training.take(samples)
        if increment is not None:
            written = max(self._newest.values())
            yield Update(
                self.name,
                self.source,
                increment=increment,
                log=self._training.log,
                written=written,
                live=live,
            )

    def close(self) -> None:
        self._closed.set()
        self._thread.join(TIMEOUT_S)

    def _poll(self) -> None:
        answered = self._now() - PAST_S
        while not self._closed.is_set():
            asked = self._now()
            try:
                found = self._database.ask(min(int(asked - answered) + LATE_S, PAST_S))
                self._answers.put(found)
                answered = asked if found else answered
            except (OSError, HTTPException, ValueError) as error:
                self._answers.put(
                    f"cannot be asked: {visible_line(mask(str(error).strip()))[:LONGEST_FAULT]}"
                )
            self._closed.wait(EVERY_S)

    def _take(self, answer: list[PushedSeries], samples: Samples) -> None:
        """Adds what has not been seen yet."""
        for labels, values in answer:
            metric, node = labels.get("__name__", ""), labels.get("node", "")
            key = tuple(sorted(labels.items()))
            new = [(at, value) for at, value in values if at > self._seen.get(key, 0.0)]
            if not new:
                continue
            self._seen[key] = max(at for at, _ in new)
            self._newest[node] = max(self._newest.get(node, 0.0), self._seen[key])
            if metric == "gputel_up":
                self._up[node] = new[-1][1]
            elif metric == f"{GPU}info":
                self._cards[node, labels.get("gpu", "")] = labels
            else:
                samples.setdefault((metric, node, labels.get("gpu", "")), []).extend(new)

    def _is_gone(self, node: str, newest: float) -> bool:
        return bool(self._up.get(node, 1.0)) and self._now() - newest > GONE_S


def _seconds(samples: Samples, node: str) -> pl.DataFrame:
    """A row per second and GPU of one node."""
    rows: dict[tuple[float, str], dict[str, Any]] = {}
    for (metric, of_node, gpu), values in samples.items():
        if of_node == node and metric.startswith(GPU):
            for at, value in values:
                row = rows.setdefault((at, gpu), {"time": round(at * SECOND), "gpu": gpu})
                row[metric.removeprefix(GPU)] = value
    frame = pl.DataFrame([rows[key] for key in sorted(rows)], infer_schema_length=None)
    return frame.with_columns(pl.col("time").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


class _Training:
    """The steps of a run: those of the first node that has any, a record for each step that was seen."""

    def __init__(self, name: str, source: str) -> None:
        self.log: WholeLog | None = None
        self.is_pending = False
        self._name, self._source = name, source
        self._rows, self._due = HandedOut(), float("-inf")
        self._node: str | None = None
        self._steps: dict[float, float] = {}
        self._values: dict[str, dict[float, float]] = {}

    def take(self, samples: Samples) -> Increment | None:
        """The new rows; None if there are none. Making rows takes a small share of the time."""
        nodes = sorted(node for metric, node, _ in samples if metric == "gputel_step")
        self._node = self._node or (nodes[0] if nodes else None)
        for (metric, node, _), values in samples.items():
            if node == self._node and metric == "gputel_step":
                self._steps.update((at, step) for at, step in values if 0 <= step < LARGEST_STEP)
                self.is_pending = True
            elif node == self._node and metric.startswith(TRAINING):
                self._values.setdefault(metric.removeprefix(TRAINING), {}).update(values)
        began = time.monotonic()
        if not self.is_pending or began < self._due:
            return None
        self.is_pending = False
        log = make_log(StoredRun(self._name, self._source, "prometheus", self._points()))
        self._due = time.monotonic() + SHARE * (time.monotonic() - began)
        self.log = WholeLog(log)
        return self._rows.difference(log)

    def _points(self) -> TagValues:
        """The values of each step in the first second in which it was the newest."""
        first = {step: at for at, step in sorted(self._steps.items(), reverse=True)}
        tags = sorted(self._values)
        found = [
            (tag, int(step), round(at * SECOND), self._values[name][at])
            for step, at in sorted(first.items())
            for tag, name in enumerate(tags)
            if at in self._values[name]
        ]
        table = list(zip(*found, strict=True)) or [(), (), (), ()]
        tag, step, moment = (np.array(column, np.int64) for column in table[:3])
        return TagValues(tags, tag, step, moment, np.array(table[3], np.float64), np.ones(len(tag), np.int64))
