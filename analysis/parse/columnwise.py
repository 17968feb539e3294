"""Runs of lines whose steps rise -> rows taken over column by column, with the evaluations among them.

Only where that gives the very rows that line by line would give: each a record of its own, of one rank, of a step
later than the one before, or of none. Whoever asks gets False otherwise, and nothing has been taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gputel.analysis.parse.counting import Counting
from gputel.analysis.parse.evaluations import Evaluations
from gputel.analysis.parse.heads import Heads, Moments
from gputel.analysis.parse.open_records import OpenRecords
from gputel.analysis.parse.patterns import Field
from gputel.analysis.parse.plans import Plan
from gputel.analysis.parse.rows import MOST, WHOLE, Block, Column, Numbers
from gputel.analysis.parse.stages import Stages
from gputel.analysis.parse.tables import Aside, Run, Table

Cells = dict[str, Numbers]
SHORTEST = 4  # lines, of which fewer are not worth it


class Columnwise:
    """Adds to the rows of `records` and `evaluations`, between lines that were taken one by one."""

    def __init__(
        self,
        records: OpenRecords,
        counting: Counting,
        stages: Stages,
        evaluations: Evaluations,
        heads: Heads,
        sources: dict[str, Field],
    ) -> None:
        self._records, self._counting, self._stages = records, counting, stages
        self._evaluations, self._heads, self._sources = evaluations, heads, sources

    def rising(self, run: Run) -> Iterator[Run]:
        """Stretches of the run within which the steps rise: restarts, and the copies of ranks, end one."""
        table, shape, first, end = run
        cuts: list[int] = []
        if end - first > SHORTEST and _is_plain(table, shape):
            cells = table.columns(shape, slice(first, end))
            steps = shape.step(cells, self._counting.from_zero(table.pattern))
            if steps is not None:
                cuts = (np.flatnonzero(~(steps[1:] > steps[:-1])) + first + 1).tolist()
            elif "epoch" in cells and not self._counting.has_fractions:
                epochs = cells["epoch"]
                cuts = (np.flatnonzero(epochs != np.floor(epochs))[:1] + first + 1).tolist()
        for start, stop in zip([first, *cuts], [*cuts, end], strict=True):
            yield run.within(start, stop)

    def take(self, run: Run, asides: list[Aside]) -> bool:
        """The line before the run is the record that is open."""
        table, shape, first, end = run
        if end - first < SHORTEST or not _is_plain(table, shape):
            return False
        cells = table.columns(shape, slice(first - 1, end))
        steps = shape.step(cells, self._counting.from_zero(table.pattern))
        if not self._are_records(table, cells, steps, asides):
            return False
        if steps is None and self._counting.tells_epoch(shape):
            return False
        headed = table.prefixed(first - 1, end) or table.stamped(first - 1, end)
        if steps is not None and not all(
            self._is_on_time(aside, steps[aside.before - first]) and not headed for aside in asides
        ):
            return False
        rank = self._heads.of(table, first - 1)[1]
        draft = self._records.drafts.get(rank)
        if not draft or draft.step != (None if steps is None else steps[0]):
            return False
        times = self._heads.times(table, first, end, rank) if headed else np.empty(0, dtype=np.int64)
        if times is None:
            return False
        self._records.close(rank)
        self._write(run, cells, steps, times, rank)
        for aside in asides:
            self._evaluate(aside)
        return True

    def _are_records(self, table: Table, cells: Cells, steps: Numbers | None, asides: list[Aside]) -> bool:
        """Whether each is a record of its own, and holds no number that is too large for its column."""
        if steps is None:
            waits = any(len(aside.rows) for aside in asides)  # for a step
            apart = self._counting.has_none(table.pattern) and not waits
        else:
            apart = _are_steps(steps)
        return apart and all(bool(np.all(np.abs(cells[name]) < MOST)) for name in WHOLE if name in cells)

    def _is_on_time(self, aside: Aside, steps: Numbers) -> bool:
        """Whether none would change how what follows is read; `steps` are those of the records before each."""
        table, shape, rows, _ = aside
        if not len(rows):
            return True
        if table.has_heads or table.pattern.stage or shape.texts or "epoch" in shape.columns:
            return False
        own = shape.step(table.columns(shape, rows), self._counting.from_zero(table.pattern))
        return own is not None and bool(np.all((own >= steps) & (own < MOST) & (own == np.floor(own))))

    def _write(self, run: Run, cells: Cells, steps: Numbers | None, times: Moments, rank: str | None) -> None:
        """`cells` and `steps` begin with those of the line before."""
        table, shape, first, end = run
        columns: dict[str, Column] = {"line": table.numbers[first:end]}
        if steps is not None:
            columns["step"] = steps[1:]
        columns.update({name: values[1:] for name, values in cells.items() if name not in shape.places})
        if len(times):
            columns["time"] = times
        place = self._stages.here
        same: dict[str, float | str | None] = {
            "phase": place.phase,
            "attempt": place.attempt,
            "rank": rank,
        }
        if self._counting.tells_epoch(shape):
            same["epoch"] = self._counting.epoch({})
        self._records.steps.extend(Block(end - first, columns, same))
        if steps is not None:
            last = {"epoch": float(cells["epoch"][-1])} if "epoch" in cells else {}
            self._stages.went_on(float(steps[-1]), rank, self._counting.epoch(last))

    def _evaluate(self, aside: Aside) -> None:
        table, shape, rows, _ = aside
        step = shape.step(table.columns(shape, rows), self._counting.from_zero(table.pattern))
        if len(rows) and step is not None:
            for name, what in (*shape.columns.items(), *shape.evals.items()):
                self._sources.setdefault(name, what)
            self._evaluations.take_together(table.numbers[rows], table.evaluations(shape, rows), step)


def _are_steps(steps: Numbers) -> bool:
    """Whole numbers that rise."""
    rising, whole = np.all(steps[1:] > steps[:-1]), np.all(steps == np.floor(steps))
    return bool(rising and whole and np.all(np.abs(steps) < MOST))


def _is_plain(table: Table, shape: Plan) -> bool:
    """Lines of which each begins a record, and says nothing of an evaluation or a stage."""
    texts = any(what.kind == "text" for what in shape.columns.values())
    return (
        table.pattern.role == "train" and shape.record and not (shape.evals or texts or table.pattern.stage)
    )
