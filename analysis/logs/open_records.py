"""Lines of records and redraws of bars -> rows of steps and partial redraws.

A line begins a record, other lines add to it, and the next step of its rank closes it. Until then it is open:
later lines may still add to it or redraw it.

`Columnwise` takes long runs of lines whose steps rise column by column, with the evaluations among them, but only
where that gives the same rows as line by line: each line is a record of its own, of one rank, with a later step
than the one before, or none has a step. Otherwise it takes nothing and returns False.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gputel.analysis.logs import rank_turns
from gputel.analysis.logs.counting import BarKey, Counting, Evaluations
from gputel.analysis.logs.drafts import OpenRecord, ParsedLine, Stages
from gputel.analysis.logs.frames import MOST, WHOLE, Column, Numbers, RowBlock, Rows
from gputel.analysis.logs.hits import Aside, Heads, HitRun, HitTable, Ints, Moments
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES, COLUMN, PLACES, LinePlan
from gputel.analysis.logs.patterns import Field

Cells = dict[str, Numbers]
RATES = ("lr", "lrm")  # in effect from the line on
SHORTEST = 4  # lines from which on a run is taken by columns


class OpenRecords:
    """Builds records from lines; `steps` and `partials` are the rows so far."""

    def __init__(
        self, counting: Counting, stages: Stages, evaluations: Evaluations, sources: dict[str, Field]
    ) -> None:
        self.steps, self.partials = Rows(), Rows()
        self.broken_off = False  # whether the last bar had not reached its end
        self.at_last_step = False  # whether the last record was of the last step of the last epoch
        self.drafts: dict[str | None, OpenRecord] = {}  # by rank
        self._repeats: dict[str | None, OpenRecord] = {}  # by rank: parts that the open record has already
        self._epoch: float | None = None  # announced, and no record of it has come
        self._leading: list[ParsedLine] = []  # parts of the record to come
        self.header: list[str] = []  # the names of a table's columns
        self._redraws = False  # whether a bar was drawn before its end
        self._has_loss = False  # whether a bar gave its current loss
        self._counting, self._stages, self._evaluations = counting, stages, evaluations
        self._sources = sources

    def take(self, line: ParsedLine) -> None:
        step = self._counting.of_record(line, self._stages.step_of(line.rank))
        if self._leads(line):
            self._leading.append(line)
            return
        draft = self._open_for(line, step)
        is_placed = draft is not None and draft.step is None and step is not None
        if draft:
            draft.add(line, step)
        elif line.pattern.role == "train":
            self.close(line.rank)
            draft = self.drafts[line.rank] = OpenRecord(line, step, line.metrics(), line.evaluations())
            self._join(draft)
        else:
            self._repeat(line, step)
            return
        begins = line.shape.record or (draft.is_record and line.pattern.role == "train")
        if (begins and draft.place is None) or (is_placed and draft.place):
            self._begin(draft)

    def _repeat(self, line: ParsedLine, step: float | None) -> None:
        """Takes a part that the open record has already: of the next record, if a later step and a loss follow.

        So it is where the line that usually comes first is missing. A record whose first line says the step is over
        with the next such line only.
        """
        open_one, repeats = self.drafts.get(line.rank), self._repeats.get(line.rank)
        if not open_one or open_one.redraw or open_one.step is None or open_one.line.shape.place:
            return
        if repeats and repeats.takes(line, step):
            repeats.add(line, step)
        else:
            repeats = OpenRecord(line, step, line.metrics(), line.evaluations())
        self._repeats[line.rank] = repeats
        if repeats.is_record and repeats.step is not None and repeats.step > open_one.step:
            self.close(line.rank)
            self.drafts[line.rank] = repeats
            self._begin(repeats)

    def evaluate(self, line: ParsedLine) -> bool:
        """Whether an evaluation without a step stands right below a record of several lines; it takes its step."""
        open_ones = [draft for draft in self.drafts.values() if draft.place or draft.evals]
        blocks = [draft for draft in open_ones if draft.ends_above(line)]
        for draft in blocks[:1]:
            draft.end = line.number
            self._evaluations.write(line, line.evaluations(), draft.step, draft.place or self._stages.here)
        return bool(blocks)

    def redraw(self, line: ParsedLine) -> None:
        """Keeps a progress bar's last redraw per epoch, or per step count if it names no epoch."""
        epoch = self._counting.epoch_of_test(line)
        if epoch is not None and self._is_another_bar(line):
            self._test(line, epoch)
            return
        draft = self.drafts.get(line.rank)
        if draft and self._begins_again(line, draft):
            self.close(line.rank)
            self._counting.leave_epoch()
            draft = None
        if draft and self._is_next_end(line, draft):
            self._leave(draft)
            draft = None
        key, step = self._counting.of_bar(line)
        count = line.cells.get("count", 0.0)
        self._redraws = self._redraws or count < line.cells.get("total", count)
        if draft and self._is_second_bar(line, draft, key):
            draft.evals.update(tested(line, "val"))
            return
        new = OpenRecord(line, step, self._titled(line), line.evaluations())
        new.redraw = (*key, count)
        if draft and draft.redraw and draft.redraw[:2] == key:
            self.partials.append(draft.row(draft.place or self._stages.here))
            new.place, new.redraw = draft.place, (*key, max(count, draft.redraw[2]))
        else:
            self.close(line.rank)
        self.drafts[line.rank] = new
        if line.shape.record and new.place is None:
            self._begin(new)

    def begin_epoch(self, line: ParsedLine) -> None:
        """Closes the bar of another epoch, and of this one where other lines follow it: it begins once more.

        Right below a redraw of this epoch it is the line of another rank. Parts below belong to records to come, as
        do its own rates: `Epoch 3, lr 0.1`.
        """
        epoch = line.cells.get("epoch")
        rates = {name: line.cells[name] for name in RATES if name in line.cells and not line.shape.evals}
        self._epoch, self._leading = epoch, [replace(line, cells=rates)] if rates else []
        for rank, draft in list(self.drafts.items()):
            is_apart = line.number > draft.line.number + 1
            if draft.redraw and draft.redraw[0] == "epoch" and (is_apart or draft.redraw[1] != epoch):
                self.close(rank)

    def close(self, rank: str | None) -> None:
        draft = self.drafts.pop(rank, None)
        self._repeats.pop(rank, None)
        if not draft:
            return
        if draft.place:
            if draft.redraw:
                self._join(draft)
            if draft.step is None:
                self._evaluations.settle(draft)
            self.steps.append(draft.row(draft.place))
            self.at_last_step = self._counting.is_last(draft.cells, draft.line.pattern)
            total = draft.line.cells.get("total", 0.0)
            self.broken_off = draft.redraw is not None and draft.redraw[2] < total
        elif draft.step is not None:  # a last line may say only how far the run has come
            self.at_last_step = draft.step >= draft.cells.get("total_steps", float("inf"))
        if draft.evals:
            place = draft.place or self._stages.evaluation(draft.step)
            self._evaluations.write(draft.line, draft.evals, draft.step, place)

    def close_all(self) -> None:
        for rank in list(self.drafts):
            self.close(rank)

    def hand_over(self) -> tuple[Rows, Rows]:
        """Hands over the rows of steps and partials since the last call."""
        done = (self.steps, self.partials)
        self.steps, self.partials = Rows(), Rows()
        return done

    def _open_for(self, line: ParsedLine, step: float | None) -> OpenRecord | None:
        """The open record that the line adds to: one of its rank; no rank on either side matches any."""
        own = self.drafts.get(line.rank)
        others = [draft for rank, draft in self.drafts.items() if rank is None or line.rank is None]
        is_part = line.pattern.role == "part"
        open_to_it = [d for d in (own, *others) if d and (is_part or not d.redraw)]
        return next((draft for draft in open_to_it if draft.takes(line, step)), None)

    def _leads(self, line: ParsedLine) -> bool:
        """Whether a part stands below the line of an epoch and above its first record: `Epoch 2`, `LR: 0.1`."""
        if self._epoch is None or line.pattern.role != "part":
            return False
        draft = self.drafts.get(line.rank)
        return draft is None or draft.cells.get("epoch") != self._epoch

    def _join(self, draft: OpenRecord) -> None:
        """Adds the parts that stand above it to the first record of an epoch."""
        for part in self._leading:
            draft.add(part, None)
        draft.end = max(draft.end, draft.line.number)
        self._leading, self._epoch = [], None

    def _begin(self, draft: OpenRecord) -> None:
        draft.place = self._stages.record(draft.step, draft.line.rank, self._counting.epoch(draft.cells))
        if draft.step is not None:  # else a later line of the record may give it
            self._evaluations.settle(draft)

    def _is_another_bar(self, line: ParsedLine) -> bool:
        """Whether a bar after a finished epoch has another length: it is the bar of a test (Keras)."""
        draft = self.drafts.get(line.rank)
        if not draft or not draft.redraw:
            return False
        total = draft.line.cells.get("total")
        return total is not None and draft.redraw[2] >= total != line.cells.get("total", total)

    def _begins_again(self, line: ParsedLine, draft: OpenRecord) -> bool:
        """Whether a bar that had come to its end begins once more in an epoch that was announced for one."""
        if draft.redraw is None or draft.redraw[0] not in ("epoch", "pass") or "epoch" in line.cells:
            return False
        total, count = line.cells.get("total"), line.cells.get("count")
        return total is not None and count is not None and draft.redraw[2] >= total > count

    def _is_next_end(self, line: ParsedLine, draft: OpenRecord) -> bool:
        """Whether it is the end of a bar, below that of another one, in a log that only prints the ends of bars.

        The end of one bar may be printed twice, but with one loss.
        """
        if (
            draft.redraw is None
            or draft.redraw[0] == "epoch"
            or self._redraws
            or line.number <= draft.line.number
        ):
            return False
        count, losses = line.cells.get("count"), (line.cells.get("loss"), draft.cells.get("loss"))
        is_end = count is not None and count == line.cells.get("total") == draft.line.cells.get("total")
        is_announced = self._counting.epoch(line.cells) is not None
        return is_end and not is_announced and None not in losses and losses[0] != losses[1]

    def _leave(self, draft: OpenRecord) -> None:
        """Closes a bar of which only the end is printed: its count is no step, as the others have the same."""
        draft.step = None
        draft.cells.pop("total_steps", None)
        self.close(draft.line.rank)
        self._counting.leave_epoch()

    def _is_second_bar(self, line: ParsedLine, draft: OpenRecord, key: BarKey) -> bool:
        """Whether a bar names the epoch that another bar has finished: `Epoch 3 [Val]` below `Epoch 3 [Train]`."""
        same = draft.redraw is not None and draft.redraw[:2] == key and key[0] == "epoch"
        return same and self._is_another_bar(line)

    def _test(self, line: ParsedLine, epoch: float) -> None:
        """Takes the last redraw of a test's bar as an evaluation at the finished epoch."""
        if line.cells["count"] < line.cells["total"]:
            return
        self._evaluations.write(line, tested(line, "val"), epoch, self._stages.here)

    def _titled(self, line: ParsedLine) -> dict[str, float]:
        """The values of a record, with a table's columns named by its header; a lone average is the loss."""
        cells = line.metrics()
        self._has_loss = self._has_loss or "loss" in cells
        if "loss_avg" in cells and not self._has_loss:
            cells["loss"] = cells.pop("loss_avg")
            self._sources.setdefault("loss", self._sources["loss_avg"])
        for name in [name for name in cells if name.startswith(COLUMN)]:
            at = int(name.removeprefix(COLUMN)) - 1
            title = self.header[at] if at < len(self.header) else name
            cells[title] = cells.pop(name)
            self._sources.setdefault(title, Field(title, title))
        return cells


