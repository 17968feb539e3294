"""What a detector says of one thing at one moment, and what every detector is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gputel.analysis.alarms.moments import Moment


@dataclass(frozen=True)
class Finding:
    """`key` tells the things apart that one rule watches (GPUs, ranks, metrics); `wrong` False means recovered."""

    key: str
    wrong: bool
    text: str
    step: int | None = None


class Detector(Protocol):
    def see(self, moment: Moment) -> Iterable[Finding]: ...
