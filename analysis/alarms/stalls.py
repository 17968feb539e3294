"""Rules about silence: no step, a rank that is silent or behind, ranks that never appeared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis.alarms.loss import RunningWindow
from gputel.analysis.alarms.observations import ClockTick, Evaluation, EventSeen, Finding, Moment, Record

INTERVALS = 64
INCIDENT = "incident"
ENDS = ("stop", "exit", "oom", "nccl", "traceback")


@dataclass
class _Beat:
    """Time and step of the last record of a run or rank, and the usual time between records."""

    last_s: float | None = None
    step: int | None = None
    gaps: RunningWindow = field(default_factory=lambda: RunningWindow(INTERVALS))

    def beat(self, at_s: float, step: int | None) -> None:
        if self.last_s is not None and at_s > self.last_s:
            self.gaps.add(at_s - self.last_s)
        self.last_s, self.step = at_s, step


@dataclass
class Stalled:
    """No record for many usual intervals. Startup, evaluations and checkpoints are allowed more time."""

    intervals: float
    fewest_s: float
    start_s: float
    pause_s: float
    observes: ClassVar = (Record, Evaluation, EventSeen, ClockTick)
    _beat: _Beat = field(default_factory=_Beat)
    _pausing: bool = False
    _over: bool = False
    _began: float | None = None
    _wrong: bool = False

    def see(self, moment: Moment) -> Iterator[Finding]:
        finding = self._finding(moment)
        if finding and (finding.wrong or self._wrong):
            self._wrong = finding.wrong
            yield finding

    def _finding(self, moment: Moment) -> Finding | None:
        if isinstance(moment, Record) and moment.at_s is not None:
            self._beat.beat(moment.at_s, moment.step)
            self._pausing = self._over = False
            if self._wrong:
                return Finding("", False, f"step {moment.step} was printed", moment.step)
        elif isinstance(moment, (Evaluation, EventSeen)) and not _is_incident(moment):
            self._pausing = True
            self._over = self._over or (isinstance(moment, EventSeen) and moment.kind in ENDS)
        elif isinstance(moment, ClockTick) and not moment.is_awaited:
            return Finding("", False, "the run is over", self._beat.step)
        elif isinstance(moment, ClockTick) and not self._over:
            self._began = self._began or moment.started_s or moment.at_s
            finding = self._judge(moment.at_s, moment.usual_s)
            return finding._replace(text="; ".join(filter(None, (finding.text, moment.hint))))
        return None

    def _judge(self, now: float, stated_s: float | None) -> Finding:
        """Compares the silence with past gaps, or with the time per record that the log states if they are few."""
        silent = now - (self._beat.last_s or self._began or now)
        text = (
            f"no step for {silent:,.0f} s"
            if self._beat.last_s
            else f"no step yet, {silent:,.0f} s after the start"
        )
        usual = stated_s if len(self._beat.gaps) < 3 else self._beat.gaps.median()
        if usual is None or not self._beat.last_s:
            return Finding("", silent > self.start_s, text, self._beat.step)
        allowed = max(self.intervals * usual, self.fewest_s, self.pause_s if self._pausing else 0)
        return Finding("", silent > allowed, f"{text}; usually {usual:.3g} s", self._beat.step)


def _is_incident(moment: Moment) -> bool:
    """An incident says that nothing moves, and so allows no pause."""
    return isinstance(moment, EventSeen) and moment.kind == INCIDENT


@dataclass
class RankBehind:
    """A rank is silent or steps behind while the others go on."""

    intervals: float
    fewest_s: float
    observes: ClassVar = (Record, ClockTick)
    _ranks: dict[str, _Beat] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record) and moment.rank is not None and moment.at_s is not None:
            self._ranks.setdefault(moment.rank, _Beat()).beat(moment.at_s, moment.step)
        elif isinstance(moment, ClockTick) and len(self._ranks) > 1:
            yield from self._judge()

    def _judge(self) -> Iterator[Finding]:
        """Compares each rank with the one that printed last; if all are silent, only `Stalled` fires."""
        ahead = max(self._ranks.values(), key=lambda beat: beat.last_s or 0)
        for rank, beat in self._ranks.items():
            if len(ahead.gaps) < 3 or beat.last_s is None or ahead.last_s is None:
                continue
            behind = ahead.last_s - beat.last_s
            wrong = behind > max(self.intervals * ahead.gaps.median(), self.fewest_s)
            text = f"rank {rank} is at step {beat.step}, {behind:,.0f} s behind a rank at step {ahead.step}"
            yield Finding(rank, wrong, text, ahead.step)


@dataclass
class RanksMissing:
    """Some ranks of the world have not printed a record after a while, while others have."""

    after_s: float
    observes: ClassVar = (Record, ClockTick)
    _ranks: set[str] = field(default_factory=set)
    _first_s: float | None = None

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record) and moment.rank is not None:
            self._ranks.add(moment.rank)
            self._first_s = self._first_s or moment.at_s
        elif isinstance(moment, ClockTick) and moment.world_size and len(self._ranks) > 1 and self._first_s:
            seen = len(self._ranks)
            late = moment.at_s - self._first_s > self.after_s
            text = f"{seen} of {moment.world_size} ranks have printed a record"
            yield Finding("", late and seen < moment.world_size, text)
