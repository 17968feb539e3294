"""The state of a followed run, from its logs, GPUs and recorded events, in memory that does not grow with the
run.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import document
from gputel.analysis.live.gpus import GpuHistory, node_of
from gputel.analysis.live.log_state import MOST_EVENTS, LogState, upcoming
from gputel.analysis.live.update import segment_of
from gputel.analysis.live.view import MachineView, RunCost, StepPartsView, Terms, View
from gputel.analysis.logs import outcome
from gputel.analysis.runs.batch import StepTokens, batch_figures, step_tokens
from gputel.analysis.runs.cross_checks import ETA_FACTOR, ETA_TELLS_S
from gputel.analysis.runs.facts import run_facts
from gputel.analysis.runs.output import CTRL_C, ending
from gputel.telemetry import run_folder
from gputel.telemetry.file_names import natural_order

if TYPE_CHECKING:
    from gputel.analysis.live.update import ReadSoFar, Update
    from gputel.analysis.logs.outcome import LogEvent
    from gputel.analysis.logs.patterns import Field

RATE = "tok_per_sec"
PAST_S = 15 * 3600  # a run whose last timestamp is older than this, in any time zone, is over


@dataclass(frozen=True)
class _Printed:
    """The configuration and the last values of a log."""

    config: dict[str, float | str]
    records: pl.DataFrame
    digits: dict[str, float] = field(default_factory=dict)
    sources: Mapping[str, Field] = field(default_factory=dict)


class RunState:
    """`take` adds an update; `view` returns the current state as plain values."""

    def __init__(self, name: str, source: str, now: Callable[[], float] = time.time) -> None:
        self.name, self.source = name, source
        self.logs: dict[str, LogState] = {}
        self._given: dict[str, LogState] = {}  # by segment: the log of its rows from `gputel.log`
        self.changed = 0  # number of changes, so that a view knows whether to redraw
        self.has_grown = False  # since following began
        self.is_written: bool | None = None  # whether a process has it open; None if unknown
        self._now = now
        self._sources: dict[str, ReadSoFar] = {}
        self._gpus = GpuHistory()
        self._machines: dict[str, MachineView] = {}
        self._step_parts: dict[str, tuple[StepPartsView, ...]] = {}  # by node
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._facts: list[dict[str, Any]] = []
        self._tokens = StepTokens(None, "")
        self._judged = 0  # number of records by which they were judged
        self._last_record: float | None = None  # its time, in seconds since 1970

    def take(self, update: Update) -> None:
        self.changed += 1
        increment = update.increment
        if increment is not None:
            segment = segment_of(update.stream)
            logs, name = (self.logs, update.stream) if segment is None else (self._given, segment)
            if increment.afresh or name not in logs:
                logs[name] = LogState()
            if update.log is not None:
                self._sources[update.stream] = update.log
            log = logs[name]
            was_placed = log.begun is not None
            log.take(increment, self._now(), live=update.live)
            if update.log is not None and not was_placed:
                log.starts_at(update.log.began)
            self.has_grown = self.has_grown or update.live
            if increment.records.height or increment.open_records.height:
                self._last_record = self._now() if update.live else update.written
        if update.gpu is not None:
            self._gpus.take(update.gpu, update.stream)
        if update.machine is not None:
            self._machines[update.machine.node] = update.machine
        if update.step_parts:
            self._step_parts[update.step_parts[0].node] = update.step_parts
        self._events.extend(update.recorder_events)

    def set_written(self, is_written: bool | None) -> None:
        """Sets whether a process has the log open for writing; None if that is unknown."""
        if is_written != self.is_written:
            self.is_written = is_written
            self.changed += 1

    def describe(self, facts: list[dict[str, Any]]) -> None:
        """Takes the run.json of each segment."""
        if facts == self._facts:
            return
        self._facts = facts
        self.changed += 1
        for fact in facts:
            self._gpus.describe(fact)

    @property
    def is_recorded(self) -> bool:
        """Whether a recorder timestamps the lines and writes how the run ended."""
        return bool(self._facts)

    @property
    def has_ended(self) -> bool:
        """Whether every recorder noted its end, or no process has a log open: a recorder may have been killed."""
        return self.is_written is False or (
            bool(self._facts) and all(fact.get("ended") for fact in self._facts)
        )

    @property
    def looks_inside(self) -> bool:
        """Whether the recording asks the command for stacks when it hangs."""
        inside = self._facts[-1].get("inside") if self._facts else None
        return isinstance(inside, dict) and inside.get("level") not in (None, "off")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last segment, once all have ended."""
        code: int | None = self._facts[-1].get("exit_code") if self._facts and self.has_ended else None
        return code

    def exit_facts(self, code: int) -> dict[str, object]:
        """The code, and whether its user asked for this end: by Ctrl-C, or by a limit that stopped the command."""
        stopped = code == CTRL_C or any(fact.get("stopped") for fact in self._facts)
        return {"code": code, "stopped": stopped}

    def memory_mib(self, gpu: str, stream: str) -> float | None:
        """Total memory of a GPU; None if run.json does not say."""
        return self._gpus.memory_mib(gpu, stream)

    def view(self, terms: Terms | None = None) -> View:
        """The run at this moment; a price in `terms` adds its cost."""
        now = self._now()
        log = self._main()
        step_s = log.pace.seconds_a_step()
        eta_s = self._eta_s(log)
        elapsed_s = self._elapsed_s(log, now)
        status, cause = self._status(log)
        ended = status not in ("running", "unknown") or self._is_past(log, now)
        if ended:
            eta_s = None
        config = self._config()
        tokens = self._step_tokens(log, config)
        return View(
            name=self.name,
            source=self.source,
            status=status,
            cause=cause,
            caution=self._caution(config, tokens),
            phase=log.phase,
            attempt=log.attempt,
            step=log.step,
            total_steps=self._total(log),
            epoch=log.epoch,
            last=_scaled(log.last, tokens.rate_scale),
            curves={
                name: curve.points(tokens.rate_scale if name == RATE else 1.0)
                for name, curve in log.curves.items()
            },
            evals={name: curve.points() for name, curve in log.evals.items()},
            moments=log.pace.moments.points(),
            first_at=log.pace.first_at,
            tokens_per_step=tokens.tokens,
            seconds_a_step=step_s,
            seconds_a_record=log.pace.seconds_a_record(),
            elapsed_s=elapsed_s,
            eta_s=eta_s,
            silent_s=now - self._last_record if self._last_record is not None else None,
            upcoming=[]
            if ended
            else upcoming(log, self._total(log), step_s, datetime.fromtimestamp(now, timezone.utc), eta_s),
            cost=self._cost(terms or Terms(), elapsed_s, eta_s),
            gpus=self._gpus.view(),
            machines=[self._machines[node] for node in sorted(self._machines, key=natural_order)],
            step_parts=[
                parts
                for node in sorted(self._step_parts, key=natural_order)
                for parts in self._step_parts[node]
            ],
            ranks=self._ranks(now),
            steps_of_nodes=self._steps_of_nodes(),
            events=[*log.events, *log.open_events, *self._events],
            records=max(sum(each.records for each in logs.values()) for logs in (self.logs, self._given)),
            config=config,
        )

    def _main(self) -> LogState:
        """The log shown for the run: the last segment with rows, of the first node with any, or the rank ahead."""
        logs = {
            name: log.beside(self._given[name]) if name in self._given else log
            for name, log in self.logs.items()
        }
        with_rows = {stream: log for stream, log in logs.items() if log.records or log.step is not None}
        if not with_rows:
            return next(iter(logs.values()), LogState())
        if not self._facts:
            return max(with_rows.values(), key=lambda log: log.step or 0)
        first = min(map(node_of, with_rows), key=natural_order)
        return [log for stream, log in with_rows.items() if node_of(stream) == first][-1]

    def _total(self, log: LogState) -> int | None:
        total, printed = self._config().get("total_steps"), log.total_steps
        if printed and (log.step is None or log.step <= printed):  # else it is the length of an epoch
            return printed
        return int(total) if isinstance(total, float) and math.isfinite(total) else None

    def _config(self) -> dict[str, float | str]:
        return {key: value for source in self._sources.values() for key, value in source.config.items()}

    def _caution(self, config: Mapping[str, float | str], tokens: StepTokens) -> str | None:
        simulated = next((fact["simulated"] for fact in self._facts if fact.get("simulated")), None)
        caution = document.caution(simulated, composed="composed" in config)
        doubts = [doubt.text for doubt in tokens.doubts]
        return "; ".join(part for part in (caution, *doubts) if part) or None

    def _step_tokens(self, log: LogState, config: dict[str, float | str]) -> StepTokens:
        """Tokens of a step by the last values, judged anew whenever twice as many records were read."""
        if log.records >= 2 * self._judged or log.records < self._judged:
            self._judged = max(log.records, 1)
            sources = {
                name: what for source in self._sources.values() for name, what in source.sources.items()
            }
            figures = batch_figures(_Printed(config, pl.DataFrame([log.last]), sources=sources))
            self._tokens = step_tokens(figures, self._gpu_count(), log.pace.seconds_a_step)
        return self._tokens

    def _status(self, log: LogState) -> tuple[str, str | None]:
        """Status and cause, as a report has them, but `ended` if the log is over and nothing says how."""
        sources = self._last_sources()
        fatal: LogEvent | None = next((source.cause for source in sources if source.cause), None)
        total = self._total(log)
        reached = total is not None and log.step is not None and log.step >= total - log.counts_from_zero
        completed = reached or any(source.completed for source in sources)
        if not fatal and not completed:
            fatal = next((source.caught for source in sources if source.caught), None)
        status, fatal = ending(outcome.status(fatal, completed, live=False), fatal, self._facts)
        if status in ("unknown", "running") and self.has_ended:
            return "ended", None
        if status == "unknown" and (self._facts or self.is_written or self.has_grown):
            status = "running"
        return status, fatal.text if fatal else None

    def _last_sources(self) -> Collection[ReadSoFar]:
        """The logs that say how the run ended: of a recording, those of the last segment of each node."""
        if not self._facts:
            return self._sources.values()
        return {
            (node_of(stream), segment_of(stream) is None): source for stream, source in self._sources.items()
        }.values()

    def _eta_s(self, log: LogState) -> float | None:
        """The ETA that the log prints, unless a report would doubt it; else the time of the remaining steps."""
        total, minutes = self._total(log), log.last.get("eta_min")
        ahead_s = None
        if total is not None and log.step is not None:
            ahead_s = log.pace.seconds_ahead(max(total - log.step - log.counts_from_zero, 0), log.step)
        if minutes is None or not math.isfinite(minutes):
            return ahead_s
        printed_s = 60 * minutes
        if ahead_s is None or max(printed_s, ahead_s) < ETA_TELLS_S:
            return printed_s
        return printed_s if ahead_s / ETA_FACTOR <= printed_s <= ETA_FACTOR * ahead_s else ahead_s

    def _is_past(self, log: LogState, now: float) -> bool:
        """Whether a log's own timestamps say that it is an old one, which a copy or a pipe makes look new."""
        return not self._facts and log.time is not None and now - log.time.timestamp() > PAST_S

    def _elapsed_s(self, log: LogState, now: float) -> float | None:
        """Elapsed time as recorded, else from the first to the last timestamp, else as printed."""
        started = [wall for fact in self._facts if (wall := run_folder.wall_ns(fact, "started"))]
        if started:
            last = self._last_record if self.has_ended and self._last_record else now
            ended = [run_folder.wall_ns(fact, "ended") or last * 1e9 for fact in self._facts]
            return float(max(ended) - min(started)) / 1e9
        if log.begun and log.time and log.time > log.begun:
            return (log.time - log.begun).total_seconds()
        printed = log.last.get("total_time_min")
        return printed * 60 if printed is not None and math.isfinite(printed) else None

    def _cost(self, terms: Terms, elapsed_s: float | None, eta_s: float | None) -> RunCost | None:
        if terms.price is None or elapsed_s is None:
            return None
        count = terms.gpus or self._gpu_count()
        per_hour = terms.price * (count or 1)
        at_end = None if eta_s is None else per_hour * (elapsed_s + eta_s) / 3600
        return RunCost(per_hour, per_hour * elapsed_s / 3600, at_end, terms.budget, count)

    def _gpu_count(self) -> int | None:
        """The number of GPUs as recorded, printed or implied by a printed MFU, else of the ranks that print."""
        count = run_facts(_Printed(self._config(), pl.DataFrame([self._main().last])), self._facts).gpus
        ranks = len({(stream, rank) for stream, each in self.logs.items() for rank in each.ranks})
        return int(count.value) if count else ranks if ranks > 1 else None

    def _ranks(self, now: float) -> dict[str, tuple[int | None, float]]:
        """The last step of each rank, and the seconds since its last record."""
        ranks: dict[str, tuple[int | None, float]] = {}
        for stream, log in self.logs.items():
            for rank, seen in log.ranks.items():
                name = rank or ("" if self._facts else stream)
                ranks[name] = (None if seen.step is None else int(seen.step), now - seen.at)
        return ranks

    def _steps_of_nodes(self) -> dict[str, int]:
        """The last step that each node has printed, in its last segment."""
        steps = ((node_of(stream), log.step) for stream, log in self.logs.items())
        return {node: int(step) for node, step in steps if node and step is not None}


def _scaled(last: Mapping[str, float], scale: float) -> dict[str, float]:
    """Returns the last values, throughput in the unit that fits tokens and step times."""
    return {name: value * scale if name == RATE else value for name, value in last.items()}
