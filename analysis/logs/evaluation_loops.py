"""Loops and sections of an evaluation: lines that look like records, which are theirs, and what they give."""

from __future__ import annotations

from collections.abc import Mapping

from gputel.analysis.logs import names
from gputel.analysis.logs.drafts import ParsedLine
from gputel.analysis.logs.patterns import Pattern

TOTALS = ("length", "total_steps", "total")


class EvaluationLoop:
    """Lines that look like records and evaluate: a loop that a line announces, or a section of a held-out set.

    Lines of a loop count to another total than records do; where these have none, it goes on until a line says a
    place. A section goes on until a line says that the ones below train, or one is of the same epoch again.
    """

    def __init__(self) -> None:
        self.is_open = self.is_section = False
        self._total: float | None = None  # of the records before it
        self._begun = False  # whether a record was read before
        # its first and last line of each kind; those of a bar have none, as its end may have another shape
        self._last: dict[Pattern | None, list[ParsedLine]] = {}
        self.epoch: float | None = None  # that the announcement names, or a line of the section
        self.held_out = "val"

    def counts(self, cells: Mapping[str, float]) -> None:
        """Notes the total of a record."""
        self._total = _total(cells) or self._total
        self._begun = self._begun or bool(cells)

    def begin(self, line: ParsedLine) -> None:
        """Opens the loop; above the first record only its announcement can tell the total of the records."""
        total = line.pattern.total
        self._total = self._total or total
        self.is_section = line.pattern.role == "validates"
        self.is_open = self._begun or self.is_section or total is not None
        self.epoch = line.cells.get("epoch")
        self.held_out = names.held_out_set(line.texts.get("set", "val"))

    def end(self) -> None:
        self.is_open = self.is_section = False

    def takes(self, line: ParsedLine) -> bool:
        """Whether the line is of the loop; a record with the total from before ends the loop."""
        if not self.is_section:
            self.is_open = self._goes_on(line)
        elif self._is_again(line):
            self.end()
        else:
            self.epoch = line.cells.get("epoch", self.epoch)
        if self.is_open:
            kind = None if line.pattern.role == "bar" else line.pattern
            self._last[kind] = [*self._last.get(kind, [])[:1], line]
        return self.is_open

    def _goes_on(self, line: ParsedLine) -> bool:
        if self._total is None:
            return line.shape.place is None and "epoch" not in line.cells
        total = _total(line.cells)
        return line.pattern.role == "part" or (total is not None and total != self._total)

    def _is_again(self, line: ParsedLine) -> bool:
        """Whether a section has such a line of the same epoch, and none counts batches: it is of the training."""
        epochs = {before.cells.get("epoch") for before in self._last.get(line.pattern, ())}
        fine = {"index", "count", *TOTALS} & line.cells.keys()
        return line.cells.get("epoch") in epochs - {None} and line.shape.place is None and not fine

    def forget(self, line: ParsedLine) -> None:
        """Leaves its figures to a line that gives the result; in a section a line of other figures is none."""
        gives_loss = any("loss" in name.lower() for name in (*line.shape.columns, *line.shape.evals))
        if gives_loss or not self.is_section:
            self._last = {}

    def result(self) -> list[ParsedLine]:
        """Its last lines, of a loop that came to its end and that no line with the result follows.

        In a section only a single line is a result, or the last of its count: a batch's own figure is none.
        """
        kinds, self._last = list(self._last.values()), {}
        if self.is_section:
            return [lines[-1] for lines in kinds if len(lines) == 1 or _ends(lines[-1])]
        return (
            [lines[-1] for lines in kinds] if all(_ends(lines[-1], anywhere=True) for lines in kinds) else []
        )


def _ends(line: ParsedLine, *, anywhere: bool = False) -> bool:
    """Whether the line counts to its total; one that counts to none may stand `anywhere`."""
    total = _total(line.cells)
    if total is None:
        return anywhere
    return line.cells.get("index", line.shape.step(line.cells, False)) == total


def _total(cells: Mapping[str, float]) -> float | None:
    return next((cells[name] for name in TOTALS if name in cells), None)
