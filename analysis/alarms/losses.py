"""Rules about a loss as it comes: not finite, a spike, a divergence, a rise, a plateau."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gputel.analysis.alarms.finding import Finding
from gputel.analysis.alarms.moments import Moment, Record
from gputel.analysis.alarms.running import Window


class NotFinite:
    """NaN or infinite in a record. A format's placeholder for "not measured" is null and does not come here."""

    def __init__(self, metrics: list[str]) -> None:
        self._metrics = metrics

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record):
            for name in self._metrics:
                if name in moment.values:
                    value = moment.values[name]
                    yield Finding(name, not math.isfinite(value), f"{name} is {value}", moment.step)


class _OfLoss:
    """Feeds finite values of one metric, and starts anew where a phase or an attempt begins."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._place: tuple[str, int] | None = None

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, Record) or not math.isfinite(moment.values.get(self._metric, math.nan)):
            return
        place = moment.phase, moment.attempt
        if place != self._place:
            self._place = place
            self.begin()
        finding = self.take(moment.values[self._metric], moment.step)
        if finding is not None:
            yield finding

    def begin(self) -> None:
        raise NotImplementedError

    def take(self, value: float, step: int | None) -> Finding | None:
        raise NotImplementedError


class Spike(_OfLoss):
    """Far above the median of the last records, both in their own deviations and as a share of it."""

    def __init__(self, metric: str, records: int, fewest: int, deviations: float, share: float) -> None:
        super().__init__(metric)
        self._fewest, self._deviations, self._share = fewest, deviations, share
        self._window = Window(records)

    def begin(self) -> None:
        self._window.clear()

    def take(self, value: float, step: int | None) -> Finding | None:
        finding = self._judge(value, step) if len(self._window) >= self._fewest else None
        self._window.add(value)
        return finding

    def _judge(self, value: float, step: int | None) -> Finding:
        usual = self._window.median()
        above = value - usual
        wrong = above > self._share * abs(usual) and above > self._deviations * self._window.deviation()
        return Finding(self._metric, wrong, f"{self._metric} {value:.4g}, usual {usual:.4g}", step)


class Diverging(_OfLoss):
    """The median of the last records is far above the lowest that it has been, and not by their scatter."""

    def __init__(self, metric: str, records: int, share: float, deviations: float) -> None:
        super().__init__(metric)
        self._share, self._deviations = share, deviations
        self._window = Window(records)
        self._lowest = math.inf
        self._at: int | None = None

    def begin(self) -> None:
        self._window.clear()
        self._lowest, self._at = math.inf, None

    def take(self, value: float, step: int | None) -> Finding | None:
        self._window.add(value)
        if not self._window.full:
            return None
        now = self._window.median()
        if now < self._lowest:
            self._lowest, self._at = now, step
        above = now - self._lowest
        wrong = above > self._share * abs(self._lowest) and above > self._deviations * self._window.error()
        text = f"{self._metric} is {now:.4g}, and was {self._lowest:.4g} at step {self._at}"
        return Finding(self._metric, wrong, text, step)


class Rising(_OfLoss):
    """The last records lie above those before them by more than their scatter explains."""

    def __init__(self, metric: str, records: int, share: float, deviations: float) -> None:
        super().__init__(metric)
        self._share, self._deviations = share, deviations
        self._late, self._early = Window(records), Window(records)

    def begin(self) -> None:
        self._late.clear()
        self._early.clear()

    def take(self, value: float, step: int | None) -> Finding | None:
        gone = self._late.add(value)
        if gone is not None:
            self._early.add(gone)
        if not self._early.full:
            return None
        before, now = self._early.median(), self._late.median()
        if now - before <= self._share * abs(before):
            return Finding(self._metric, False, f"{self._metric} no longer rises", step)
        wrong = now - before > self._deviations * max(self._early.error(), self._late.error())
        return Finding(self._metric, wrong, f"{self._metric} rose from {before:.4g} to {now:.4g}", step)


class Plateau(_OfLoss):
    """Nothing was gained over the last third of the run. Of a long run the blocks that are compared get longer."""

    BLOCKS = 96

    def __init__(self, metric: str, fewest: int, share: float) -> None:
        super().__init__(metric)
        self._fewest, self._share = fewest, share
        self.begin()

    def begin(self) -> None:
        self._blocks: list[float] = []
        self._held: list[float] = []
        self._length, self._records = max(1, self._fewest // self.BLOCKS), 0

    def take(self, value: float, step: int | None) -> Finding | None:
        self._records += 1
        self._held.append(value)
        if len(self._held) < self._length:
            return None
        self._blocks.append(sorted(self._held)[len(self._held) // 2])
        self._held = []
        if len(self._blocks) == 2 * self.BLOCKS:
            self._blocks = [(a + b) / 2 for a, b in zip(self._blocks[::2], self._blocks[1::2], strict=True)]
            self._length *= 2
        return self._judge(step) if self._records >= self._fewest else None

    def _judge(self, step: int | None) -> Finding:
        third = len(self._blocks) // 3
        before, now = min(self._blocks[:-third]), min(self._blocks[-third:])
        wrong = before - now < self._share * abs(before)
        text = f"{self._metric} was {before:.4g} before the last third of the run, and is {now:.4g} at best since"
        return Finding(self._metric, wrong, text, step)
