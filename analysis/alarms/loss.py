"""Rules about the loss: NaN or inf, spike, divergence, rise, plateau, overfitting.

They use the median and spread of the last values, kept sorted, so that each record costs microseconds.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis import columns
from gputel.analysis.alarms.observations import Evaluation, EventSeen, Finding, Moment, Record


class NotFinite:
    """A metric is NaN or inf. A format's placeholder for "not measured" is null and is not judged.

    All metrics are one alarm, which is over once each was finite `recovery` times in a row: mixed precision skips a
    step now and then, and its infinite gradient norm comes and goes.
    """

    observes = (Record,)

    def __init__(self, metrics: list[str], recovery: int) -> None:
        self._metrics, self._recovery = metrics, recovery
        self._finite: dict[str, deque[int | None]] = {}  # by metric that was wrong: finite steps since then

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        values = {name: moment.values[name] for name in self._metrics if name in moment.values}
        wrong = {name: value for name, value in values.items() if not math.isfinite(value)}
        for name in values:
            if name in wrong:
                self._finite[name] = deque(maxlen=self._recovery)
            elif name in self._finite:
                self._finite[name].append(moment.step)
        if wrong:
            text = ", ".join(f"{name} is {_spelled(value)}" for name, value in wrong.items())
            yield Finding("", True, text, moment.step)
        elif self._finite and all(len(steps) == self._recovery for steps in self._finite.values()):
            since = max((steps[0] for steps in self._finite.values() if steps[0] is not None), default=None)
            self._finite = {}
            text = ", ".join(f"{name} is {value:.4g}" for name, value in values.items())
            yield Finding("", False, text, since)


class _LossRule:
    """Feeds finite values of one metric, and resets when a phase or an attempt begins.

    `take` returns whether something is wrong, or None if it is too early to say; `describe` puts it into words.
    """

    observes = (Record,)

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._place: tuple[str, int] | None = None
        self._wrong = False

    def see(self, moment: Moment) -> Iterable[Finding]:
        assert isinstance(moment, Record)
        value = moment.values.get(self._metric)
        if value is None or not math.isfinite(value):
            return ()
        place = moment.phase, moment.attempt
        if place != self._place:
            self._place = place
            self.begin()
        wrong = self.take(value, moment.step)
        if wrong is None or not (wrong or self._wrong):
            return ()
        self._wrong = wrong
        return (Finding(self._metric, wrong, self.describe(value), moment.step),)

    def begin(self) -> None:
        raise NotImplementedError

    def take(self, value: float, step: int | None) -> bool | None:
        raise NotImplementedError

    def describe(self, value: float) -> str:
        raise NotImplementedError


class Spike(_LossRule):
    """A value far above the median of the last records, both in deviations and as a share of the median."""

    def __init__(self, metric: str, records: int, fewest: int, deviations: float, share: float) -> None:
        super().__init__(metric)
        self._fewest, self._deviations, self._share = fewest, deviations, share
        self._window = RunningWindow(records)
        self._usual = math.nan

    def begin(self) -> None:
        self._window.clear()

    def take(self, value: float, step: int | None) -> bool | None:
        wrong = self._judge(value) if len(self._window) >= self._fewest else None
        self._window.add(value)
        return wrong

    def _judge(self, value: float) -> bool:
        self._usual = usual = self._window.median()
        above = value - usual
        return above > self._share * abs(usual) and above > self._deviations * self._window.deviation()

    def describe(self, value: float) -> str:
        return f"{self._metric} {value:.4g}, usually {self._usual:.4g}"


class Diverging(_LossRule):
    """The median of the last records is far above its lowest value so far, by more than noise explains."""

    def __init__(self, metric: str, records: int, share: float, deviations: float) -> None:
        super().__init__(metric)
        self._share, self._deviations = share, deviations
        self._window = RunningWindow(records)
        self._now = self._lowest = math.inf
        self._at: int | None = None

    def begin(self) -> None:
        self._window.clear()
        self._lowest, self._at = math.inf, None

    def take(self, value: float, step: int | None) -> bool | None:
        self._window.add(value)
        if not self._window.full:
            return None
        self._now = now = self._window.median()
        if now < self._lowest:
            self._lowest, self._at = now, step
        above = now - self._lowest
        share = self._share / (2 if self._wrong else 1)
        return above > share * abs(self._lowest) and above > self._deviations * self._window.error()

    def describe(self, value: float) -> str:
        return f"{self._metric} is {self._now:.4g}, was {self._lowest:.4g} at step {self._at}"


class Rising(_LossRule):
    """The last records are above those before them by more than noise explains."""

    def __init__(self, metric: str, records: int, share: float, deviations: float) -> None:
        super().__init__(metric)
        self._share, self._deviations = share, deviations
        self._late, self._early = RunningWindow(records), RunningWindow(records)
        self._rises = False

    def begin(self) -> None:
        self._late.clear()
        self._early.clear()

    def take(self, value: float, step: int | None) -> bool | None:
        gone = self._late.add(value)
        if gone is not None:
            self._early.add(gone)
        if not self._early.full:
            return None
        before, now = self._early.median(), self._late.median()
        self._rises = now - before > self._share / (2 if self._wrong else 1) * abs(before)
        if not self._rises:
            return False
        return now - before > self._deviations * max(self._early.error(), self._late.error())

    def describe(self, value: float) -> str:
        if not self._rises:
            return f"{self._metric} no longer rises"
        return f"{self._metric} rose from {self._early.median():.4g} to {self._late.median():.4g}"


class Plateau(_LossRule):
    """The loss has not fallen over the last third of the run. It compares blocks, longer ones in longer runs."""

    BLOCKS = 96

    def __init__(self, metric: str, fewest: int, share: float) -> None:
        super().__init__(metric)
        self._fewest, self._share = fewest, share
        self.begin()

    def begin(self) -> None:
        self._blocks: list[float] = []
        self._block: list[float] = []
        self._length, self._records = max(1, self._fewest // self.BLOCKS), 0
        self._before = self._now = math.nan

    def take(self, value: float, step: int | None) -> bool | None:
        self._records += 1
        self._block.append(value)
        if len(self._block) < self._length:
            return None
        self._blocks.append(sorted(self._block)[len(self._block) // 2])
        self._block = []
        if len(self._blocks) == 2 * self.BLOCKS:
            self._blocks = [(a + b) / 2 for a, b in zip(self._blocks[::2], self._blocks[1::2], strict=True)]
            self._length *= 2
        return self._judge() if self._records >= self._fewest else None

    def _judge(self) -> bool:
        third = len(self._blocks) // 3
        self._before, self._now = min(self._blocks[:-third]), min(self._blocks[-third:])
        return self._before - self._now < self._share * abs(self._before)

    def describe(self, value: float) -> str:
        before = f"{self._metric} was {self._before:.4g} before the last third of the run"
        return f"{before}, at best {self._now:.4g} since"


PATH = re.compile(r"[\w./~-]*/[\w./=-]+|\b[\w=-]+\.(?:pt|pth|ckpt|safetensors|bin)\b")


@dataclass
class _Seen:
    best: float | None = None
    at: int | None = None
    worse: int = 0


@dataclass
class Overfitting:
    """A number of evaluations in a row are worse than the best one; names the checkpoint nearest to the best."""

    metrics: list[str]
    evaluations: int
    share: float
    observes: ClassVar = (Evaluation, EventSeen)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _checkpoints: list[tuple[int | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuses a metric of which no one knows whether lower or higher is better."""
        for name in self.metrics:
            columns.better_or_refuse(name, hint="name validation losses or accuracies in `metrics`")

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, EventSeen) and moment.kind == "checkpoint":
            self._checkpoints.append((moment.step, moment.text))
        elif isinstance(moment, Evaluation) and moment.name in self.metrics and math.isfinite(moment.value):
            yield self._judge(moment, self._seen.setdefault(moment.name, _Seen()))

    def _judge(self, moment: Evaluation, seen: _Seen) -> Finding:
        sign = 1 if columns.better(moment.name) == "lower" else -1
        if seen.best is None or sign * (moment.value - seen.best) < 0:
            seen.best, seen.at, seen.worse = moment.value, moment.step, 0
        elif sign * (moment.value - seen.best) > self.share * abs(seen.best):
            seen.worse += 1
        else:
            seen.worse = 0
        text = f"{moment.name} is {moment.value:.4f}, was {seen.best:.4f} at step {seen.at}"
        return Finding(moment.name, seen.worse >= self.evaluations, text + self._best(seen.at), moment.step)

    def _best(self, step: int | None) -> str:
        """The checkpoint saved nearest to a step."""
        candidates = [
            (abs(saved - step), saved, text)
            for saved, text in self._checkpoints
            if saved is not None and step is not None
        ]
        if not candidates:
            return ""
        _, saved, text = min(candidates)
        path = PATH.search(text)
        return f"; nearest checkpoint: step {saved}" + (f", {path[0]}" if path else "")


NORMAL = 1.4826  # standard deviation / median absolute deviation of a normal distribution

OF_MEDIAN = 1.2533  # standard error of a median / that of a mean


class RunningWindow:
    """The last `size` values, kept sorted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    @property
    def full(self) -> bool:
        return len(self._values) == self._size

    def add(self, value: float) -> float | None:
        """Adds a value, and returns the one that left if the window was full."""
        gone = None
        values, ordered = self._values, self._sorted
        if len(values) == self._size:
            gone = values.popleft()
            del ordered[bisect_left(ordered, gone)]
        values.append(value)
        insort(ordered, value)
        return gone

    def clear(self) -> None:
        self._values.clear()
        self._sorted.clear()

    def median(self) -> float:
        return _middle(self._sorted)

    def deviation(self) -> float:
        """Standard deviation from the median absolute deviation, so that one spike does not hide the next."""
        middle = self.median()
        return NORMAL * _middle(sorted(abs(value - middle) for value in self._sorted))

    def error(self) -> float:
        """Standard error of the median."""
        return OF_MEDIAN * self.deviation() / math.sqrt(len(self))


def _spelled(value: float) -> str:
    """`NaN`, `inf`, or the number."""
    return "NaN" if math.isnan(value) else str(value)


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
