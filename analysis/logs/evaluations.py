"""Evaluations -> rows: at once if the line says the step, else when the next record or the end gives one.

A line that repeats what one above it gave is no evaluation of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.drafts import OpenRecord, ParsedLine
from gputel.analysis.logs.frames import Numbers, Row, RowBlock, Rows
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES, COUNTS, PLACES
from gputel.analysis.logs.names import SO_FAR
from gputel.analysis.logs.pending_evaluations import OpeningEvaluations, PendingEvaluations
from gputel.analysis.logs.rounding import is_of
from gputel.analysis.logs.stages import PhaseAttempt, Stages

REPORTED = 20  # lines between an evaluation and the report that repeats it
FEW_DIGITS = 3  # behind the point, that may be the same by chance
NEAR = 1.01  # of the last record's step: a summary of the run's end, not of another run

Ints = npt.NDArray[np.int64]


class Evaluations:
    """Turns evaluations into `rows`; `lines` are those that evaluate the run, not one task of a benchmark."""

    def __init__(self, stages: Stages) -> None:
        self.rows = Rows()
        self.lines: list[ParsedLine] = []
        self.numbers: list[int] = []  # of such lines taken by `take_together`
        self._stages = stages
        self._waiting: list[PendingEvaluations] = []
        self._opening = OpeningEvaluations()
        self._within_epochs = False  # whether steps begin again with each epoch
        self._before: tuple[int, float | None, str | None, Mapping[str, float]] = (-1, None, None, {})
        self._bar: PendingEvaluations | None = None  # of an evaluation, whose result a line may still give
        self._bar_place: PhaseAttempt | None = None  # None where it has yet to find its step or attempt
        # by rank: the step of the last line since a record that says one
        self._named: dict[str | None, float] = {}
        # by rank and name: the step and the value that a line has printed last
        self._latest: dict[tuple[str | None, str], tuple[float, float]] = {}
        self._placed: dict[tuple[str | None, str], tuple[float, float, int]] | None = None  # since a record

    def take(self, line: ParsedLine, step: float | None, epoch: float | None = None) -> None:
        """Takes an evaluation; `epoch` is the one in which it stands, where a line announced it."""
        evals = _by_task(line)
        if not evals or self._repeats(line, step, evals):
            return
        if line.pattern.role == "eval" and self._placed is not None:
            step = self._named.get(line.rank) if step is None else step
            last = self._stages.last_step
            if step is not None and last is not None and step >= last:
                self._named[line.rank] = step
        self.place(line, evals, step, epoch)

    def place(
        self, line: ParsedLine, evals: dict[str, float], step: float | None, epoch: float | None = None
    ) -> None:
        """Writes the figures at their step; without one, or behind the records, they wait for the next record."""
        named = line.cells.get("epoch")
        if step is None or self._stages.is_behind(step, named if named == step else None):
            self._wait(line, evals, step, epoch)
        else:
            self._settle_tasks(step)
            self._latest |= {(line.rank, name): (step, value) for name, value in evals.items()}
            self.write(line, evals, step, self._stages.evaluation(step))

    def without_rounded(
        self, line: ParsedLine, step: float | None, evals: Mapping[str, float]
    ) -> dict[str, float]:
        """The figures of a bar, but for those that a line of the same step has printed with more digits."""
        return {
            name: value
            for name, value in evals.items()
            if not self._has_in_full(line.rank, step, name, value)
        }

    def _has_in_full(self, rank: str | None, step: float | None, name: str, value: float) -> bool:
        printed_at, printed = self._latest.get((rank, name), (None, value))
        return printed_at is not None and printed_at == step and is_of(printed, value)

    def of_loop(
        self, line: ParsedLine, evals: dict[str, float], step: float | None, epoch: float | None
    ) -> None:
        """Takes what a loop of evaluation gives; it belongs where the log is."""
        if evals and step is None:
            self._wait(line, evals, None, epoch)
        elif evals:
            self.write(line, evals, step, self._stages.evaluation(step))

    def of_bar(
        self, line: ParsedLine, evals: dict[str, float], step: float | None, epoch: float | None
    ) -> None:
        """Takes a redraw of an evaluation's bar; its last figures count if no line gives the result."""
        if not (self._bar and self._bar.is_redrawn(line, evals)):
            self.end_bar()
        behind = step is None or self._stages.is_behind(step)
        self._bar = self._pending(line, evals, step, epoch)
        self._bar_place = None if behind else self._stages.evaluation(step)

    def end_bar(self, open_ones: Iterable[OpenRecord] = ()) -> None:
        """Takes what a finished bar gives, unless one of the open records gives it itself."""
        bar, self._bar = self._bar, None
        if bar is None or not bar.is_finished or any(bar.are_given_by(draft.evals) for draft in open_ones):
            return
        if self._bar_place is None:
            self._waiting.append(bar)
        else:
            self.write(bar.line, bar.evals, bar.step, self._bar_place)

    def leave_bar(self, evals: Iterable[str], number: int) -> None:
        """Leaves the figures of a bar to a line below it that gives one of them."""
        if self._bar and self._bar.are_given_by(evals) and number >= self._bar.line.number:
            self._bar = None

    def _wait(
        self, line: ParsedLine, evals: dict[str, float], step: float | None, epoch: float | None
    ) -> None:
        self._waiting.append(self._pending(line, evals, step, epoch))

    def _pending(
        self, line: ParsedLine, evals: dict[str, float], step: float | None, epoch: float | None
    ) -> PendingEvaluations:
        stages = self._stages
        reached = stages.last_epoch
        epoch = reached if epoch is None else epoch
        return PendingEvaluations(line, step, evals, stages.here, stages.last_step, epoch, reached)

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
            self.note(line, evals, step)
        return False

    def note(self, line: ParsedLine, evals: Mapping[str, float], step: float) -> None:
        """Notes figures of a step, which a line below may repeat."""
        known = {(line.rank, name): (step, value, line.number) for name, value in evals.items()}
        self._placed = {**(self._placed or {}), **known}

    def _reports(self, line: ParsedLine, step: float | None, name: str, value: float) -> bool:
        before, known, number = (self._placed or {}).get((line.rank, name), (None, None, 0))
        is_same = known == value != round(value, FEW_DIGITS) and step in (None, before)
        return is_same and line.number - number <= REPORTED

    def recorded(self) -> None:
        """Notes that a record has begun: the same figures below it are of another evaluation."""
        self._placed, self._named = {}, {}

    def take_together(self, numbers: Ints, evals: Mapping[str, Numbers], steps: Numbers) -> None:
        """Bulk form of `take`, for evaluations between records; they have neither time nor rank."""
        if not evals:
            return
        repeats = self._repeat(numbers, evals, steps)
        numbers, steps = numbers[~repeats], steps[~repeats]
        evals = {name: values[~repeats] for name, values in evals.items()}
        if not len(numbers):
            return
        self.leave_bar(evals, int(numbers[-1]))
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

        Where steps begin again with the next epoch, an evaluation at the end of one is of that epoch. A record
        without a step ends here: only evaluations above it belong to it.
        """
        if draft is None or (self._bar and self._bar.step is None):
            self.end_bar()
        if draft is None:
            self._named = {}
        last = float("inf") if draft is None or draft.step is not None else draft.line.number
        settled = [waiting for waiting in self._waiting if waiting.line.number < last]
        self._waiting = [waiting for waiting in self._waiting if waiting.line.number >= last]
        here = draft.place if draft else self._stages.here
        anew = (each for each in settled if here and each.is_left_by(here) and each.begins_anew)
        opens = {*self._end_training(settled, draft), *anew}
        for waiting in settled:
            step = waiting.step
            is_left = here and waiting.is_left_by(here) and waiting not in opens
            if step is None and (is_left or waiting.is_of_last):
                self.write(waiting.line, waiting.evals, waiting.last_step, waiting.place)
                continue
            if step is None and self._is_of_unnamed(waiting, draft):
                self.write(waiting.line, waiting.evals, None, waiting.place)
                continue
            after = None
            if step is None:
                step = self._epoch_over(waiting, draft)
            if step is None and draft:
                step, after = draft.step, None if waiting in opens else waiting.last_step
                if self._opening.leads(waiting, draft):
                    continue
            elif step is None:
                step = self._stages.last_step
            place = draft.place if draft and draft.place else self._stages.evaluation(waiting.step)
            self.write(waiting.line, waiting.evals, step, place, after)

    def _end_training(
        self, settled: list[PendingEvaluations], draft: OpenRecord | None
    ) -> list[PendingEvaluations]:
        """Writes the evaluations of a training that ends above the record; returns those that open the next one."""
        here = draft.place if draft else None
        if not self._opening.is_left_by(here):
            return []
        left = [each for each in settled if each.step is None]
        opens = self._opening.of_next(left) if here else []
        for led, step, place in self._opening.end([each for each in left if each not in opens]):
            after = led.last_step if step != led.last_step else None
            self.write(led.line, led.evals, step, place, after)
        for each in opens:
            self._opening.begin(each, here)
        return opens

    def _is_of_unnamed(self, waiting: PendingEvaluations, draft: OpenRecord | None) -> bool:
        """Whether it is of an epoch that nothing names, as the first of an excerpt: steps begin again below it."""
        before, step = waiting.last_step, draft.step if draft else None
        falls = step is not None and before is not None and step < before
        return falls and waiting.epoch is None and self._stages.last_epoch is not None

    def _epoch_over(self, waiting: PendingEvaluations, draft: OpenRecord | None) -> float | None:
        """The epoch of an evaluation if the next record begins a later one with a step that is no later."""
        before, epoch = waiting.last_step, waiting.epoch
        if before is None or epoch is None or not epoch.is_integer():
            return None
        if draft is None:
            return epoch if self._within_epochs else None
        later, length = self._stages.last_epoch, draft.line.cells.get("length")
        if draft.step is None or later is None or later <= epoch:
            return None
        if length and {"epoch", "index"} <= draft.line.shape.columns.keys():  # steps go on in the next epoch
            return before if before % length == 0 else None
        if draft.step > before:
            return None
        self._within_epochs = True
        return epoch

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
        waiting = [*self._waiting, *([self._bar] if self._bar and self._bar.is_finished else [])]
        led = [(each.line, step, each.evals) for each, step, _ in self._opening.led]
        return led + [(pending.line, self._step_at_end(pending), pending.evals) for pending in waiting]

    def _step_at_end(self, pending: PendingEvaluations) -> float | None:
        steps = (pending.step, self._epoch_over(pending, None), self._stages.last_step)
        return next((step for step in steps if step is not None), None)

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
        self.leave_bar(evals, line.number)
        self._opening.note(step, evals)
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


def tested(line: ParsedLine, held_out: str) -> dict[str, float]:
    """The evaluations that a line of a held-out set gives, also where it names them like those of the training.

    The best one so far, `Valid 2.5 | Best 2.25`, is none.
    """
    others = {*PLACES, *CIRCUMSTANCES}
    metrics = [n for n in line.shape.columns if n not in others and not COUNTS.fullmatch(n)]
    named = {f"{held_out}_{name}": line.cells[name] for name in metrics}
    figures = {name: value for name, value in named.items() if not SO_FAR.search(name)}
    if f"{held_out}_loss" not in figures and f"{held_out}_loss_avg" in figures:
        figures[f"{held_out}_loss"] = figures.pop(f"{held_out}_loss_avg")
    return figures | line.evaluations()
