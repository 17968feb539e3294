"""One hit as a row, and the record that such rows are becoming while later lines may still add to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gputel.analysis.parse.patterns import Pattern
from gputel.analysis.parse.plans import PLACES, STEPS, Plan
from gputel.analysis.parse.rows import Row
from gputel.analysis.parse.stages import Place


@dataclass(eq=False, repr=False)
class Line:
    """Where a hit stood, who printed it and when, and what it says."""

    pattern: Pattern
    shape: Plan
    cells: dict[str, float]
    texts: dict[str, str]
    number: int
    time: int | None
    rank: str | None

    def metrics(self) -> dict[str, float]:
        """What goes into a record's row, under the names that its columns have."""
        return {name: value for name, value in self.cells.items() if name not in self.shape.evals}

    def evaluations(self) -> dict[str, float]:
        return {name: self.cells[name] for name in self.shape.evals}


@dataclass(eq=False, repr=False)
class Draft:
    """A record that a line to come may still add to, or draw over."""

    line: Line
    step: float | None
    cells: dict[str, float]
    evals: dict[str, float]
    redraw: tuple[str, float, float] | None = None  # what it redraws, and how far it had come; None: no bar
    place: Place | None = None  # None as long as it holds nothing that makes it a record
    kinds: set[Pattern] = field(default_factory=set)  # of the lines that it is made of

    def __post_init__(self) -> None:
        self.kinds.add(self.line.pattern)

    def takes(self, line: Line, step: float | None) -> bool:
        """Rule 7: a line of another shape that reports the same step adds to the record; else it is a copy.

        So is a line of the same kind that prints a value again, even where it lacks another value.
        """
        new = [name for name in line.cells if name not in PLACES]
        if line.pattern.role == "part":
            return not any(name in self.cells for name in new)
        if step is None or step != self.step or self._is_elsewhere(line):
            return False
        held = {**self.cells, **self.evals}
        again = any(name in held for name in new)
        return not again or (_is_counted(line) and line.pattern not in self.kinds)

    def _is_elsewhere(self, line: Line) -> bool:
        """The same step, but another epoch, iteration or batch."""
        return any(
            self.cells.get(name, line.cells[name]) != line.cells[name]
            for name in PLACES
            if name in line.cells
        )

    def add(self, line: Line, step: float | None) -> None:
        self.kinds.add(line.pattern)
        self.cells.update({name: value for name, value in line.metrics().items() if name not in self.cells})
        self.step = step if self.step is None else self.step
        self.evals.update(line.evaluations())

    def row(self, place: Place) -> Row:
        line = self.line
        where: Row = {
            "phase": place.phase,
            "attempt": place.attempt,
            "line": line.number,
            "step": self.step,
            "time": line.time,
            "rank": line.rank,
        }
        return {
            **where,
            **{name: value for name, value in self.cells.items() if name not in line.shape.places},
        }


def _is_counted(line: Line) -> bool:
    """Whether its step is more than the epoch, which many records may share."""
    return any(name in line.cells for name in STEPS)
