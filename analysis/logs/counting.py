"""The step that a line belongs to, from the line and from what earlier lines showed.

No single line says whether epochs are steps in this log, or whether the first epoch is 0; that shows as the log
goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from gputel.analysis.logs.announced_epochs import AnnouncedEpochs
from gputel.analysis.logs.drafts import ParsedLine
from gputel.analysis.logs.evaluation_loops import EvaluationLoop
from gputel.analysis.logs.line_kinds import LinePlan
from gputel.analysis.logs.patterns import Pattern

BarKey = tuple[str, float]
BATCH = "batch_tokens"  # the setting that says how many tokens a step has
WHOLE_STEP = 0.01  # a token count this near to whole batches, as a share of one, is no rounded count


class Counting:
    """Finds the steps of lines, which must be asked for in the order of the file."""

    def __init__(self) -> None:
        self.has_fractions = False  # an epoch with a fraction was printed: no epoch of this log is a step
        self._announced = AnnouncedEpochs()
        self.passes = 0  # of a bar since its epoch was left
        self._epochs_are_steps = False
        self._reached: float | None = None  # the epoch that the last record has for its step
        self._within: float | None = None  # the epoch that the last record names beside its step
        self._by_epoch: set[str] = set()  # evaluations whose lines name an epoch, and no step
        self._zero_based = False
        self._first: tuple[float, float] | None = None  # the first printed epoch and index within it

    def see(self, cells: Mapping[str, float]) -> None:
        if self._first is None and "epoch" in cells and "index" in cells:
            self._first = (cells["epoch"], cells["index"])
        if cells.get("epoch") == 0:
            self._zero_based = True
        if not cells.get("epoch", 0.0).is_integer():
            self.has_fractions = True

    def begin(self, first_epoch: int | None) -> None:
        """Begins a training; `first_epoch` is that of its first records, if a line below them says so."""
        self._announced, self._reached = AnnouncedEpochs(), None
        self.begin_epoch({} if first_epoch is None else {"epoch": float(first_epoch)}, None)

    def begin_epoch(self, cells: Mapping[str, float], rank: str | None) -> None:
        """Sets the epoch of later lines that name none."""
        named = {name: cells[name] for name in ("epoch", "epochs") if name in cells}
        self._announced.announce(named, rank)
        self.passes = 0

    def leave_epoch(self, rank: str | None) -> None:
        """Forgets the announced epoch, whose bar has begun once more: the line of the next one is missing."""
        self._announced.leave(rank)
        self.passes += 1

    def from_zero(self, pattern: Pattern) -> bool:
        """Whether epochs count from 0; a log that begins with batch 0 of epoch 1 counts from 1 in any format."""
        declared = pattern.first_epoch == 0 and self._first not in ((1, 0), (1, 1))
        return self._zero_based if pattern.first_epoch is None else declared

    def epoch(self, cells: Mapping[str, float], rank: str | None) -> float | None:
        return cells.get("epoch", self._announced.current(rank).get("epoch"))

    def tells_epoch(self, shape: LinePlan, rank: str | None) -> bool:
        """Whether an earlier line announced the epoch of lines of this shape, which do not name it."""
        return "epoch" not in shape.columns and self.epoch({}, rank) is not None

    def has_none(self, pattern: Pattern) -> bool:
        """Whether lines that print no step have none, because epochs do not count as steps."""
        return self.has_fractions or not pattern.whole_epochs

    def of_record(self, line: ParsedLine, before: float | None) -> float | None:
        """The step of the line; `before` is that of the last record of its rank."""
        step = line.shape.step(line.cells, self.from_zero(line.pattern))
        if step is not None:
            self._reached, self._within = None, line.cells.get("epoch")
            if line.pattern.role == "train" and "epoch" not in line.shape.columns:
                is_index = line.shape.counts_batches
                announced = self._announced.of_record(line.rank, step, before, is_index=is_index)
                if "epoch" in announced:
                    line.cells["epoch"] = announced["epoch"]
            else:
                self._announced.note(line.rank)
            return step if step.is_integer() else None
        if self.has_none(line.pattern):
            return None
        if line.pattern.role == "part":
            return line.cells.get("epoch")
        if "epochs" in line.cells and "samples" not in line.cells:
            line.cells.setdefault("total_steps", line.cells["epochs"])
        if "epoch" not in line.cells:
            line.cells.update(self._announced.of_record(line.rank, None, before, is_index=False))
        elif self._announced.current(line.rank):  # `Epoch 3 done` may have said that the one before is over
            self._announced.name(line.cells["epoch"], line.rank)
        self._epochs_are_steps = self._epochs_are_steps or "epoch" in line.cells
        self._reached = line.cells.get("epoch")
        return self._reached

    def of_evaluation(self, line: ParsedLine, leads: bool) -> float | None:
        """The step that the line prints, else its epoch, unless its format says that it comes within one.

        One that names neither is of the epoch that the last record reached, unless it `leads` its record; so it is
        where other lines name the epochs of the same measures.
        """
        step = line.shape.step(line.cells, self.from_zero(line.pattern))
        if step is not None:
            return step
        names_epoch = "epoch" in line.cells and line.pattern.whole_epochs
        if names_epoch:
            self._by_epoch.update(line.shape.evals)
        elif not leads and not self._by_epoch.isdisjoint(line.shape.evals):
            return self._within if self._reached is None else self._reached
        if self.has_fractions or not (self._epochs_are_steps or names_epoch):
            return None
        epoch = self.epoch(line.cells, line.rank)
        return self._reached if epoch is None and not leads else epoch

    def of_loop(self, line: ParsedLine, loop: EvaluationLoop) -> float | None:
        """The step of what a loop of evaluation gives; a section of a set may also print it."""
        named = {"epoch", "index"} & line.cells.keys() or loop.epoch is not None
        if loop.is_section and line.shape.place and not named:
            return line.shape.step(line.cells, self.from_zero(line.pattern))
        if not self._epochs_are_steps or self.has_fractions:
            return None
        epoch = line.cells.get("epoch", loop.epoch)
        return self.epoch({}, line.rank) if epoch is None else epoch

    def of_bar(self, line: ParsedLine) -> tuple[BarKey, float | None]:
        """The key that all redraws of a bar share, and the step of the bar."""
        cells = line.cells
        epoch = self.epoch(cells, line.rank)
        if epoch is not None and epoch.is_integer():
            self._epochs_are_steps = True
            self._announced.name(epoch, line.rank)
            epochs = cells.get("epochs", self._announced.current(line.rank).get("epochs"))
            cells.pop("total_steps", None)
            if epochs is not None:
                cells["total_steps"] = epochs
            return ("epoch", epoch), epoch
        step = line.shape.step(cells, self._zero_based)
        if step is not None and step.is_integer():  # but not the mean of all batches, `batch: 49.5`
            return ("step", step), step
        if self.passes:
            return ("pass", self.passes), None
        if "total" in cells:
            cells.setdefault("total_steps", cells["total"])
        return ("count", cells.get("count", -1.0)), cells.get("count")

    def epoch_of_test(self, line: ParsedLine) -> float | None:
        """The announced epoch, for a bar that names none itself."""
        return None if "epoch" in line.cells else self.epoch({}, line.rank)

    def is_last(self, cells: Mapping[str, float], line: ParsedLine) -> bool:
        """Whether it is the last step of the last epoch, as in `Epoch [5/5], Step [600/600]`."""
        cells = {**self._announced.current(line.rank), **cells}
        if not {"epoch", "epochs", "index", "length"} <= cells.keys():
            return False
        done = int(self.from_zero(line.pattern))
        return cells["epoch"] + done >= cells["epochs"] and cells["index"] + done >= cells["length"]


def steps_by_tokens(records: pl.DataFrame, config: Mapping[str, float | str]) -> pl.DataFrame:
    """Numbers records that print a token count and no step: a batch of a known size was done so many times.

    Leaves them as they are where a count is rounded, or falls.
    """
    batch = config.get(BATCH)
    if "tokens" not in records.columns or not isinstance(batch, float) or not batch > 0:
        return records
    if records["step"].null_count() < records.height or records["tokens"].null_count():
        return records
    done = records["tokens"] / batch
    steps = done.round()
    if (done - steps).abs().max() > WHOLE_STEP or (steps.diff() < 0).any():
        return records
    return records.with_columns(step=steps.cast(records.schema["step"]))


def steps_of_evaluations(
    evals: pl.DataFrame, records: pl.DataFrame, config: Mapping[str, float | str]
) -> pl.DataFrame:
    """Gives evaluations the step of their token count, else of the record before them.

    `records` print tokens and never a step; they have been numbered by `steps_by_tokens`.
    """
    batch = int(float(config[BATCH]))
    counted = (pl.col("step") >= batch) & (pl.col("step") % batch == 0)
    known = records.select("line", before="step").sort("line")
    placed = evals.sort("line", maintain_order=True).join_asof(known, on="line")
    step = pl.when(counted).then(pl.col("step") // batch).otherwise(pl.coalesce("step", "before"))
    return placed.with_columns(step=step).select(evals.columns)
