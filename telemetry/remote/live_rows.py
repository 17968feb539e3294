"""What one node pushes each second: its GPUs, its training and its alarms, as series of Prometheus.

Each series goes forward in time only, as a server refuses what does not: a second that comes again is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gputel.telemetry import run_folder, training_state
from gputel.telemetry.clock import SECOND
from gputel.telemetry.remote import remote_write
from gputel.telemetry.secrets import mask
from gputel.telemetry.store.live_seconds import LiveSeconds

JOB = "gputel"
INFO_EVERY_S = 60
UNFIT = re.compile(r"[^a-zA-Z0-9_]")


class LiveRow(NamedTuple):
    """The values of some series, by their labels, in one second."""

    second: int
    values: dict[bytes, float]


@dataclass
class LiveRows:
    """The rows of one segment from a second on; each `read` gives the new ones."""

    segment: Path
    run: str
    node: str
    since: int = 0
    _last: dict[bytes, int] = field(default_factory=dict)
    _labels: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _alarms: set[str] = field(default_factory=set)
    _info_at: int = 0

    def __post_init__(self) -> None:
        self._seconds = LiveSeconds(self.segment / "gpu", self.since)

    def read(self) -> list[LiveRow]:
        """Reads the rows in order of time. The training's state is in the second that has just ended.

        The last row of a recording that has ended says that the node is no longer up; one that was killed has none.
        """
        facts = run_folder.readable_facts(self.segment, warn=False)
        is_up = facts.get("ended") is None
        latest = run_folder.now_ns(self.segment) // SECOND - is_up
        rows = {latest: self._training(latest, facts) | {self._named("gputel_up"): float(is_up)}}
        for second, figures in self._seconds.read():
            values = rows.setdefault(second, {})
            values.setdefault(self._named("gputel_up"), 1.0)
            for (name, gpu), value in figures.items():
                values[self._named(f"gputel_gpu_{name}", gpu)] = value
        return [
            LiveRow(second, values)
            for second in sorted(rows)
            if (values := self._forward(second, rows[second]))
        ]

    def _forward(self, second: int, values: dict[bytes, float]) -> dict[bytes, float]:
        new = {
            series: value
            for series, value in values.items()
            if self._last.get(series, self.since - 1) < second
        }
        self._last.update(dict.fromkeys(new, second))
        return new

    def _training(self, second: int, facts: Mapping[str, Any]) -> dict[bytes, float]:
        values: dict[bytes, float] = {}
        state = training_state.read(self.segment)
        if state is not None:
            values |= {self._named(name): value for name, value in state.figures.items()}
            active = set(state.alarms)
            for rule in active | self._alarms:
                values[self._series("gputel_alarm_active", rule=rule)] = float(rule in active)
            self._alarms = active
        if second - self._info_at >= INFO_EVERY_S:
            self._info_at = second
            values |= dict.fromkeys(self._info(facts), 1.0)
        return values

    def _info(self, facts: Mapping[str, Any]) -> Iterator[bytes]:
        """Series whose labels are facts of the run and of its GPUs."""
        git, host, tags = (facts.get(name) for name in ("git", "host", "tags"))
        commit = git.get("commit") if isinstance(git, dict) else None
        name = host.get("name") if isinstance(host, dict) else None
        tagged = (
            {f"tag_{UNFIT.sub('_', tag)}": f"{value}" for tag, value in tags.items()}
            if isinstance(tags, dict)
            else {}
        )
        yield self._series("gputel_run_info", commit=f"{commit or ''}", host=f"{name or ''}", **tagged)
        gpus = facts.get("gpus")
        for gpu in gpus if isinstance(gpus, list) else ():
            if isinstance(gpu, dict):
                about = {
                    "gpu": gpu.get("gpu"),
                    "uuid": gpu.get("uuid"),
                    "model": gpu.get("name"),
                    "host": name,
                }
                yield self._series(
                    "gputel_gpu_info", **{label: f"{value or ''}" for label, value in about.items()}
                )

    def _named(self, name: str, gpu: str = "") -> bytes:
        labels = self._labels.get((name, gpu))
        if labels is None:
            labels = self._labels[name, gpu] = self._series(name, **({"gpu": gpu} if gpu else {}))
        return labels

    def _series(self, name: str, **others: str) -> bytes:
        """Leaves out labels without a text."""
        known = {label: mask(text) for label, text in others.items() if text}
        return remote_write.labels(name, {**known, "job": JOB, "node": self.node, "run": self.run})
