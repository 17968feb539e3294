"""Lines of records, and redraws of bars -> rows of steps and partial redraws, by rules 7 and 8 of docs/parse.md.

A record is begun by a line, added to by others, and closed by the next step of its rank. Until then it is a draft:
a line to come may still add to it, or draw over it.
"""

from __future__ import annotations

from gputel.analysis.parse.counting import Counting
from gputel.analysis.parse.drafts import Draft, Line
from gputel.analysis.parse.evaluations import Evaluations
from gputel.analysis.parse.patterns import Field
from gputel.analysis.parse.plans import CIRCUMSTANCES, COLUMN, PLACES
from gputel.analysis.parse.rows import Rows
from gputel.analysis.parse.stages import Stages


class OpenRecords:
    """`steps` and `partials` grow; `stages` and `evaluations` are told of records as they begin and end."""

    def __init__(
        self, counting: Counting, stages: Stages, evaluations: Evaluations, sources: dict[str, Field]
    ) -> None:
        self.steps, self.partials = Rows(), Rows()
        self.broken_off = False  # whether the last bar had not come to its end
        self.at_last_step = False  # whether the last record was of the last step of the last epoch
        self.drafts: dict[str | None, Draft] = {}  # by rank
        self.header: list[str] = []  # what the columns of a table are called
        self._counting, self._stages, self._evaluations = counting, stages, evaluations
        self._sources = sources

    def take(self, line: Line) -> None:
        step = self._counting.of_record(line)
        draft = self._that_takes(line, step)
        if draft:
            draft.add(line, step)
        elif line.pattern.role == "train":
            self.close(line.rank)
            draft = self.drafts[line.rank] = Draft(line, step, line.metrics(), line.evaluations())
        else:
            return
        if line.shape.record and draft.place is None:
            self._begin(draft)

    def redraw(self, line: Line) -> None:
        """Of a bar that names its epoch the last redraw counts, of any other the last one of each count."""
        epoch = self._counting.epoch_of_test(line)
        if epoch is not None and self._is_another_bar(line):
            self._test(line, epoch)
            return
        key, step = self._counting.of_bar(line)
        count = line.cells.get("count", 0.0)
        draft = self.drafts.get(line.rank)
        new = Draft(line, step, self._titled(line), line.evaluations())
        new.redraw = (*key, count)
        if draft and draft.redraw and draft.redraw[:2] == key:
            self.partials.append(draft.row(draft.place or self._stages.here))
            new.place, new.redraw = draft.place, (*key, max(count, draft.redraw[2]))
        else:
            self.close(line.rank)
        self.drafts[line.rank] = new
        if line.shape.record and new.place is None:
            self._begin(new)

    def close(self, rank: str | None) -> None:
        draft = self.drafts.pop(rank, None)
        if not draft:
            return
        if draft.place:
            self.steps.append(draft.row(draft.place))
            self.at_last_step = self._counting.is_last(draft.cells, draft.line.pattern)
            total = draft.line.cells.get("total", 0.0)
            self.broken_off = draft.redraw is not None and draft.redraw[2] < total
        elif draft.step is not None:  # a last line may say how far it has come, and nothing more
            self.at_last_step = draft.step >= draft.cells.get("total_steps", float("inf"))
        if draft.evals:
            place = draft.place or self._stages.evaluation(draft.step)
            self._evaluations.write(draft.line, draft.evals, draft.step, place)

    def close_all(self) -> None:
        for rank in list(self.drafts):
            self.close(rank)

    def hand_over(self) -> tuple[Rows, Rows]:
        """Steps and partials since the last call, which are kept here no longer."""
        done = (self.steps, self.partials)
        self.steps, self.partials = Rows(), Rows()
        return done

    def _that_takes(self, line: Line, step: float | None) -> Draft | None:
        """What is open and of this rank; a line that names no rank speaks for any, and the other way round."""
        own = self.drafts.get(line.rank)
        others = [draft for rank, draft in self.drafts.items() if rank is None or line.rank is None]
        is_part = line.pattern.role == "part"
        open_to_it = [d for d in (own, *others) if d and (is_part or not d.redraw)]
        return next((draft for draft in open_to_it if draft.takes(line, step)), None)

    def _begin(self, draft: Draft) -> None:
        draft.place = self._stages.record(draft.step, draft.line.rank, self._counting.epoch(draft.cells))
        self._evaluations.settle(draft)

    def _is_another_bar(self, line: Line) -> bool:
        """After an epoch that came to its end, a bar of another length that names none is of a test (Keras)."""
        draft = self.drafts.get(line.rank)
        if not draft or not draft.redraw:
            return False
        total = draft.line.cells.get("total")
        return total is not None and draft.redraw[2] >= total != line.cells.get("total", total)

    def _test(self, line: Line, epoch: float) -> None:
        """What the last redraw of a test's bar says is an evaluation at the epoch that is done."""
        if line.cells["count"] < line.cells["total"]:
            return
        metrics = [name for name in line.shape.columns if name not in PLACES and name not in CIRCUMSTANCES]
        evals = {f"val_{name}": line.cells[name] for name in metrics}
        self._evaluations.write(line, evals, epoch, self._stages.here)

    def _titled(self, line: Line) -> dict[str, float]:
        """The cells of a record, a table's columns under the names that its header gave them."""
        cells = line.metrics()
        for name in [name for name in cells if name.startswith(COLUMN)]:
            at = int(name.removeprefix(COLUMN)) - 1
            title = self.header[at] if at < len(self.header) else name
            cells[title] = cells.pop(name)
            self._sources.setdefault(title, Field(title, title))
        return cells
