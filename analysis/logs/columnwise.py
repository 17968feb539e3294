"""Long runs of lines whose steps rise, taken column by column, with the evaluations among them.

Only where that gives the same rows as line by line: each line is a record of its own, with a later step than the
one before of its rank, or none has a step. Otherwise nothing is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gputel.analysis.logs import rank_turns
from gputel.analysis.logs.counting import Counting
from gputel.analysis.logs.evaluations import Evaluations
from gputel.analysis.logs.frames import MOST, WHOLE, Column, Numbers, RowBlock
from gputel.analysis.logs.hits import Aside, Heads, HitRun, HitTable, Ints, Moments
from gputel.analysis.logs.line_kinds import LinePlan
from gputel.analysis.logs.open_records import OpenRecords
from gputel.analysis.logs.patterns import Field
from gputel.analysis.logs.stages import Stages

Cells = dict[str, Numbers]
SHORTEST = 4  # lines from which on a run is taken by columns


class Columnwise:
    """Adds runs of lines to the rows of `records` and `evaluations`."""

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

    def by_rank(self, run: HitRun) -> Iterator[HitRun]:
        """The run rank by rank, if the lines of several ranks take turns."""
        table, shape, first, end, _ = run
        steps = None
        if (
            end - first >= rank_turns.SHORTEST
            and None not in self._records.drafts
            and _is_plain(table, shape)
        ):
            cells = table.columns(shape, slice(first, end))
            steps = shape.step(cells, self._counting.from_zero(table.pattern))
        return iter([run]) if steps is None else rank_turns.by_rank(run, steps, self._heads.stamps)

    def rising(self, run: HitRun, asides: list[Aside]) -> Iterator[HitRun]:
        """Cuts the run where steps do not rise, at restarts and at copies by other ranks, and below evaluations
        that take their step from a record.
        """
        table, shape, first, end, _ = run
        cuts: list[int] = []
        if end - first > SHORTEST and _is_plain(table, shape):
            cells = table.columns(shape, slice(first, end))
            steps = shape.step(cells, self._counting.from_zero(table.pattern))
            if steps is not None:
                falls = np.flatnonzero(~(steps[1:] > steps[:-1])) + first + 1
                within = [aside.within(first + 1, end) for aside in asides]
                waiting = [self._waiting(aside, first, steps, cells) for aside in within]
                cuts = np.unique(np.concatenate([falls, *waiting])).tolist()
            elif "epoch" in cells:
                epochs = cells["epoch"]
                falls = np.flatnonzero(epochs[1:] < epochs[:-1])
                fractions = np.flatnonzero(epochs != np.floor(epochs))
                fractions = fractions[:0] if self._counting.has_fractions else fractions[:1]
                cuts = (np.unique(np.concatenate([falls, fractions])) + first + 1).tolist()
        for start, stop in zip([first, *cuts], [*cuts, end], strict=True):
            yield run.within(start, stop)

    def take(self, run: HitRun, asides: list[Aside]) -> bool:
        """Takes a run whose line before is the open record; returns False, with nothing taken, if it cannot."""
        table, shape, first, end, below = run
        if end - first < SHORTEST or not _is_plain(table, shape):
            return False
        cells = table.columns(shape, slice(first - 1, end))
        steps = shape.step(cells, self._counting.from_zero(table.pattern))
        if not self._are_records(table, cells, steps, asides):
            return False
        headed = table.prefixed(first - 1, end) or table.stamped(first - 1, end)
        if below and (steps is None or headed or below.table.has_heads):
            return False
        if steps is not None and any(
            headed or len(self._waiting(aside, first - 1, steps, cells)) for aside in asides
        ):
            return False
        rank = self._heads.time_and_rank(table, first - 1)[1]
        if steps is None and self._counting.tells_epoch(shape, rank):
            return False
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

    def _are_records(self, table: HitTable, cells: Cells, steps: Numbers | None, asides: list[Aside]) -> bool:
        """Whether each line is a record of its own, and no number is too large for its column."""
        if steps is None:
            waits = any(len(aside.rows) for aside in asides)  # for a step
            apart = self._counting.has_none(table.pattern) and not waits
        else:
            apart = _are_steps(steps)
        return apart and all(bool(np.all(np.abs(cells[name]) < MOST)) for name in WHOLE if name in cells)

    def _waiting(self, aside: Aside, first: int, steps: Numbers, cells: Cells) -> Ints:
        """Rows of the run below evaluations that a record beside them gives a step, or that affect later records.

        `steps` and `cells` are those of the rows from `first` on.
        """
        table, shape, rows, before = aside
        if table.has_heads or table.pattern.stage or shape.texts or "epoch" in shape.columns:
            return before
        own = shape.step(table.columns(shape, rows), self._counting.from_zero(table.pattern))
        if own is None:
            return before
        above = before - first - 1
        on_time = (own >= steps[above]) & (own < MOST) & (own == np.floor(own))
        if "iteration" in cells:
            on_time &= shape.place != "iteration"
            on_time &= (own == steps[above]) | (own != cells["iteration"][above])
        return before.compress(~on_time)

    def _write(
        self, run: HitRun, cells: Cells, steps: Numbers | None, times: Moments, rank: str | None
    ) -> None:
        """Writes the rows; `cells` and `steps` begin with the line before the run."""
        table, shape, first, end, below = run
        columns: dict[str, Column] = {"line": table.numbers[first:end]}
        if steps is not None:
            columns["step"] = steps[1:]
        columns.update({name: values[1:] for name, values in cells.items() if name not in shape.places})
        if below:
            columns.update(below.table.columns(below.shape, slice(below.first, below.end)))
        if len(times):
            columns["time"] = times
        place = self._stages.here
        same: dict[str, float | str | None] = {
            "phase": place.phase,
            "attempt": place.attempt,
            "rank": rank,
        }
        if self._counting.tells_epoch(shape, rank):
            same["epoch"] = self._counting.epoch({}, rank)
        self._records.steps.extend(RowBlock(end - first, columns, same))
        if steps is not None:
            last: dict[str, float] = {
                name: float(cells[name][-1]) for name in ("epoch", "total_steps") if name in cells
            }
            epoch, total = self._counting.epoch(last, rank), last.get("total_steps")
            self._stages.went_on(float(steps[-1]), rank, epoch, total, end - first)
        elif "epoch" in cells:
            self._stages.reached(rank, float(cells["epoch"][-1]))

    def _evaluate(self, aside: Aside) -> None:
        table, shape, rows, _ = aside
        step = shape.step(table.columns(shape, rows), self._counting.from_zero(table.pattern))
        if len(rows) and step is not None:
            for name, what in (*shape.columns.items(), *shape.evals.items()):
                self._sources.setdefault(name, what)
            self._evaluations.take_together(table.numbers[rows], table.evaluations(shape, rows), step)


def _are_steps(steps: Numbers) -> bool:
    """Whether they are whole numbers that rise."""
    rising, whole = np.all(steps[1:] > steps[:-1]), np.all(steps == np.floor(steps))
    return bool(rising and whole and np.all(np.abs(steps) < MOST))


def _is_plain(table: HitTable, shape: LinePlan) -> bool:
    """Whether each line begins a record, without an evaluation or a stage."""
    texts = any(what.kind == "text" for what in shape.columns.values())
    return (
        table.pattern.role == "train" and shape.record and not (shape.evals or texts or table.pattern.stage)
    )
