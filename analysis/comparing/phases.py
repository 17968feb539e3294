"""Which phase of each run is compared: the one that most runs share, and of these the one with most steps.

A log that announces no stage has one phase without a name (`train`): it stands for any that the log does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputel.analysis.parse.log import DEFAULT_PHASE

if TYPE_CHECKING:
    from gputel.analysis.parse.log import Log


@dataclass(frozen=True)
class Choice:
    """`own` has, for each run, what it calls the phase itself; None where it has none such."""

    phase: str
    own: list[str | None]
    shared: list[str]  # all that could have been chosen, most steps first


def choose(logs: Sequence[Log], asked: str | None) -> Choice:
    names = [list(dict.fromkeys(phase for phase, _ in log.places)) for log in logs]
    candidates = list(dict.fromkeys(name for own in names for name in own))
    owns = {phase: [_own(own, phase) for own in names] for phase in candidates}
    ranked = sorted(candidates, key=lambda phase: _rank(logs, owns[phase], phase), reverse=True)
    if asked is not None:
        return Choice(asked, owns.get(asked, [None] * len(logs)), ranked)
    if not ranked:
        return Choice(DEFAULT_PHASE, [None] * len(logs), [])
    most = _sharers(owns[ranked[0]])
    shared = [phase for phase in ranked if _sharers(owns[phase]) == most and _is_named(phase, ranked)]
    return Choice(ranked[0], owns[ranked[0]], shared)


def _own(names: list[str], phase: str) -> str | None:
    if phase in names:
        return phase
    return DEFAULT_PHASE if DEFAULT_PHASE in names else None


def _rank(logs: Sequence[Log], own: list[str | None], phase: str) -> tuple[int, int, bool]:
    steps = [_steps(log, name) for log, name in zip(logs, own, strict=True) if name]
    return len(steps), sum(steps), phase != DEFAULT_PHASE


def _steps(log: Log, phase: str) -> int:
    if len(log.places) == 1:
        return log.records.height
    return int((log.records["phase"] == phase).sum())


def _sharers(own: list[str | None]) -> int:
    return sum(name is not None for name in own)


def _is_named(phase: str, ranked: list[str]) -> bool:
    return phase != DEFAULT_PHASE or len(ranked) == 1
