"""Hits of an engine -> rows of steps, evaluations and partial redraws, by the rules that docs/parse.md gives.

Runs of lines of one shape whose steps rise are taken over column by column; everything else goes row by row. What
is not finished when a piece of the log ends (the record that a next line may add to, the redraw that may be drawn
over, the evaluation that waits for a step) is kept until it is, so that pieces give the same rows as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import names, prefixes
from gputel.analysis.parse.drafts import Draft, Line
from gputel.analysis.parse.evaluations import Evaluations
from gputel.analysis.parse.lines import Chunk
from gputel.analysis.parse.patterns import Field, Pattern, Reading
from gputel.analysis.parse.plans import CIRCUMSTANCES, COLUMN, PLACES, Plan
from gputel.analysis.parse.rows import MOST, WHOLE, Block, Numbers, Rows
from gputel.analysis.parse.stages import Stages
from gputel.analysis.parse.tables import Aside, Run, Table, stretches

ROLES = ("train", "part", "bar", "eval", "task", "epoch", "header", "begins", "names")
SHORTEST_BLOCK = 4


class Assembler:
    """Takes readings chunk by chunk; `steps`, `evaluations` and `partials` grow until `finish`."""

    def __init__(self) -> None:
        self.steps, self.partials = Rows(), Rows()
        self.stages = Stages()
        self.evaluations = Evaluations(self.stages)
        self.stamps = prefixes.Stamps()
        self.sources: dict[str, Field] = {}
        self.epoch_lines: list[Line] = []
        self.broken_off = False  # whether the last bar had not come to its end
        self.in_last_place = False  # whether the last record was of the last step of the last epoch
        self._handed_over = False  # whether steps were
        self._drafts: dict[str | None, Draft] = {}
        self._epoch: dict[str, float] = {}  # from the line before
        self._header: list[str] = []  # what the columns of a table are called
        self._epochs_are_steps = False
        self._fractions = False  # an epoch with a fraction was printed: in this log none is a step
        self._zero_based = False

    @property
    def begun(self) -> bool:
        """Whether a training record has been read."""
        return (
            self.steps.count > 0 or self._handed_over or any(draft.place for draft in self._drafts.values())
        )

    def hand_over(self) -> tuple[Rows, Rows, Rows]:
        """Steps, evaluations and partials since the last call, which are kept here no longer."""
        done = (self.steps, self.evaluations.rows, self.partials)
        self._handed_over = self._handed_over or self.steps.count > 0
        self.steps, self.evaluations.rows, self.partials = Rows(), Rows(), Rows()
        return done

    def drafts(self) -> list[Draft]:
        """The records that lines to come may still add to, or draw over."""
        return list(self._drafts.values())

    def add(self, reading: Reading, chunk: Chunk) -> None:
        tables = [Table(hits, chunk) for hits in reading.hits if hits.pattern.role in ROLES]
        for run, asides in stretches(tables):
            for part in self._rising(run):
                self._stretch(part, [aside.within(part.first, part.end) for aside in asides])

    def _rising(self, run: Run) -> Iterator[Run]:
        """Stretches of the run within which the steps rise: restarts, and the copies of ranks, end one."""
        table, first, end = run
        cuts: list[int] = []
        if end - first > SHORTEST_BLOCK and _is_plain(table, run.shape):
            steps = run.shape.step(
                table.columns(run.shape, slice(first, end)), self._counts_from_zero(table.pattern)
            )
            if steps is None and "epoch" in run.shape.columns and not self._fractions:
                epochs = table.columns(run.shape, slice(first, end))["epoch"]
                cuts = (np.flatnonzero(epochs != np.floor(epochs))[:1] + first + 1).tolist()
            if steps is not None:
                cuts = (np.flatnonzero(~(steps[1:] > steps[:-1])) + first + 1).tolist()
        for start, stop in zip([first, *cuts], [*cuts, end], strict=True):
            yield Run(table, start, stop)

    def _stretch(self, run: Run, asides: list[Aside]) -> None:
        """Its first and its last line are neighbours of others, and are taken for themselves."""
        table, first, end = run
        self._one_by_one(Run(table, first, first + 1), [aside.within(first, first + 1) for aside in asides])
        first += 1
        asides = [aside.within(first, end) for aside in asides]
        if end - first > SHORTEST_BLOCK and self._block(table, run.shape, first, end - 1, asides):
            first, asides = end - 1, []
        self._one_by_one(Run(table, first, end), asides)

    def _one_by_one(self, run: Run, asides: list[Aside]) -> None:
        """All lines in the order of the file."""
        rows = [(int(run.table.lines[row]), run.table, row) for row in range(run.first, run.end)]
        rows += [
            (int(aside.table.lines[row]), aside.table, row) for aside in asides for row in aside.rows.tolist()
        ]
        for _, table, row in sorted(rows, key=lambda one: one[0]):
            self._take(self._line(table, table.plan(row), row))

    def finish(self) -> None:
        """The log has ended: what was open is as it is now."""
        self._close_all()
        self.evaluations.settle(None)

    def _line(self, table: Table, shape: Plan, row: int) -> Line:
        time, rank = self._head(table, row)
        texts = table.texts(shape, row)
        if "time" in texts:
            time = self.stamps.read(texts["time"].encode()) or time
        for name, what in (*shape.columns.items(), *shape.evals.items()):
            self.sources.setdefault(name, what)
        return Line(table.pattern, shape, table.cells(shape, row), texts, int(table.numbers[row]), time, rank)

    def _head(self, table: Table, row: int) -> tuple[int | None, str | None]:
        """Read once per line and in order: stamps without a date count the midnights between them."""
        if row not in table.heads:
            prefix = table.prefix(row)
            table.heads[row] = (self.stamps.read(prefix), prefixes.rank(prefix)) if prefix else (None, None)
        return table.heads[row]

    def _take(self, line: Line) -> None:
        cells = line.cells
        if line.pattern.stage or "stage" in line.texts:
            self._announce(line)
        if cells.get("epoch") == 0:
            self._zero_based = True
        if not cells.get("epoch", 0.0).is_integer():
            self._fractions = True
        match line.pattern.role:
            case "epoch":
                self._epoch = {name: cells[name] for name in ("epoch", "epochs") if name in cells}
                self.epoch_lines.append(line)
            case "header":
                self._header = [names.title(word) for word in line.texts["columns"].split()]
            case "eval" | "task":
                self._evaluate(line)
            case "bar":
                self._redraw(line)
            case "train" | "part":
                self._record(line)

    def _announce(self, line: Line) -> None:
        stage = line.pattern.stage or line.texts["stage"]
        if line.pattern.role == "names":
            self.stages.name(stage)
        elif self.stages.changes(stage):
            self.finish()
            self.stages.announce(stage)
        else:
            self.stages.announce(stage)

    # A record: begun by a line, added to by others, closed by the next step.

    def _record(self, line: Line) -> None:
        step = self._step(line)
        draft = self._draft(line.rank)
        if draft and not draft.redraw and draft.takes(line, step):
            draft.add(line, step)
        elif line.pattern.role == "train":
            self._close(line.rank)
            draft = Draft(line, step, line.metrics(), line.evaluations())
            self._drafts[line.rank] = draft
        else:
            return
        if line.shape.record and draft.place is None:
            self._begin(draft)

    def _draft(self, rank: str | None) -> Draft | None:
        """What this rank has open; a line that names no rank speaks for the only one, and the other way round."""
        if rank in self._drafts or len(self._drafts) != 1:
            return self._drafts.get(rank)
        ((other, draft),) = self._drafts.items()
        return draft if rank is None or other is None else None

    def _redraw(self, line: Line) -> None:
        """Rule 8: of a bar that names its epoch the last redraw counts, of any other the last one of each count."""
        if self._is_another_bar(line):
            self._test(line)
            return
        key, step = self._bar_key(line)
        count = line.cells.get("count", 0.0)
        draft = self._drafts.get(line.rank)
        new = Draft(line, step, self._titled(line), line.evaluations())
        new.redraw = (*key, count)
        if draft and draft.redraw and draft.redraw[:2] == key:
            self.partials.append(draft.row(draft.place or self.stages.here))
            new.place, new.redraw = draft.place, (*key, max(count, draft.redraw[2]))
        else:
            self._close(line.rank)
        self._drafts[line.rank] = new
        if line.shape.record and new.place is None:
            self._begin(new)

    def _is_another_bar(self, line: Line) -> bool:
        """After an epoch that came to its end, a bar of another length that names none is of a test (Keras)."""
        draft = self._drafts.get(line.rank)
        if "epoch" in line.cells or "epoch" not in self._epoch or not draft or not draft.redraw:
            return False
        total = draft.line.cells.get("total")
        return total is not None and draft.redraw[2] >= total != line.cells.get("total", total)

    def _test(self, line: Line) -> None:
        """What the last redraw of a test's bar says is an evaluation at the epoch that is done."""
        if line.cells["count"] < line.cells["total"]:
            return
        metrics = [name for name in line.shape.columns if name not in PLACES and name not in CIRCUMSTANCES]
        self.evaluations.write(
            line,
            {f"val_{name}": line.cells[name] for name in metrics},
            self._epoch["epoch"],
            self.stages.here,
        )

    def _bar_key(self, line: Line) -> tuple[tuple[str, float], float | None]:
        cells = line.cells
        epoch = cells.get("epoch", self._epoch.get("epoch"))
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

    def _titled(self, line: Line) -> dict[str, float]:
        """The cells of a record, a table's columns under the names that its header gave them."""
        cells = line.metrics()
        for name in [name for name in cells if name.startswith(COLUMN)]:
            at = int(name.removeprefix(COLUMN)) - 1
            title = self._header[at] if at < len(self._header) else name
            cells[title] = cells.pop(name)
            self.sources.setdefault(title, Field(title, title))
        return cells

    def _begin(self, draft: Draft) -> None:
        epoch = draft.cells.get("epoch", self._epoch.get("epoch"))
        draft.place = self.stages.record(draft.step, draft.line.rank, epoch)
        self.evaluations.settle(draft)

    def _close(self, rank: str | None) -> None:
        draft = self._drafts.pop(rank, None)
        if not draft:
            return
        if draft.place:
            self.steps.append(draft.row(draft.place))
            self.in_last_place = self._is_last(draft)
            self.broken_off = draft.redraw is not None and draft.redraw[2] < draft.line.cells.get(
                "total", 0.0
            )
        if draft.evals:
            self.evaluations.write(
                draft.line, draft.evals, draft.step, draft.place or self.stages.evaluation(draft.step)
            )

    def _is_last(self, draft: Draft) -> bool:
        """`Epoch [5/5], Step [600/600]`: where both totals are printed, the step may be the last."""
        cells = {**self._epoch, **draft.cells}
        if not {"epoch", "epochs", "index", "length"} <= cells.keys():
            return False
        done = int(self._counts_from_zero(draft.line.pattern))
        return cells["epoch"] + done >= cells["epochs"] and cells["index"] + done >= cells["length"]

    def _close_all(self) -> None:
        for rank in list(self._drafts):
            self._close(rank)

    def _block(self, table: Table, shape: Plan, first: int, end: int, asides: list[Aside]) -> bool:
        """Takes rows over as they stand, where each is a record of a step later than the one before, or of none.

        So are the evaluations among them, where none is of a step that has gone by.
        """
        if not _is_plain(table, shape):
            return False
        cells = table.columns(shape, slice(first - 1, end))
        steps = shape.step(cells, self._counts_from_zero(table.pattern))
        if not (self._has_no_steps(table.pattern, asides) if steps is None else _are_steps(steps)) or not all(
            bool(np.all(np.abs(cells[name]) < MOST)) for name in WHOLE if name in cells
        ):
            return False
        prefixed = table.prefixed(first - 1, end)
        if steps is not None and not all(
            self._on_time(aside, steps[aside.before - first]) and not prefixed for aside in asides
        ):
            return False
        rank = self._head(table, first - 1)[1]
        draft = self._drafts.get(rank)
        times = self._times(table, first, end, rank) if prefixed else []
        if times is None or not draft or draft.step != (None if steps is None else steps[0]):
            return False
        self._close(rank)
        columns: dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]] = {
            "line": table.numbers[first:end]
        }
        if steps is not None:
            columns["step"] = steps[1:]
        columns.update({name: values[1:] for name, values in cells.items() if name not in shape.places})
        if len(times):
            columns["time"] = np.asarray(times, dtype=np.int64)
        place = self.stages.here
        self.steps.extend(
            Block(end - first, columns, {"phase": place.phase, "attempt": place.attempt, "rank": rank})
        )
        epoch = float(cells["epoch"][-1]) if "epoch" in cells else self._epoch.get("epoch")
        if steps is not None:
            self.stages.went_on(float(steps[-1]), rank, epoch)
        for aside in asides:
            self._evaluate_together(aside)
        return True

    def _has_no_steps(self, pattern: Pattern, asides: list[Aside]) -> bool:
        """Whether lines that print no step have none: no epoch stands for it, and no evaluation waits for one."""
        return (self._fractions or not pattern.whole_epochs) and not any(len(aside.rows) for aside in asides)

    def _times(
        self, table: Table, first: int, end: int, rank: str | None
    ) -> npt.NDArray[np.int64] | list[int] | None:
        """When these rows were printed, if all of them say so or none; None where not all are of this rank."""
        together = table.prefixes(first, end)
        if together is not None and prefixes.rank_of_all(together) == rank:
            times = self.stamps.read_together(together)
            if times is not None:
                table.heads.update(
                    enumerate(zip(times.tolist(), [rank] * (end - first), strict=True), start=first)
                )
                return times
        heads = [self._head(table, row) for row in range(first, end)]
        found = [time for time, _ in heads if time is not None]
        if {other for _, other in heads} != {rank} or len(found) not in (0, len(heads)):
            return None
        return found

    def _on_time(self, aside: Aside, steps: Numbers) -> bool:
        """Whether none would change how what follows is read; `steps` are those of the records before each."""
        table, shape, rows, _ = aside
        if not len(rows):
            return True
        if table.has_prefixes or table.pattern.stage or shape.texts or "epoch" in shape.columns:
            return False
        own = shape.step(table.columns(shape, rows), self._counts_from_zero(table.pattern))
        return own is not None and bool(np.all((own >= steps) & (own < MOST) & (own == np.floor(own))))

    def _evaluate_together(self, aside: Aside) -> None:
        table, shape, rows, _ = aside
        step = shape.step(table.columns(shape, rows), self._counts_from_zero(table.pattern))
        if len(rows) and step is not None:
            for name, what in (*shape.columns.items(), *shape.evals.items()):
                self.sources.setdefault(name, what)
            self.evaluations.take_together(table.numbers[rows], table.evaluations(shape, rows), step)

    def _step(self, line: Line) -> float | None:
        """Rules 10 to 13."""
        step = line.shape.step(line.cells, self._counts_from_zero(line.pattern))
        if step is not None:
            return step if step.is_integer() else None
        if line.pattern.role == "part" or self._fractions or not line.pattern.whole_epochs:
            return None
        if "epochs" in line.cells and "samples" not in line.cells:
            line.cells.setdefault("total_steps", line.cells["epochs"])
        if "epoch" not in line.cells:
            line.cells.update(self._epoch)
        self._epochs_are_steps = self._epochs_are_steps or "epoch" in line.cells
        return line.cells.get("epoch")

    def _counts_from_zero(self, pattern: Pattern) -> bool:
        return self._zero_based if pattern.first_epoch is None else pattern.first_epoch == 0

    def _evaluate(self, line: Line) -> None:
        step = line.shape.step(line.cells, self._counts_from_zero(line.pattern))
        if step is None and self._epochs_are_steps and not self._fractions:
            step = line.cells.get("epoch", self._epoch.get("epoch"))
        self.evaluations.take(line, step)


def _are_steps(steps: Numbers) -> bool:
    """Whole numbers that rise."""
    rising, whole = np.all(steps[1:] > steps[:-1]), np.all(steps == np.floor(steps))
    return bool(rising and whole and np.all(np.abs(steps) < MOST))


def _is_plain(table: Table, shape: Plan) -> bool:
    texts = any(what.kind == "text" for what in shape.columns.values())
    return (
        table.pattern.role == "train" and shape.record and not (shape.evals or texts or table.pattern.stage)
    )
