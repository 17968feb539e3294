"""Rules about what does not come: no step, a rank that is silent or behind, ranks that never showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis.alarms.loss import RunningWindow
from gputel.analysis.alarms.observations import ClockTick, Evaluation, EventSeen, Finding, Moment, Record

INTERVALS = 64
ENDS = ("stop", "exit", "oom", "nccl", "traceback")


@dataclass
class _Beat:
    """When somebody last printed a record, and how long that usually takes."""

    last_s: float | None = None
    step: int | None = None
    gaps: RunningWindow = field(default_factory=lambda: RunningWindow(INTERVALS))

    def beat(self, at_s: float, step: int | None) -> None:
        if self.last_s is not None and at_s > self.last_s:
            self.gaps.add(at_s - self.last_s)
        self.last_s, self.step = at_s, step


@dataclass
class Stalled:
    """No record for many usual intervals. Compiling, loading, an evaluation and a save may take longer."""

    intervals: float
    fewest_s: float
    start_s: float
    pause_s: float
    hears: ClassVar = (Record, Evaluation, EventSeen, ClockTick)
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
                return Finding("", False, f"step {moment.step} came", moment.step)
        elif isinstance(moment, (Evaluation, EventSeen)):
            self._pausing = True
            self._over = self._over or (isinstance(moment, EventSeen) and moment.kind in ENDS)
        elif isinstance(moment, ClockTick) and not moment.is_awaited:
            return Finding("", False, "nothing is waited for any more", self._beat.step)
        elif isinstance(moment, ClockTick) and not self._over:
            self._began = self._began or moment.started_s or moment.at_s
            return self._judge(moment.at_s, moment.usual_s)
        return None

    def _judge(self, now: float, said_s: float | None) -> Finding:
        """By the gaps that were seen, and where these are too few by what the log says of its pace."""
        silent = now - (self._beat.last_s or self._began or now)
        said = (
            f"no step for {silent:,.0f} s"
            if self._beat.last_s
            else f"no step yet, {silent:,.0f} s after the start"
        )
        usual = said_s if len(self._beat.gaps) < 3 else self._beat.gaps.median()
        if usual is None or not self._beat.last_s:
            return Finding("", silent > self.start_s, said, self._beat.step)
        allowed = max(self.intervals * usual, self.fewest_s, self.pause_s if self._pausing else 0)
        return Finding("", silent > allowed, f"{said}; usual are {usual:.3g} s", self._beat.step)


@dataclass
class RankBehind:
    """A rank that printed before is silent, or steps behind, while the others go on."""

    intervals: float
    fewest_s: float
    hears: ClassVar = (Record, ClockTick)
    _ranks: dict[str, _Beat] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record) and moment.rank is not None and moment.at_s is not None:
            self._ranks.setdefault(moment.rank, _Beat()).beat(moment.at_s, moment.step)
        elif isinstance(moment, ClockTick) and len(self._ranks) > 1:
            yield from self._judge()

    def _judge(self) -> Iterator[Finding]:
        """Against the one that printed last: if all are silent, the run stalls, and no rank is to blame."""
        ahead = max(self._ranks.values(), key=lambda beat: beat.last_s or 0)
        for rank, beat in self._ranks.items():
            if len(ahead.gaps) < 3 or beat.last_s is None or ahead.last_s is None:
                continue
            behind = ahead.last_s - beat.last_s
            wrong = behind > max(self.intervals * ahead.gaps.median(), self.fewest_s)
            text = f"rank {rank} is at step {beat.step}, {behind:,.0f} s behind another at step {ahead.step}"
            yield Finding(rank, wrong, text, ahead.step)


@dataclass
class RanksMissing:
    """Several ranks print, and after a while some of the world have not."""

    after_s: float
    hears: ClassVar = (Record, ClockTick)
    _ranks: set[str] = field(default_factory=set)
    _first_s: float | None = None

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record) and moment.rank is not None:
            self._ranks.add(moment.rank)
            self._first_s = self._first_s or moment.at_s
        elif isinstance(moment, ClockTick) and moment.world_size and len(self._ranks) > 1 and self._first_s:
            seen = len(self._ranks)
            late = moment.at_s - self._first_s > self.after_s
            yield Finding(
                "", late and seen < moment.world_size, f"{seen} of {moment.world_size} ranks were seen"
            )
