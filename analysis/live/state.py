"""Everything that is shown of a run that is followed, put together from its logs, GPUs and recorded events.

Updates go in as they come; `view` gives what stands at a moment. Memory is bounded however long the run is.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gputel.analysis import document
from gputel.analysis.live.gpus import GpuHistory
from gputel.analysis.live.log_state import LogState, coming
from gputel.analysis.live.series import Series
from gputel.analysis.live.view import RunCost, Terms, View
from gputel.telemetry import run_folder

if TYPE_CHECKING:
    from gputel.analysis.live.update import Update

MOST_HAPPENED = 500


class RunState:
    """`take` what is new; `view` what stands."""

    def __init__(self, name: str, source: str, now: Callable[[], float] = time.time) -> None:
        self.name, self.source = name, source
        self.stories: dict[str, LogState] = {}
        self.changed = 0  # counts what was taken, so that a view knows whether to draw
        self.has_grown = False  # since we came
        self.is_written: bool | None = None  # by somebody still; None where nobody knows
        self._now = now
        self._sources: dict[str, Any] = {}
        self._cards = GpuHistory()
        self._happened: deque[dict[str, Any]] = deque(maxlen=MOST_HAPPENED)
        self._facts: list[dict[str, Any]] = []
        self._heard: float | None = None  # when a row came last

    def take(self, update: Update) -> None:
        self.changed += 1
        increment = update.increment
        if increment is not None:
            if increment.afresh or update.stream not in self.stories:
                self.stories[update.stream] = LogState()
            self._sources[update.stream] = update.log
            self.stories[update.stream].take(increment, self._now(), live=update.live)
            self.has_grown = self.has_grown or update.live
            if increment.records.height or increment.open_records.height:
                self._heard = self._now() if update.live else update.written
        if update.gpu is not None:
            self._cards.take(update.gpu, update.stream)
        self._happened.extend(update.happened)

    def tell_written(self, is_written: bool | None) -> None:
        if is_written != self.is_written:
            self.is_written = is_written
            self.changed += 1

    def describe(self, facts: list[dict[str, Any]]) -> None:
        """What the run.json of each segment says."""
        if facts == self._facts:
            return
        self._facts = facts
        self.changed += 1
        for fact in facts:
            self._cards.describe(fact)

    @property
    def is_recorded(self) -> bool:
        """Whether a recorder stamps the lines, and tells how it all ended."""
        return bool(self._facts)

    @property
    def has_ended(self) -> bool:
        """Whether nothing will come any more: all recorders have said so, or nobody writes (they may be killed)."""
        return self.is_written is False or (
            bool(self._facts) and all(fact.get("ended") for fact in self._facts)
        )

    @property
    def exit_code(self) -> int | None:
        """The last segment's, once all have ended."""
        code: int | None = self._facts[-1].get("exit_code") if self._facts and self.has_ended else None
        return code

    def memory_mib(self, gpu: str, stream: str) -> float | None:
        return self._cards.memory_mib(gpu, stream)

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
            seconds_a_record=story.seconds_a_record(),
            elapsed_s=elapsed_s,
            eta_s=eta_s,
            silent_s=now - self._heard if self._heard is not None else None,
            coming=[]
            if ended
            else coming(story, self._total(story), step_s, datetime.fromtimestamp(now, timezone.utc), eta_s),
            cost=self._cost(terms or Terms(), elapsed_s, eta_s, config),
            gpus=self._cards.view(),
            ranks=self._ranks(now),
            events=[*story.events, *story.open_events, *self._happened],
            records=sum(one.records for one in self.stories.values()),
            config=config,
        )

    def _main(self) -> LogState:
        """The log that speaks for the run: the last segment that has rows, of ranks the one that is furthest."""
        told = [story for story in self.stories.values() if story.records or story.step is not None]
        if not told:
            return next(iter(self.stories.values()), LogState())
        return told[-1] if self._facts else max(told, key=lambda story: story.step or 0)

    def _curves(self, which: str) -> dict[str, Series]:
        """Of a run folder those of all segments, each up to where the next one began."""
        return dict(getattr(self._main(), which))

    def _total(self, story: LogState) -> int | None:
        said = self._config().get("total_steps")
        return story.total_steps or (int(said) if isinstance(said, float) and math.isfinite(said) else None)

    def _config(self) -> dict[str, float | str]:
        return {
            key: value for source in self._sources.values() for key, value in source.parser.config.items()
        }

    def _caution(self, config: Mapping[str, float | str]) -> str | None:
        simulated = next((fact["simulated"] for fact in self._facts if fact.get("simulated")), None)
        return document.caution(simulated, composed="composed" in config)

    def _status(self, story: LogState) -> tuple[str, str | None]:
        """As a parse would say it; `ended` where the log does not say how, and nothing will come any more."""
        causes = [source.cause for source in self._sources.values() if source.cause]
        if causes:
            return "interrupted" if causes[0].fatal == "interrupted" else "failed", causes[0].text
        total = self._total(story)
        first = 1 if story.first_step == 0 else 0
        reached = total is not None and story.step is not None and story.step >= total - first
        if reached or any(source.completed for source in self._sources.values()):
            return "completed", None
        if self.has_ended:
            return "ended", None
        return ("running" if self._facts or self.is_written or self.has_grown else "unknown"), None

    def _eta_s(self, story: LogState, step_s: float | None) -> float | None:
        """What the log prints, else the steps that are left times the median of the last ones."""
        printed = story.last.get("eta_min")
        if printed is not None and math.isfinite(printed):
            return printed * 60
        total = self._total(story)
        if total is None or story.step is None or step_s is None:
            return None
        return max(total - story.step, 0) * step_s

    def _elapsed_s(self, story: LogState, now: float) -> float | None:
        """Recorded, printed, or from the first to the last stamp."""
        started = [wall for fact in self._facts if (wall := run_folder.wall_ns(fact, "started"))]
        if started:
            last = self._heard if self.has_ended and self._heard else now
            ended = [run_folder.wall_ns(fact, "ended") or last * 1e9 for fact in self._facts]
            return float(max(ended) - min(started)) / 1e9
        printed = story.last.get("total_time_min")
        if printed is not None and math.isfinite(printed):
            return printed * 60
        if story.begun and story.time:
            return (story.time - story.begun).total_seconds()
        return None

    def _cost(
        self, terms: Terms, elapsed_s: float | None, eta_s: float | None, config: Mapping[str, float | str]
    ) -> RunCost | None:
        if terms.price is None or elapsed_s is None:
            return None
        seen = {(fact.get("node_rank"), gpu["gpu"]) for fact in self._facts for gpu in fact.get("gpus") or []}
        said = config.get("world_size")
        count = terms.gpus or len(seen) or (int(said) if isinstance(said, float) else 1)
        per_hour = terms.price * count
        at_end = None if eta_s is None else per_hour * (elapsed_s + eta_s) / 3600
        return RunCost(per_hour, per_hour * elapsed_s / 3600, at_end, terms.budget)

    def _ranks(self, now: float) -> dict[str, tuple[int | None, float]]:
        """The last step of each rank, and for how many seconds it has been silent."""
        found: dict[str, tuple[int | None, float]] = {}
        for stream, story in self.stories.items():
            for rank, seen in story.ranks.items():
                name = rank or ("" if self._facts else stream)
                found[name] = (None if seen.step is None else int(seen.step), now - seen.at)
        return found
