"""A hit as a parsed line, and the record that such lines build up: it is open while later lines may add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputel.analysis.logs.frames import Row
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES, PLACES, LinePlan
from gputel.analysis.logs.patterns import Pattern
from gputel.analysis.logs.rounding import finer, in_full, is_same
from gputel.analysis.logs.stages import PhaseAttempt


@dataclass(eq=False, repr=False)
class ParsedLine:
    """A hit with its line number, time, rank and values."""

    pattern: Pattern
    shape: LinePlan
    cells: dict[str, float]
    texts: dict[str, str]
    number: int
    time: int | None
    rank: str | None

    def metrics(self) -> dict[str, float]:
        """The values that go into a record's row, by column."""
        return {name: value for name, value in self.cells.items() if name not in self.shape.evals}

    def evaluations(self) -> dict[str, float]:
        return {name: self.cells[name] for name in self.shape.evals}


@dataclass(eq=False, repr=False)
class OpenRecord:
    """A record that a later line may still add to, or redraw."""

    line: ParsedLine
    step: float | None
    cells: dict[str, float]
    evals: dict[str, float]
    redraw: tuple[str, float, float] | None = None  # of a bar: its key and how far it had come
    carried: dict[str, float] | None = None  # of an epoch's bar: the evaluations that it began with
    began: dict[str, float] = field(default_factory=dict)  # of an epoch's bar: figures of its first redraw
    is_first: bool = True  # of the redraws of its bar
    is_tested: bool = False  # whether a bar of a test stands below the last epoch's
    # the last redraw of a test's bar below it, with its epoch and figures
    test: tuple[ParsedLine, float, dict[str, float]] | None = None
    place: PhaseAttempt | None = None  # None until a line makes it a record
    kinds: set[Pattern] = field(default_factory=set)  # of its lines
    end: int = 0  # number of its last line
    is_record: bool = False  # whether one of its lines makes it a record

    def __post_init__(self) -> None:
        self.is_record = self.line.shape.record
        self.kinds.add(self.line.pattern)
        self.end = self.line.number

    @property
    def epoch_of_bar(self) -> float | None:
        """The epoch whose bar it is; None for any other record."""
        return self.redraw[1] if self.redraw and self.redraw[0] == "epoch" else None

    @property
    def is_untrained(self) -> bool:
        """Whether it gives a loss, and no place: above the line of the first epoch, that of an untrained model."""
        return self.step is None and self.redraw is None and any("loss" in name for name in self.cells)

    def as_evaluation(self) -> dict[str, float]:
        """Its figures, named as those of the training set on the line of an evaluation are: `train_loss`."""
        aside = {*PLACES, *CIRCUMSTANCES, *RATES}
        own = {name: value for name, value in self.cells.items() if name not in aside}
        named = {name if "train" in name else f"train_{name}": value for name, value in own.items()}
        return named | self.evals

    def is_broken_off(self) -> bool:
        """Whether it is a bar that did not come to its end."""
        return self.redraw is not None and self.redraw[2] < self.line.cells.get("total", 0.0)

    def evaluates_alone(self) -> bool:
        """Whether it gives evaluations, and nothing of the training but where and how fast it is."""
        return bool(self.evals) and self.cells.keys() <= {*PLACES, *CIRCUMSTANCES, *RATES}

    def shows_epoch_before(self) -> bool:
        """Whether it is a bar that was broken off, and its loss that of the epoch before, as it never changed."""
        loss = self.began.get("loss")
        return loss is not None and loss == self.cells.get("loss") and self.is_broken_off()

    def measured(self) -> dict[str, float]:
        """The evaluations, unless its bar has shown all of them since the epoch began."""
        began_with = self.began_with()
        return {} if self.evals.items() <= began_with.items() else self.evals

    def began_with(self) -> dict[str, float]:
        """The evaluations that the bar of an epoch shows before its first batch."""
        if self.carried is not None:
            return self.carried
        is_first = self.epoch_of_bar is not None and self.line.cells.get("count") == 0
        return self.evals if is_first else {}

    def begin_bar(self) -> None:
        """Notes what the bar of an epoch shows before the first batch, if this is its first redraw."""
        if self.is_first and self.epoch_of_bar is not None and self.line.cells.get("count") == 0:
            lasting = {*PLACES, *CIRCUMSTANCES, *RATES}
            self.began = {name: value for name, value in self.cells.items() if name not in lasting}

    def end_bar(self, later: OpenRecord) -> None:
        """Takes what the bar of the next epoch begins with, in place of figures that never changed.

        What that bar shows on a line below is not known yet: such figures are left out.
        """
        if self.epoch_of_bar is None or later.epoch_of_bar != self.epoch_of_bar + 1:
            return
        still = {name for name, value in self.began.items() if self.cells.get(name) == value}
        if not (
            self._goes_on_in(later, still) or (still == {*self.began} and self.line.cells.get("total", 1) > 1)
        ):
            return
        for name in still | (later.began.keys() - self.cells.keys()):
            self.cells.pop(name, None)
            if name in later.began:
                self.cells[name] = later.began[name]

    def _goes_on_in(self, later: OpenRecord, still: set[str]) -> bool:
        """Whether a figure that changed in this bar stands in the next one before its first batch."""
        moving = {
            name: value for name, value in later.began.items() if name in self.cells and name not in still
        }
        return any(self.cells[name] == value for name, value in moving.items())

    def ends_above(self, line: ParsedLine) -> bool:
        """Whether it has a step and several lines, or a loss and an evaluation, and the line stands right below."""
        is_open = len(self.kinds) > 1 or (bool(self.evals) and "loss" in self.cells)
        return is_open and self.step is not None and line.number == self.end + 1

    def gives(self, evals: Mapping[str, float]) -> bool:
        """Whether it has all of these figures, and not by chance: they have more than three decimals."""
        same = (self.evals.get(name) == value != round(value, 3) for name, value in evals.items())
        return bool(evals) and all(same)

    def is_bar_summed_up_by(self, line: ParsedLine, step: float | None) -> bool:
        """Whether it is the bar of an epoch or step, and the line gives its loss, or most of its figures, again.

        It may give the step as well that the epoch ended with, or the mean beside the bar's current loss.
        """
        pairs = self.shared(line)
        same = sum(is_same(*pair) for pair in pairs)
        if self.epoch_of_bar is None:
            return step is not None and step == self.step and 2 * same > len(pairs)
        if line.cells.get("epoch", step) != self.epoch_of_bar:
            return False
        if not pairs and "loss" in self.cells and "loss_avg" in line.cells:
            return "epoch" in line.cells
        return 2 * same > len(pairs)

    def shared(self, line: ParsedLine) -> list[tuple[float, float]]:
        """The values of a line, each beside that of the record; of the loss alone if both have it."""
        others = {*PLACES, *CIRCUMSTANCES}
        names = [name for name in line.cells if name in self.cells and name not in others]
        names = ["loss"] if "loss" in names else names
        return [(line.cells[name], self.cells[name]) for name in names]

    def is_shown_again(self, line: ParsedLine, step: float | None) -> bool:
        """Whether a bar below shows what a line has given for this step: it was drawn once more."""
        pairs = self.shared(line)
        same = all(is_same(*pair) for pair in pairs)
        is_of_line = self.redraw is None or len(self.kinds) > 1
        return is_of_line and step is not None and step == self.step and bool(pairs) and same

    def takes(self, line: ParsedLine, step: float | None) -> bool:
        """Whether a line of another shape reports the same step and adds to the record (docs/parse.md, rule 7).

        Otherwise it is a copy; so is a line of the same kind that prints a value again, even if one is missing.
        """
        new = [name for name in line.cells if name not in PLACES]
        if line.pattern.role == "part":
            if not new and step is not None and self.step is not None:
                return step == self.step
            return not any(name in self.cells for name in new)
        if self.redraw:
            return self.is_bar_summed_up_by(line, step)
        if step is None or step != self.step or self._is_elsewhere(line):
            return False
        known = [name for name in new if name in self.cells or name in self.evals]
        if known and not _is_counted(line):  # each line of an epoch may say how long it took so far
            return line.pattern not in self.kinds and CIRCUMSTANCES.issuperset(known)
        if not known:
            return True
        return line.pattern not in self.kinds or (len(known) < len(new) and self._sums_up(line))

    def _sums_up(self, line: ParsedLine) -> bool:
        """Whether it ends the epoch of the record: it prints the same loss once more, and evaluates."""
        loss = line.cells.get("loss")
        return (
            bool(line.shape.evals) and not self.evals and loss is not None and loss == self.cells.get("loss")
        )

    def _is_elsewhere(self, line: ParsedLine) -> bool:
        """Whether the line is of the same step, but of another epoch, iteration or batch."""
        return any(
            self.cells.get(name, line.cells[name]) != line.cells[name]
            for name in PLACES
            if name in line.cells
        )

    def add(self, line: ParsedLine, step: float | None) -> None:
        self.kinds.add(line.pattern)
        self.end = line.number
        self.is_record = self.is_record or line.shape.record
        cells = line.metrics()
        if self.redraw:
            self._end(line, cells, step)
        elif "loss" in cells and "loss" in self.cells:
            self.cells["loss"] = finer(self.cells["loss"], cells["loss"])
        self.cells.update({name: value for name, value in cells.items() if name not in self.cells})
        self.step = step if self.step is None else self.step
        self.evals.update(line.evaluations())

    def _end(self, line: ParsedLine, cells: Mapping[str, float], step: float | None) -> None:
        """Takes the figures of its bar in full, and the step that the epoch ended with."""
        again = {
            name: in_full(self.cells[name], value) for name, value in cells.items() if name in self.cells
        }
        self.cells.update({name: value for name, value in again.items() if name not in PLACES})
        if line.shape.place and step is not None and step != self.step:
            self.step = step
            self.cells.pop("total_steps", None)

    def row(self, place: PhaseAttempt) -> Row:
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


def _is_counted(line: ParsedLine) -> bool:
    """Whether the line prints a step in full, and not only the epoch or thousands, which many records share."""
    return line.shape.place is not None and not line.shape.is_rounded(line.shape.place)


RATES = ("lr", "lrm")  # in effect from the line on
