"""Everything that is shown of a run that is followed, put together from its logs, GPUs and recorded events.

News go in as they come; `view` gives what stands at a moment, as plain values that a terminal, a page and an
exporter draw alike. Memory is bounded however long the run is.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from gputel.analysis.live.coming import Coming, coming
from gputel.analysis.live.curve import Curve, Points
from gputel.analysis.live.journals import PAST_S
from gputel.analysis.live.story import Story

if TYPE_CHECKING:
    from gputel.analysis.live.runs import News

STRIP_S = PAST_S  # seconds of each GPU's readings that are kept
STRIPS = ("power_w_mean", "temp_c_max", "util_mean", "mem_used_mib_max", "sm_mhz_mean")
MOST_HAPPENED = 500


@dataclass(frozen=True)
class Terms:
    """What a GPU costs an hour, and what may be spent on the run altogether."""

    price: float | None = None
    budget: float | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Cost:
    """In the currency of the price. `at_end` is None where the end is not known."""

    per_hour: float
    spent: float
    at_end: float | None
    budget: float | None

    @property
    def is_over(self) -> bool:
        return self.budget is not None and max(self.spent, self.at_end or 0) > self.budget


@dataclass(frozen=True)
class Gpu:
    """`last` is its last whole second; `strips` are its last minutes, a value a second, NaN for none."""

    gpu: str
    node: str
    host: str | None
    uuid: str | None
    name: str | None
    at: datetime
    last: dict[str, float]
    strips: dict[str, list[float]]
    limits: dict[str, float]


@dataclass(frozen=True)
class View:
    """A run at a moment. Times are UTC; None is not known."""

    name: str
    source: str
    status: str
    cause: str | None
    caution: str | None
    phase: str | None
    attempt: int
    step: int | None
    total_steps: int | None
    epoch: float | None
    last: Mapping[str, float]
    curves: Mapping[str, Points]
    evals: Mapping[str, Points]
    seconds_a_step: float | None
    elapsed_s: float | None
    eta_s: float | None
    silent_s: float | None
    coming: Sequence[Coming]
    cost: Cost | None
    gpus: Sequence[Gpu]
    ranks: Mapping[str, tuple[int | None, float]]
    events: Sequence[Mapping[str, Any]]
    records: int
    config: Mapping[str, float | str]


@dataclass
class _Readings:
    host: str | None = None
    uuid: str | None = None
    name: str | None = None
    limits: dict[str, float] = field(default_factory=dict)
    at: datetime | None = None
    last: dict[str, float] = field(default_factory=dict)
    strips: dict[str, deque[float]] = field(default_factory=dict)


class State:
    """`take` what is new; `view` what stands."""

    def __init__(self, name: str, source: str, now: Callable[[], float] = time.time) -> None:
        self.name, self.source = name, source
        self.stories: dict[str, Story] = {}
        self.changed = 0  # counts what was taken, so that a view knows whether to draw
        self._now = now
        self._sources: dict[str, Any] = {}
        self._gpus: dict[tuple[str, str], _Readings] = {}
        self._happened: deque[dict[str, Any]] = deque(maxlen=MOST_HAPPENED)
        self._facts: list[dict[str, Any]] = []
        self._heard: float | None = None  # when a row came last
        self._ended = False

    def __getstate__(self) -> dict[str, Any]:
        """What is read again from where it stands is not kept: descriptions and the last seconds of the GPUs."""
        return {**vars(self), "_now": time.time, "_gpus": {}, "_facts": []}

    def take(self, news: News) -> None:
        self.changed += 1
        increment = news.increment
        if increment is not None:
            if increment.afresh or news.stream not in self.stories:
                self.stories[news.stream] = Story()
            self._sources[news.stream] = news.run.streams[news.stream].increments
            self.stories[news.stream].take(increment, self._now(), live=news.live)
            if news.live and (increment.records.height or increment.open_records.height):
                self._heard = self._now()
        if news.gpu is not None:
            self._seconds(news.gpu.iter_rows(named=True), news.stream)
        self._happened.extend(news.happened)

    def describe(self, facts: list[dict[str, Any]]) -> None:
        """What the run.json of each segment says."""
        if facts == self._facts:
            return
        self._facts = facts
        self.changed += 1
        for fact in facts:
            for gpu in fact.get("gpus") or []:
                node = str(fact.get("node_rank") or "")
                readings = self._gpus.setdefault((node, str(gpu["gpu"])), _Readings())
                readings.name, readings.limits = gpu.get("name"), gpu.get("limits") or {}
                readings.uuid, readings.host = gpu.get("uuid"), (fact.get("host") or {}).get("name")
                if gpu.get("memory_total_mib"):
                    readings.limits = {**readings.limits, "memory_total_mib": gpu["memory_total_mib"]}

    @property
    def is_recorded(self) -> bool:
        """Whether a recorder stamps the lines, and tells how it all ended."""
        return bool(self._facts)

    @property
    def has_ended(self) -> bool:
        """Whether all recorders have said so."""
        return bool(self._facts) and all(fact.get("ended") for fact in self._facts)

    @property
    def exit_code(self) -> int | None:
        """The last segment's, once all have ended."""
        code: int | None = self._facts[-1].get("exit_code") if self.has_ended else None
        return code

    def memory_mib(self, gpu: str, stream: str) -> float | None:
        readings = self._gpus.get((_node(stream), gpu))
        return readings.limits.get("memory_total_mib") if readings else None

    def view(self, terms: Terms | None = None) -> View:
        now = self._now()
        story = self._main()
        step_s = story.seconds_a_step()
        eta_s = self._eta_s(story, step_s)
        elapsed_s = self._elapsed_s(story, now)
        status, cause = self._status(story)
        ended = status not in ("running", "unknown")
        if ended:
            eta_s = None
        config = self._config()
        return View(
            name=self.name,
            source=self.source,
            status=status,
            cause=cause,
            caution=self._caution(config),
            phase=story.phase,
            attempt=story.attempt,
            step=story.step,
            total_steps=self._total(story),
            epoch=story.epoch,
            last=dict(story.last),
            curves={name: curve.points() for name, curve in self._curves("curves").items()},
            evals={name: curve.points() for name, curve in self._curves("evals").items()},
            seconds_a_step=step_s,
            elapsed_s=elapsed_s,
            eta_s=eta_s,
            silent_s=now - self._heard if self._heard is not None else None,
            coming=[]
            if ended
            else coming(story, self._total(story), step_s, datetime.fromtimestamp(now, timezone.utc), eta_s),
            cost=self._cost(terms or Terms(), elapsed_s, eta_s, config),
            gpus=[_gpu(key, readings) for key, readings in self._gpus.items() if readings.at is not None],
            ranks=self._ranks(now),
            events=[*story.events, *story.open_events, *self._happened],
            records=sum(one.records for one in self.stories.values()),
            config=config,
        )

    def _main(self) -> Story:
        """The log that speaks for the run: the last segment that has rows, of ranks the one that is furthest."""
        told = [story for story in self.stories.values() if story.records or story.step is not None]
        if not told:
            return next(iter(self.stories.values()), Story())
        return told[-1] if self._facts else max(told, key=lambda story: story.step or 0)

    def _curves(self, which: str) -> dict[str, Curve]:
        """Of a run folder those of all segments, each up to where the next one began."""
        return dict(getattr(self._main(), which))

    def _total(self, story: Story) -> int | None:
        said = self._config().get("total_steps")
        return story.total_steps or (int(said) if isinstance(said, float) and math.isfinite(said) else None)

    def _config(self) -> dict[str, float | str]:
        return {
            key: value for source in self._sources.values() for key, value in source.parser.config.items()
        }

    def _caution(self, config: Mapping[str, float | str]) -> str | None:
        simulated = next((fact["simulated"] for fact in self._facts if fact.get("simulated")), None)
        if simulated:
            return f"SIMULATED: {simulated}; nothing here was measured on a GPU"
        return "COMPOSED, not printed by a program that trained" if "composed" in config else None

    def _status(self, story: Story) -> tuple[str, str | None]:
        """As a parse would say it; a run folder has ended where each of its segments has."""
        causes = [source.cause for source in self._sources.values() if source.cause]
        if causes:
            return "interrupted" if causes[0].fatal == "interrupted" else "failed", causes[0].text
        total = self._total(story)
        first = 1 if story.first_step == 0 else 0
        reached = total is not None and story.step is not None and story.step >= total - first
        if reached or any(source.completed for source in self._sources.values()):
            return "completed", None
        if self._facts:
            return ("unknown" if self.has_ended else "running"), None
        return ("running" if self._heard is not None else "unknown"), None

    def _eta_s(self, story: Story, step_s: float | None) -> float | None:
        """What the log prints, else the steps that are left times the median of the last ones."""
        printed = story.last.get("eta_min")
        if printed is not None and math.isfinite(printed):
            return printed * 60
        total = self._total(story)
        if total is None or story.step is None or step_s is None:
            return None
        return max(total - story.step, 0) * step_s

    def _elapsed_s(self, story: Story, now: float) -> float | None:
        """Recorded, printed, or from the first to the last stamp."""
        started = [wall for fact in self._facts if (wall := _wall(fact, "started"))]
        if started:
            ended = [_wall(fact, "ended") or now * 1e9 for fact in self._facts]
            return float(max(ended) - min(started)) / 1e9
        printed = story.last.get("total_time_min")
        if printed is not None and math.isfinite(printed):
            return printed * 60
        if story.begun and story.time:
            return (story.time - story.begun).total_seconds()
        return None

    def _cost(
        self, terms: Terms, elapsed_s: float | None, eta_s: float | None, config: Mapping[str, float | str]
    ) -> Cost | None:
        if terms.price is None or elapsed_s is None:
            return None
        seen = {(fact.get("node_rank"), gpu["gpu"]) for fact in self._facts for gpu in fact.get("gpus") or []}
        said = config.get("world_size")
        count = terms.gpus or len(seen) or (int(said) if isinstance(said, float) else 1)
        per_hour = terms.price * count
        at_end = None if eta_s is None else per_hour * (elapsed_s + eta_s) / 3600
        return Cost(per_hour, per_hour * elapsed_s / 3600, at_end, terms.budget)

    def _ranks(self, now: float) -> dict[str, tuple[int | None, float]]:
        """The last step of each rank, and for how many seconds it has been silent."""
        found: dict[str, tuple[int | None, float]] = {}
        for stream, story in self.stories.items():
            for rank, seen in story.ranks.items():
                name = rank or ("" if self._facts else stream)
                found[name] = (None if seen.step is None else int(seen.step), now - seen.at)
        return found

    def _seconds(self, rows: Any, stream: str) -> None:
        node = _node(stream)
        for row in rows:
            readings = self._gpus.setdefault((node, row["gpu"]), _Readings())
            known = {
                name: float(value)
                for name, value in row.items()
                if value is not None and isinstance(value, (int, float)) and name != "ticks"
            }
            again = readings.at == row["time"]
            missed = int((row["time"] - readings.at).total_seconds()) - 1 if readings.at else 0
            readings.last = {**readings.last, **known} if again else known
            readings.at = row["time"]
            for name in STRIPS:
                strip = readings.strips.setdefault(name, deque(maxlen=STRIP_S))
                value = readings.last.get(name, math.nan)
                if again and strip:
                    strip[-1] = value
                else:
                    strip.extend([math.nan] * min(missed, STRIP_S))
                    strip.append(value)


def _gpu(key: tuple[str, str], readings: _Readings) -> Gpu:
    assert readings.at
    strips = {name: list(strip) for name, strip in readings.strips.items() if not np.isnan(list(strip)).all()}
    return Gpu(
        gpu=key[1],
        node=key[0],
        host=readings.host,
        uuid=readings.uuid,
        name=readings.name,
        at=readings.at,
        last=dict(readings.last),
        strips=strips,
        limits=readings.limits,
    )


def _node(stream: str) -> str:
    return stream.split("/")[1] if stream.startswith("nodes/") else ""


def _wall(fact: dict[str, Any], name: str) -> int | None:
    moment = fact.get(name)
    return moment.get("wall_ns") if isinstance(moment, dict) else None
