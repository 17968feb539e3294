"""Runs all rules on one run: each observation goes to the detectors of its kind; a change of state is an alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gputel.analysis.alarms import loss, machine, slower, stalls
from gputel.analysis.alarms.observations import Detector, Finding, Moment
from gputel.analysis.alarms.rules import Rule
from gputel.telemetry.errors import GputelError

DETECTORS: dict[str, Callable[..., Detector]] = {
    "not_finite": loss.NotFinite,
    "spike": loss.Spike,
    "diverging": loss.Diverging,
    "rising": loss.Rising,
    "plateau": loss.Plateau,
    "overfitting": loss.Overfitting,
    "stalled": stalls.Stalled,
    "slower": slower.Slower,
    "below": machine.Below,
    "rank_behind": stalls.RankBehind,
    "ranks_missing": stalls.RanksMissing,
    "event": machine.OnEvent,
    "failed": machine.CommandFailed,
    "counted": machine.Counted,
    "throttled": machine.Throttled,
    "gpu_level": machine.GpuLevel,
    "disk_full": machine.DiskFull,
    "over_budget": machine.OverBudget,
}


@dataclass(frozen=True)
class Alarm:
    """A rule's condition has begun (`state` "on") or is over ("off")."""

    rule: str
    what: str
    state: Literal["on", "off"]
    key: str
    text: str
    step: int | None
    at_s: float | None

    @property
    def line(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        return f"{'over: ' if self.state == 'off' else ''}{self.what}{at}: {self.text}"


class RuleEngine:
    """The detectors of all rules for one run, and the alarms that are on.

    `explain` adds the cause to an alarm that begins.
    """

    def __init__(self, rules: Sequence[Rule], explain: Callable[[Alarm], Alarm] | None = None) -> None:
        self._explain = explain
        self._detectors: dict[type[Moment], list[tuple[Rule, Callable[[Moment], Iterable[Finding]]]]] = {}
        for rule in rules:
            detector = _detector(rule)
            for kind in detector.observes:
                self._detectors.setdefault(kind, []).append((rule, detector.see))
        self._active: dict[tuple[str, str], Alarm] = {}

    @property
    def active(self) -> list[Alarm]:
        """Alarms that are on, oldest first."""
        return list(self._active.values())

    def see(self, moment: Moment) -> Iterator[Alarm]:
        """Judges an observation and yields the alarms that it begins or ends."""
        for rule, see in self._detectors.get(type(moment), ()):
            for finding in see(moment):
                yield from self._changed(rule, finding, moment.at_s)

    def _changed(self, rule: Rule, finding: Finding, at_s: float | None) -> Iterator[Alarm]:
        """Yields an alarm if the finding differs from the rule's last state."""
        key = rule.name, finding.key
        if finding.wrong == (key in self._active):
            return
        state: Literal["on", "off"] = "on" if finding.wrong else "off"
        alarm = Alarm(rule.name, rule.what, state, finding.key, finding.text, finding.step, at_s)
        if finding.wrong:
            alarm = self._explain(alarm) if self._explain else alarm
            self._active[key] = alarm
        else:
            del self._active[key]
        yield alarm


def _detector(rule: Rule) -> Detector:
    try:
        return DETECTORS[rule.detector](**rule.thresholds)
    except TypeError as error:
        raise GputelError(f"alarm '{rule.name}'", str(error), "see docs/tail.md", exit_code=2) from None