def tested(line: ParsedLine, held_out: str) -> dict[str, float]:
    """The evaluations that a line of a held-out set gives, also where it names them like those of the training."""
    metrics = [name for name in line.shape.columns if name not in PLACES and name not in CIRCUMSTANCES]
    figures = {f"{held_out}_{name}": line.cells[name] for name in metrics}
    if f"{held_out}_loss" not in figures and f"{held_out}_loss_avg" in figures:
        figures[f"{held_out}_loss"] = figures.pop(f"{held_out}_loss_avg")
    return figures | line.evaluations()


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
        table, shape, first, end = run
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
        table, shape, first, end = run
        cuts: list[int] = []
        if end - first > SHORTEST and _is_plain(table, shape):
            cells = table.columns(shape, slice(first, end))
            steps = shape.step(cells, self._counting.from_zero(table.pattern))
            if steps is not None:
                falls = np.flatnonzero(~(steps[1:] > steps[:-1])) + first + 1
                waiting = [self._waiting(aside.within(first + 1, end), first, steps) for aside in asides]
                cuts = np.unique(np.concatenate([falls, *waiting])).tolist()
            elif "epoch" in cells and not self._counting.has_fractions:
                epochs = cells["epoch"]
                cuts = (np.flatnonzero(epochs != np.floor(epochs))[:1] + first + 1).tolist()
        for start, stop in zip([first, *cuts], [*cuts, end], strict=True):
            yield run.within(start, stop)

    def take(self, run: HitRun, asides: list[Aside]) -> bool:
        """Takes a run whose line before is the open record; returns False, with nothing taken, if it cannot."""
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
        if steps is not None and any(
            headed or len(self._waiting(aside, first - 1, steps)) for aside in asides
        ):
            return False
        rank = self._heads.time_and_rank(table, first - 1)[1]
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

    def _waiting(self, aside: Aside, first: int, steps: Numbers) -> Ints:
        """Rows of the run below evaluations that a record beside them gives a step, or that affect later records.

        `steps` are those of the rows from `first` on.
        """
        table, shape, rows, before = aside
        if table.has_heads or table.pattern.stage or shape.texts or "epoch" in shape.columns:
            return before
        own = shape.step(table.columns(shape, rows), self._counting.from_zero(table.pattern))
        if own is None:
            return before
        on_time = (own >= steps[before - first - 1]) & (own < MOST) & (own == np.floor(own))
        return before.compress(~on_time)

    def _write(
        self, run: HitRun, cells: Cells, steps: Numbers | None, times: Moments, rank: str | None
    ) -> None:
        """Writes the rows; `cells` and `steps` begin with the line before the run."""
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
        self._records.steps.extend(RowBlock(end - first, columns, same))
        if steps is not None:
            last = {"epoch": float(cells["epoch"][-1])} if "epoch" in cells else {}
            self._stages.went_on(float(steps[-1]), rank, self._counting.epoch(last), end - first)

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
