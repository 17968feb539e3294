"""The rule of overfitting: validation gets worse while training goes on, and which checkpoint was the best."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis import columns
from gputel.analysis.alarms.finding import Finding
from gputel.analysis.alarms.moments import Evaluation, Happened, Moment

PATH = re.compile(r"[\w./~-]*/[\w./=-]+|\b[\w=-]+\.(?:pt|pth|ckpt|safetensors|bin)\b")


@dataclass
class _Seen:
    best: float | None = None
    at: int | None = None
    worse: int = 0


@dataclass
class Overfitting:
    """So many evaluations in a row are worse than the best by more than a share of it."""

    metrics: list[str]
    evaluations: int
    share: float
    hears: ClassVar = (Evaluation, Happened)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _checkpoints: list[tuple[int | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """A metric of unknown direction is refused: whether it got worse cannot be said."""
        for name in self.metrics:
            columns.better_or_refuse(name, hint="name validation losses or accuracies in `metrics`")

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Happened) and moment.kind == "checkpoint":
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
        text = f"{moment.name} is {moment.value:.4f}, and was {seen.best:.4f} at step {seen.at}"
        return Finding(moment.name, seen.worse >= self.evaluations, text + self._best(seen.at), moment.step)

    def _best(self, step: int | None) -> str:
        """The checkpoint saved nearest to a step."""
        known = [
            (abs(at - step), at, text)
            for at, text in self._checkpoints
            if at is not None and step is not None
        ]
        if not known:
            return ""
        _, at, text = min(known)
        path = PATH.search(text)
        return f"; nearest checkpoint: step {at}" + (f", {path[0]}" if path else "")
