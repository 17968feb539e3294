"""How a log counts: a line, and what the lines before it showed -> the step that it is of.

By rules 10 to 13 of docs/parse.md. No single line says whether epochs are steps here, or whether the first of them
is 0; it shows as the log goes on, and is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping

from gputel.analysis.parse.drafts import Line
from gputel.analysis.parse.patterns import Pattern
from gputel.analysis.parse.plans import Plan

BarKey = tuple[str, float]


class Counting:
    """Asked about one line after the other, in the order of the file."""

    def __init__(self) -> None:
        self.has_fractions = False  # an epoch with a fraction was printed: in this log none is a step
        self._epoch: dict[str, float] = {}  # that a line before has announced
        self._epochs_are_steps = False
        self._zero_based = False

    def see(self, cells: Mapping[str, float]) -> None:
        if cells.get("epoch") == 0:
            self._zero_based = True
        if not cells.get("epoch", 0.0).is_integer():
            self.has_fractions = True

    def begin_epoch(self, cells: Mapping[str, float]) -> None:
        """Lines to come that name no epoch are of this one."""
        self._epoch = {name: cells[name] for name in ("epoch", "epochs") if name in cells}

    def from_zero(self, pattern: Pattern) -> bool:
        return self._zero_based if pattern.first_epoch is None else pattern.first_epoch == 0

    def epoch(self, cells: Mapping[str, float]) -> float | None:
        return cells.get("epoch", self._epoch.get("epoch"))

    def tells_epoch(self, shape: Plan) -> bool:
        """Whether a line above has said of which epoch such lines are, who do not say it themselves."""
        return "epoch" in self._epoch and "epoch" not in shape.columns

    def has_none(self, pattern: Pattern) -> bool:
        """Whether lines that print no step have none: no epoch stands for it."""
        return self.has_fractions or not pattern.whole_epochs

    def of_record(self, line: Line) -> float | None:
        step = line.shape.step(line.cells, self.from_zero(line.pattern))
        if step is not None:
            if line.pattern.role == "train" and self.tells_epoch(line.shape):
                line.cells["epoch"] = self._epoch["epoch"]
            return step if step.is_integer() else None
        if line.pattern.role == "part" or self.has_none(line.pattern):
            return None
        if "epochs" in line.cells and "samples" not in line.cells:
            line.cells.setdefault("total_steps", line.cells["epochs"])
        if "epoch" not in line.cells:
            line.cells.update(self._epoch)
        self._epochs_are_steps = self._epochs_are_steps or "epoch" in line.cells
        return line.cells.get("epoch")

    def of_evaluation(self, line: Line) -> float | None:
        step = line.shape.step(line.cells, self.from_zero(line.pattern))
        if step is None and self._epochs_are_steps and not self.has_fractions:
            return self.epoch(line.cells)
        return step

    def of_bar(self, line: Line) -> tuple[BarKey, float | None]:
        """What the bar redraws, and the step that it is of."""
        cells = line.cells
        epoch = self.epoch(cells)
        if epoch is not None and epoch.is_integer():
            self._epochs_are_steps = True
            self._epoch = {**self._epoch, "epoch": epoch}
            epochs = cells.get("epochs", self._epoch.get("epochs"))
            cells.pop("total_steps", None)
            if epochs is not None:
                cells["total_steps"] = epochs
            return ("epoch", epoch), epoch
        step = line.shape.step(cells, self._zero_based)
        if step is not None:
            return ("step", step), step
        if "total" in cells:
            cells.setdefault("total_steps", cells["total"])
        return ("count", cells.get("count", -1.0)), cells.get("count")

    def epoch_of_test(self, line: Line) -> float | None:
        """The one that was announced, of a bar that names none itself."""
        return None if "epoch" in line.cells else self._epoch.get("epoch")

    def is_last(self, cells: Mapping[str, float], pattern: Pattern) -> bool:
        """`Epoch [5/5], Step [600/600]`: where both totals are printed, the step may be the last."""
        cells = {**self._epoch, **cells}
        if not {"epoch", "epochs", "index", "length"} <= cells.keys():
            return False
        done = int(self.from_zero(pattern))
        return cells["epoch"] + done >= cells["epochs"] and cells["index"] + done >= cells["length"]
