"""Rules about how fast a run is: below its own baseline, or below a floor that somebody set."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gputel.analysis import columns
from gputel.analysis.alarms.finding import Finding
from gputel.analysis.alarms.moments import Moment, Record
from gputel.analysis.alarms.running import Window


class Slower:
    """The median of the last records against that of the first ones after the warm-up; anew in each phase.

    It is over once half of what was lost has come back: a pace that hovers at the limit is told once.
    """

    hears = (Record,)

    def __init__(self, metrics: list[str], warmup: int, baseline: int, records: int, share: float) -> None:
        hint = "name rates or times of steps in `metrics`"
        self._metrics, self._share = metrics, share
        self._signs = {n: 1 if columns.better_or_refuse(n, hint=hint) == "higher" else -1 for n in metrics}
        self._sizes = warmup, baseline, records
        self._paces: dict[tuple[str, str, int], _Pace] = {}
        self._wrong: set[str] = set()

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        for name in self._metrics:
            value = moment.values.get(name)
            if value is None or not math.isfinite(value):
                continue
            usual, now, wrong = self._judge(self._pace(name, moment), value, self._signs[name])
            if usual is None or now is None:
                continue
            if wrong or name in self._wrong:
                if wrong:
                    self._wrong.add(name)
                else:
                    self._wrong.discard(name)
                change, way = now / usual - 1, "below" if self._signs[name] > 0 else "above"
                text = f"{name} is {now:,.5g}, {-self._signs[name] * change:.0%} {way} this run's own {usual:,.5g}"
                yield Finding(name, wrong, text, moment.step)
            return  # MFU follows throughput: one of them is enough

    def _pace(self, name: str, moment: Record) -> _Pace:
        key = name, moment.phase, moment.attempt
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = _Pace(*self._sizes)
        return pace

    def _judge(self, pace: _Pace, value: float, sign: int) -> tuple[float | None, float | None, bool]:
        pace.take(value)
        usual, now = pace.usual, pace.now
        if usual is not None and now is not None:
            pace.slow = sign * (1 - now / usual) > self._share / (2 if pace.slow else 1)
        return usual, now, pace.slow


class _Pace:
    def __init__(self, warmup: int, baseline: int, records: int) -> None:
        self._left = warmup
        self._first, self._last = Window(baseline), Window(records)
        self.usual: float | None = None
        self.slow = False

    def take(self, value: float) -> None:
        if self._left:
            self._left -= 1
        elif self.usual is None:
            self._first.add(value)
            self.usual = self._first.median() if self._first.full else None
        else:
            self._last.add(value)

    @property
    def now(self) -> float | None:
        return self._last.median() if self._last.full else None


class Below:
    """The median of the last records of a metric under a floor."""

    hears = (Record,)

    def __init__(self, metric: str, floor: float, records: int) -> None:
        self._metric, self._floor = metric, floor
        self._window = Window(records)

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        if not math.isfinite(moment.values.get(self._metric, math.nan)):
            return
        self._window.add(moment.values[self._metric])
        if self._window.full:
            now = self._window.median()
            text = f"{self._metric} is {now:.4g}, under {self._floor:g}"
            yield Finding(self._metric, now < self._floor, text, moment.step)
