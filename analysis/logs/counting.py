"""The step that a line belongs to, from the line and from what earlier lines showed; and evaluations without a
step.

No single line says whether epochs are steps in this log, or whether the first epoch is 0; that shows as the log
goes on.

An evaluation becomes rows at once if its line says the step, else when the next record, or the end of the log,
gives one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.logs.announced_epochs import AnnouncedEpochs
from gputel.analysis.logs.drafts import EvaluationLoop, OpenRecord, ParsedLine, PhaseAttempt, Stages
from gputel.analysis.logs.frames import Numbers, Row, RowBlock, Rows
from gputel.analysis.logs.line_kinds import LinePlan
from gputel.analysis.logs.patterns import Pattern

BarKey = tuple[str, float]
BATCH = "batch_tokens"  # the setting that says how many tokens a step has
WHOLE_STEP = 0.01  # a token count this near to whole batches, as a share of one, is no rounded count

REPORTED = 20  # lines between an evaluation and the report that repeats it
FEW_DIGITS = 3  # behind the point, that may be the same by chance
NEAR = 1.01  # of the last record's step: a summary of the run's end, not of another run


class Counting:
    """Finds the steps of lines, which must be asked for in the order of the file."""

    def __init__(self) -> None:
        self.has_fractions = False  # an epoch with a fraction was printed: no epoch of this log is a step
        self._announced = AnnouncedEpochs()
        self._passes = 0  # of a bar since its epoch was left
        self._epochs_are_steps = False
        self._reached: float | None = None  # the epoch that the last record has for its step
        self._zero_based = False
        self._first: tuple[float, float] | None = None  # the first printed epoch and index within it

    def see(self, cells: Mapping[str, float]) -> None:
        if self._first is None and "epoch" in cells and "index" in cells:
            self._first = (cells["epoch"], cells["index"])
        if cells.get("epoch") == 0:
            self._zero_based = True
        if not cells.get("epoch", 0.0).is_integer():
            self.has_fractions = True

    def begin_epoch(self, cells: Mapping[str, float], rank: str | None) -> None:
        """Sets the epoch of later lines that name none."""
        named = {name: cells[name] for name in ("epoch", "epochs") if name in cells}
        self._announced.announce(named, rank)
        self._passes = 0

    def leave_epoch(self, rank: str | None) -> None:
        """Forgets the announced epoch, whose bar has begun once more: the line of the next one is missing."""
        self._announced.leave(rank)
        self._passes += 1

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
            self._reached = None
            if line.pattern.role == "train" and "epoch" not in line.shape.columns:
                is_index = line.shape.place in ("batch", "index")
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
        self._epochs_are_steps = self._epochs_are_steps or "epoch" in line.cells
        self._reached = line.cells.get("epoch")
        return self._reached

    def of_evaluation(self, line: ParsedLine, leads: bool) -> float | None:
        """The step that the line prints, else its epoch, unless its format says that it comes within one.

        One that names neither is of the epoch that the last record reached, unless it `leads` its record.
        """
        step = line.shape.step(line.cells, self.from_zero(line.pattern))
        names_epoch = "epoch" in line.cells and line.pattern.whole_epochs
        if step is None and not self.has_fractions and (self._epochs_are_steps or names_epoch):
            epoch = self.epoch(line.cells, line.rank)
            if epoch is None and not leads:
                return self._reached
            return epoch
        return step

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
        if step is not None:
            return ("step", step), step
        if self._passes:
            return ("pass", self._passes), None
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


Ints = npt.NDArray[np.int64]


@dataclass(eq=False, repr=False)
class PendingEvaluations:
    """Evaluations that get their step or attempt from the next record."""

    line: ParsedLine
    step: float | None
    evals: dict[str, float]
    place: PhaseAttempt  # where the log was
    last_step: float | None  # of the records before them

    def is_left_by(self, place: PhaseAttempt) -> bool:
        """Whether the place is a later attempt of the same phase."""
        return place.phase == self.place.phase and place.attempt > self.place.attempt


class Evaluations:
    """Turns evaluations into `rows`; `lines` are those that evaluate the run, not one task of a benchmark."""

    def __init__(self, stages: Stages) -> None:
        self.rows = Rows()
        self.lines: list[ParsedLine] = []
        self.numbers: list[int] = []  # of such lines taken by `take_together`
        self._stages = stages
        self._waiting: list[PendingEvaluations] = []
        self._before: tuple[int, float | None, str | None, Mapping[str, float]] = (-1, None, None, {})
        self._placed: dict[tuple[str | None, str], tuple[float, float, int]] | None = None  # since a record

    def take(self, line: ParsedLine, step: float | None) -> None:
        evals = _by_task(line)
        if not evals or self._repeats(line, step, evals):
            return
        epoch = line.cells.get("epoch")
        if step is None or self._stages.is_behind(step, epoch if epoch == step else None):
            here, last_step = self._stages.here, self._stages.last_step
            self._waiting.append(PendingEvaluations(line, step, evals, here, last_step))
        else:
            self._settle_tasks(step)
            self.write(line, evals, step, self._stages.evaluation(step))

    def wait(self, line: ParsedLine, evals: dict[str, float], step: float | None) -> None:
        """Takes what a loop of evaluation gives; it belongs where the log is."""
        if evals and step is None:
            here, last_step = self._stages.here, self._stages.last_step
            self._waiting.append(PendingEvaluations(line, None, evals, here, last_step))
        elif evals:
            self.write(line, evals, step, self._stages.evaluation(step))

    def _repeats(self, line: ParsedLine, step: float | None, evals: dict[str, float]) -> bool:
        """Whether the line right above gave the same, as where the best one is printed once more: `-> best`.

        So does one a few lines above if it says a step, and this one none or the same: a report of it. Figures with
        few digits may be the same by chance.
        """
        before, self._before = self._before, (line.number, step, line.rank, evals)
        if step is not None and before == (line.number - 1, step, line.rank, evals):
            return True
        if self._placed is None:
            return False
        if all(self._reports(line, step, name, value) for name, value in evals.items()):
            return True
        if step is not None:
            self._placed |= {(line.rank, name): (step, value, line.number) for name, value in evals.items()}
        return False

    def _reports(self, line: ParsedLine, step: float | None, name: str, value: float) -> bool:
        before, known, number = (self._placed or {}).get((line.rank, name), (None, None, 0))
        is_same = known == value != round(value, FEW_DIGITS) and step in (None, before)
        return is_same and line.number - number <= REPORTED

    def recorded(self) -> None:
        """Notes that a record has begun: the same figures below it are of another evaluation."""
        self._placed = {}

    def take_together(self, numbers: Ints, evals: Mapping[str, Numbers], steps: Numbers) -> None:
        """Bulk form of `take`, for evaluations between records; they have neither time nor rank."""
        if not evals:
            return
        repeats = self._repeat(numbers, evals, steps)
        numbers, steps = numbers[~repeats], steps[~repeats]
        evals = {name: values[~repeats] for name, values in evals.items()}
        if not len(numbers):
            return
        place = self._stages.evaluation(float(steps[-1]))
        self.numbers += numbers.tolist()
        for name, values in evals.items():
            columns = {"step": steps, "value": values, "line": numbers}
            same: Row = {"phase": place.phase, "attempt": place.attempt, "name": name}
            self.rows.extend(RowBlock(len(numbers), columns, same))

    def _repeat(self, numbers: Ints, evals: Mapping[str, Numbers], steps: Numbers) -> npt.NDArray[np.bool_]:
        """Bulk form of `_repeats`."""
        first, last = (
            (float(steps[at]), None, {n: float(v[at]) for n, v in evals.items()}) for at in (0, -1)
        )
        same = [
            values[1:] == values[:-1]
            for values in (numbers - np.arange(len(numbers)), steps, *evals.values())
        ]
        repeats = np.append(self._before == (int(numbers[0]) - 1, *first), np.logical_and.reduce(same))
        self._before = (int(numbers[-1]), *last)
        return repeats

    def settle(self, draft: OpenRecord | None) -> None:
        """Gives an evaluation without a step that of the next record, else of the last (docs/parse.md, rule 19).

        A record without a step ends here: only evaluations above it belong to it.
        """
        last = float("inf") if draft is None or draft.step is not None else draft.line.number
        settled = [waiting for waiting in self._waiting if waiting.line.number < last]
        self._waiting = [waiting for waiting in self._waiting if waiting.line.number >= last]
        for waiting in settled:
            step = waiting.step
            if step is None and draft and draft.place and waiting.is_left_by(draft.place):
                self.write(waiting.line, waiting.evals, waiting.last_step, waiting.place)
                continue
            after = None
            if step is None and draft:
                step, after = draft.step, waiting.last_step
            elif step is None:
                step = self._stages.last_step
            place = draft.place if draft and draft.place else self._stages.evaluation(waiting.step)
            self.write(waiting.line, waiting.evals, step, place, after)

    def _settle_tasks(self, step: float) -> None:
        """Gives the tasks of a benchmark the step that its summary names, such as the one after the last record."""
        last = self._stages.last_step
        if last is None or not last <= step <= NEAR * last + 1:
            return
        tasks = [each for each in self._waiting if each.step is None and each.line.pattern.role == "task"]
        for task in tasks:
            self.write(task.line, task.evals, step, self._stages.evaluation(step))
        self._waiting = [each for each in self._waiting if each not in tasks] if tasks else self._waiting

    def waiting(self) -> list[tuple[ParsedLine, float | None, dict[str, float]]]:
        """Evaluations that wait, with the step that they would get if the log ended here."""
        return [
            (pending.line, self._stages.last_step if pending.step is None else pending.step, pending.evals)
            for pending in self._waiting
        ]

    def hand_over(self) -> Rows:
        """Hands over the rows since the last call."""
        done, self.rows = self.rows, Rows()
        return done

    def write(
        self,
        line: ParsedLine,
        evals: dict[str, float],
        step: float | None,
        place: PhaseAttempt,
        after: float | None = None,
    ) -> None:
        """Adds the rows; `after` is the record above, where the log leaves open when between it and `step`."""
        if line.pattern.role != "task":
            self.lines.append(line)
        for name, value in evals.items():
            self.rows.append(
                {
                    "phase": place.phase,
                    "attempt": place.attempt,
                    "step": step,
                    "after": after if step is not None and step != after else None,
                    "name": name,
                    "value": value,
                    "line": line.number,
                    "time": line.time,
                    "rank": line.rank,
                }
            )


def _by_task(line: ParsedLine) -> dict[str, float]:
    """Evaluations by name; a task's have the task's name in front, and its accuracy is named by the task alone."""
    evals = line.evaluations()
    if line.pattern.role != "task":
        return evals
    task = line.texts.get("task", "task")
    return {task if name == "accuracy" else f"{task}_{name}": value for name, value in evals.items()}
