"""Evaluations -> rows: at once where the line says the step, else when the next record, or the end, gives one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse.drafts import Draft, Line
from gputel.analysis.parse.rows import Block, Numbers, Row, Rows
from gputel.analysis.parse.stages import Place, Stages

Ints = npt.NDArray[np.int64]


@dataclass(eq=False, repr=False)
class Waiting:
    """Evaluations that the next record gives their step, or their attempt."""

    line: Line
    step: float | None
    evals: dict[str, float]


class Evaluations:
    """`rows` grow; `lines` are those that evaluated the run, and not one task of a benchmark."""

    def __init__(self, stages: Stages) -> None:
        self.rows = Rows()
        self.lines: list[Line] = []
        self.numbers: list[int] = []  # of such lines that were taken together
        self._stages = stages
        self._waiting: list[Waiting] = []

    def take(self, line: Line, step: float | None) -> None:
        evals = _by_task(line)
        if not evals:
            return
        if step is None or self._stages.is_behind(step):
            self._waiting.append(Waiting(line, step, evals))
        else:
            self.write(line, evals, step, self._stages.evaluation(step))

    def take_together(self, numbers: Ints, evals: Mapping[str, Numbers], steps: Numbers) -> None:
        """Those of many lines, which stand among records of the steps around theirs, have no stamp and no rank."""
        if not evals:
            return
        place = self._stages.evaluation(float(steps[-1]))
        self.numbers += numbers.tolist()
        for name, values in evals.items():
            columns = {"step": steps, "value": values, "line": numbers}
            same: Row = {"phase": place.phase, "attempt": place.attempt, "name": name}
            self.rows.extend(Block(len(numbers), columns, same))

    def settle(self, draft: Draft | None) -> None:
        """Rule 19: an evaluation without a step takes that of the next record, else of the last one."""
        for waiting in self._waiting:
            step = waiting.step
            if step is None:
                step = draft.step if draft else self._stages.last_step
            place = draft.place if draft and draft.place else self._stages.evaluation(waiting.step)
            self.write(waiting.line, waiting.evals, step, place)
        self._waiting.clear()

    def waiting(self) -> list[tuple[Line, float | None, dict[str, float]]]:
        """Those that would be of the last step if the log ended here."""
        return [
            (one.line, self._stages.last_step if one.step is None else one.step, one.evals)
            for one in self._waiting
        ]

    def hand_over(self) -> Rows:
        """Rows since the last call, which are kept here no longer."""
        done, self.rows = self.rows, Rows()
        return done

    def write(self, line: Line, evals: dict[str, float], step: float | None, place: Place) -> None:
        if line.pattern.role != "task":
            self.lines.append(line)
        for name, value in evals.items():
            self.rows.append(
                {
                    "phase": place.phase,
                    "attempt": place.attempt,
                    "step": step,
                    "name": name,
                    "value": value,
                    "line": line.number,
                    "time": line.time,
                    "rank": line.rank,
                }
            )


def _by_task(line: Line) -> dict[str, float]:
    """What is measured of a task has the task's name in front of its own; its accuracy is the task's figure."""
    evals = line.evaluations()
    if line.pattern.role != "task":
        return evals
    task = line.texts.get("task", "task")
    return {task if name == "accuracy" else f"{task}_{name}": value for name, value in evals.items()}
