"""Rules about events: what a log or the recorder said outright needs no judgement, only to be passed on once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gputel.analysis.alarms.finding import Finding
from gputel.analysis.alarms.moments import Happened, Moment


@dataclass
class Event:
    """`over` is the kind that ends it, such as gpu_back for gpu_lost; a text in which `unless` is found is none."""

    kind: str
    over: str | None = None
    unless: str | None = None
    hears: ClassVar = (Happened,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Happened) and moment.kind in (self.kind, self.over):
            if self.unless and re.search(self.unless, moment.text):
                return
            key = str(moment.facts.get("gpu", ""))
            yield Finding(key, moment.kind == self.kind, moment.text, moment.step)


class Failed:
    """The command ended with a code that is not 0."""

    hears: ClassVar = (Happened,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        code = moment.facts.get("code") if isinstance(moment, Happened) and moment.kind == "exit" else None
        if code and isinstance(moment, Happened):
            yield Finding("", True, f"the command ended with {code}", moment.step)
