"""What a detector says of one thing at one moment, and what every detector is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from gputel.analysis.alarms.moments import Moment


class Finding(NamedTuple):
    """`key` tells the things apart that one rule watches (GPUs, ranks, metrics); `wrong` False means recovered."""

    key: str
    wrong: bool
    text: str
    step: int | None = None


class Detector(Protocol):
    """`hears` are the kinds of moments that it judges by; what is right and was right before need not be said."""

    @property
    def hears(self) -> tuple[type[Moment], ...]: ...

    def see(self, moment: Moment) -> Iterable[Finding]: ...
