"""Lines of records and redraws of bars -> rows of steps and partial redraws.

A line begins a record, other lines add to it, and the next step of its rank closes it. Until then it is open:
later lines may still add to it or redraw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gputel.analysis.logs.bar_evaluations import BarEvaluations
from gputel.analysis.logs.counting import BarKey, Counting
from gputel.analysis.logs.drafts import RATES, OpenRecord, ParsedLine
from gputel.analysis.logs.evaluations import Evaluations, tested
from gputel.analysis.logs.frames import Rows
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES, COLUMN, PLACES
from gputel.analysis.logs.names import held_out_set, measure_of
from gputel.analysis.logs.patterns import Field
from gputel.analysis.logs.rounding import is_of
from gputel.analysis.logs.stages import Stages

LASTING = ("total_steps", *RATES)


class OpenRecords:
    """Builds records from lines; `steps` and `partials` are the rows so far."""

    def __init__(
        self,
        counting: Counting,
        stages: Stages,
        evaluations: Evaluations,
        sources: dict[str, Field],
        *,
        boxed: bool = False,
    ) -> None:
        """Sets up the records; `boxed` says that borders part them: any part may then be the first of one."""
        self.steps, self.partials = Rows(), Rows()
        self.broken_off = False  # whether the last bar had not reached its end
        self.at_last_step = False  # whether the last record was of the last step of the last epoch
        self.drafts: dict[str | None, OpenRecord] = {}  # by rank
        self._repeats: dict[str | None, OpenRecord] = {}  # by rank: parts that the open record has already
        self._epoch: float | None = None  # announced, and no record of it has come
        self._leading: list[ParsedLine] = []  # parts of the record to come
        self._first: OpenRecord | None = None
        self.header: list[str] = []  # the names of a table's columns
        self.has_losses = False  # whether losses stand above the first line that says where they belong
        self._is_boxed = boxed
        self._last_box: dict[str | None, OpenRecord] = {}  # by rank
        self._several = False  # whether ends of several bars stand below the line of one epoch
        self._redraws = False  # whether a bar was drawn before its end
        self._has_loss = False  # whether a bar gave its current loss
        self._counting, self._stages, self._evaluations = counting, stages, evaluations
        self._bar_evaluations = BarEvaluations(evaluations)
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
        elif line.pattern.role == "train" or (self._is_boxed and line.rank not in self.drafts):
            bar = self._end_bar(line, step)
            self.close(line.rank)
            draft = self.drafts[line.rank] = OpenRecord(line, step, line.metrics(), line.evaluations())
            if bar:
                draft.place = bar.place
                draft.cells = {name: bar.cells[name] for name in LASTING if name in bar.cells} | draft.cells
            self._join(draft)
        else:
            self._repeat(line, step)
            return
        begins = line.shape.record or (draft.is_record and line.pattern.role == "train")
        if (begins and draft.place is None) or (is_placed and draft.place):
            self._begin(draft)

    def _end_bar(self, line: ParsedLine, step: float | None) -> OpenRecord | None:
        """Takes back the record of the epoch's bar where a line below gives the results of the epoch.

        The bar's own figures are of its last batch, but for what is in effect in all of them.
        """
        bar = self.drafts.get(line.rank)
        if bar is None or bar.redraw is None or bar.step != step or not bar.place:
            return None
        has_loss = bar.epoch_of_bar is not None and "loss" in bar.cells and "loss" in line.cells
        if not has_loss and line.pattern.ends is None:
            return None
        self.partials.append(bar.row(bar.place))
        return self.drafts.pop(line.rank)

    def _repeat(self, line: ParsedLine, step: float | None) -> None:
        """Takes a part that the open record has already: of the next record, if a later step and a loss follow.

        So it is where the line that usually comes first is missing. A record whose first line says the step is over
        with the next such line only.
        """
        open_one, repeats = self.drafts.get(line.rank), self._repeats.get(line.rank)
        self.has_losses = self.has_losses or "loss" in line.cells
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

    def step_of_iteration(self, line: ParsedLine, count: float | None) -> float | None:
        """The step of an evaluation that names an iteration, where each step of the records has several.

        A count that it calls a step is one, unless it is the iteration of the record above.
        """
        draft = self.drafts.get(line.rank)
        iteration = draft.cells.get("iteration") if draft else None
        if draft is None or iteration is None or count is None or not draft.step:
            return count
        each = iteration / draft.step
        goes_up = line.shape.place == "iteration" and each.is_integer() and (count / each).is_integer()
        return draft.step if count == iteration else count / each if goes_up else count

    def sum_up_test(self, evals: Mapping[str, float]) -> None:
        """Leaves to a line below the bar of a test what it gives in full: `Test loss: 0.6123` below `loss: 0.61`.

        The other figures of that bar are of the same set.
        """
        given = {measure_of(name): (name, value) for name, value in evals.items()}
        for draft in self.drafts.values():
            line, epoch, figures = draft.test or (draft.line, 0.0, {})
            pairs = [(name, *given[what]) for name in figures if (what := measure_of(name)) in given]
            again = {name: full for name, full, value in pairs if is_of(value, figures[name])}
            if again:
                held_out = held_out_set(next(iter(again.values())))
                left = {name: value for name, value in figures.items() if name not in again}
                named = {f"{held_out}_{measure_of(name)}": value for name, value in left.items()}
                draft.test = line, epoch, named

    def redraw(self, line: ParsedLine) -> None:
        """Keeps a progress bar's last redraw per epoch, or per step count if it names no epoch."""
        epoch = self._counting.epoch_of_test(line)
        if epoch is not None and self._is_another_bar(line):
            self._test(line, epoch)
            return
        draft = self.drafts.get(line.rank)
        if draft and self._begins_again(line, draft):
            self.close(line.rank)
            self._counting.leave_epoch(line.rank)
            draft = None
        if draft and self._is_next_end(line, draft):
            self._leave(draft)
            draft = None
        key, step = self._counting.of_bar(line)
        count = line.cells.get("count", 0.0)
        self._redraws = self._redraws or count < line.cells.get("total", count)
        new = OpenRecord(line, step, self._titled(line), line.evaluations())
        if draft and self._adds_nothing(new, draft, key):
            return
        new.redraw = (*key, count)
        if draft and draft.redraw and draft.redraw[:2] == key:
            self.partials.append(draft.row(draft.place or self._stages.here))
            if draft.epoch_of_bar is not None:
                self._bar_evaluations.begin(draft)
            draft.begin_bar()
            new.carried, new.began, new.is_first = draft.carried, draft.began, False
            new.place, new.redraw = draft.place, (*key, max(count, draft.redraw[2]))
        else:
            new.begin_bar()
            if draft:
                draft.end_bar(new)
                if draft.place is None and "loss" in draft.cells:
                    self._begin(draft)  # its mean stands in the bar below
            self.close(line.rank)
        self.drafts[line.rank] = new
        if line.shape.record and new.place is None:
            self._begin(new)

    def begin_training(self) -> None:
        """Notes that the next record is the first of another training."""
        self._first = None

    def begin_epoch(self, line: ParsedLine) -> None:
        """Closes the bar of another epoch, and of this one where other lines follow it: it begins once more.

        Bars of other ranks go on where it says its rank, as does one whose redraw of this epoch stands right above.
        Parts below belong to records to come, as do its own rates: `Epoch 3, lr 0.1`. A lone record above the first
        epoch was measured before the training.
        """
        epoch = line.cells.get("epoch")
        begins = epoch in (0, 1) and line.pattern.ends is None
        rates = {name: line.cells[name] for name in RATES if name in line.cells and not line.shape.evals}
        for rank, draft in list(self.drafts.items()):
            is_apart = line.number > draft.line.number + 1
            if line.rank not in (None, rank):
                continue
            if draft.epoch_of_bar is not None and (is_apart or draft.epoch_of_bar != epoch):
                self.close(rank)
            elif begins and draft is self._first and draft.is_untrained:
                self._evaluations.place(self.drafts.pop(rank).line, draft.as_evaluation(), None)
        self._epoch, self._leading = epoch, [replace(line, cells=rates)] if rates else []

    def close(self, rank: str | None) -> None:
        draft = self.drafts.pop(rank, None)
        self._repeats.pop(rank, None)
        if not draft:
            return
        self._end_test(draft)
        if draft.place and not self._is_printed_again(draft):
            if draft.redraw:
                self._join(draft)
            if draft.step is None:
                self._evaluations.settle(draft)
            rows = self.partials if draft.shows_epoch_before() else self.steps
            rows.append(draft.row(draft.place))
            self.at_last_step = self._counting.is_last(draft.cells, draft.line)
            self.broken_off = draft.is_broken_off()
        elif draft.step is not None:  # a last line may say only how far the run has come
            self.at_last_step = draft.step >= draft.cells.get("total_steps", float("inf"))
        self._evaluations.leave_bar(draft.measured(), draft.end)
        if draft.epoch_of_bar is not None:
            self._bar_evaluations.close(draft, draft.place or self._stages.here)
        elif draft.evals and draft.place:
            self._evaluations.write(draft.line, draft.evals, draft.step, draft.place)
        elif draft.evals:
            self._evaluations.place(draft.line, draft.evals, draft.step)

    def close_all(self) -> None:
        for rank in list(self.drafts):
            self.close(rank)
        self._bar_evaluations.close_all()

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
        open_to_it = [d for d in (own, *others) if d and (is_part or not d.redraw or d is own)]
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
        rank = draft.line.rank
        self._first = self._first or draft
        self._evaluations.recorded()
        epoch, total = self._counting.epoch(draft.cells, rank), draft.cells.get("total_steps")
        is_batch = draft.line.shape.counts_batches and draft.step != epoch
        draft.place = self._stages.record(draft.step, rank, epoch, total, is_batch=is_batch)
        if draft.step is not None:  # else a later line of the record may give it
            self._evaluations.settle(draft)

    def _is_printed_again(self, draft: OpenRecord) -> bool:
        """Whether a box gives the step of the one before, and nothing that this had not."""
        before = self._last_box.get(draft.line.rank) if self._is_boxed else None
        self._last_box[draft.line.rank] = draft
        again = before is not None and draft.step is not None and draft.step == before.step
        return again and before is not None and draft.cells.keys() <= before.cells.keys()

    def _is_another_bar(self, line: ParsedLine) -> bool:
        """Whether a bar after a finished epoch has another length: it is the bar of a test (Keras).

        So it is after an epoch that was broken off, below other lines, and after the last epoch of all, whatever
        its length.
        """
        draft = self.drafts.get(line.rank)
        if not draft or not draft.redraw:
            return False
        draft.is_tested = draft.is_tested or self._is_below_last(line, draft)
        if draft.is_tested:
            return True
        total = draft.line.cells.get("total")
        is_over = total is not None and (draft.redraw[2] >= total or line.number > draft.line.number + 1)
        return is_over and total != line.cells.get("total", total)

    def _begins_again(self, line: ParsedLine, draft: OpenRecord) -> bool:
        """Whether a bar that had come to its end begins once more in an epoch that was announced for one."""
        if draft.redraw is None or draft.redraw[0] not in ("epoch", "pass") or "epoch" in line.cells:
            return False
        if draft.epoch_of_bar not in (None, self._counting.epoch({}, line.rank)):
            return False  # a line in between has named the next one
        total, count = line.cells.get("total"), line.cells.get("count")
        return total is not None and count is not None and draft.redraw[2] >= total > count

    def _is_below_last(self, line: ParsedLine, draft: OpenRecord) -> bool:
        """Whether it is another bar below that of the last epoch, `Epoch 3/3`, which a line above announced.

        The end of a bar is none if the epochs before had several, too, or there were none.
        """
        if draft.epoch_of_bar is None or draft.epoch_of_bar != draft.cells.get("total_steps"):
            return False
        is_one = not self._several and draft.epoch_of_bar > 1
        return self._begins_again(line, draft) or (is_one and self._is_next_end(line, draft))

    def _is_next_end(self, line: ParsedLine, draft: OpenRecord) -> bool:
        """Whether it is the end of a bar, below that of another one, in a log that only prints the ends of bars.

        The end of one bar may be printed twice, but with the same figures.
        """
        if draft.redraw is None or "epoch" in line.cells:
            return False
        if self._redraws or line.number <= draft.line.number:
            return False
        count, others = line.cells.get("count"), {*PLACES, *CIRCUMSTANCES}
        figures = [(line.cells.get(name), value) for name, value in draft.cells.items() if name not in others]
        is_end = count is not None and count == line.cells.get("total") == draft.line.cells.get("total")
        is_of_epoch = draft.epoch_of_bar == self._counting.epoch({}, line.rank)
        is_another = any(value != before for value, before in figures if value is not None)
        return is_end and is_of_epoch and "loss" in line.cells and "loss" in draft.cells and is_another

    def _leave(self, draft: OpenRecord) -> None:
        """Closes a bar of which only the end is printed: its count is no step, as the others have the same.

        Below the line of an epoch all of them are of it.
        """
        if draft.epoch_of_bar is not None:
            self._several = True
            self.close(draft.line.rank)
            return
        draft.step = None
        draft.cells.pop("total_steps", None)
        self.close(draft.line.rank)
        self._counting.leave_epoch(draft.line.rank)

    def _adds_nothing(self, new: OpenRecord, draft: OpenRecord, key: BarKey) -> bool:
        """Takes the bar of a test or validation, and one that is drawn once more below a line with its figures."""
        if self._is_second_bar(new.line, draft, key):
            draft.evals.update(tested(new.line, "val"))
            return True
        if draft.redraw and draft.redraw[:2] == key and "loss" in draft.cells and new.evaluates_alone():
            draft.evals.update(new.evals)
            return True
        if again := draft.is_shown_again(new.line, new.step):
            self.partials.append(new.row(draft.place or self._stages.here))
        return again

    def _is_second_bar(self, line: ParsedLine, draft: OpenRecord, key: BarKey) -> bool:
        """Whether a bar names the epoch that another bar has finished: `Epoch 3 [Val]` below `Epoch 3 [Train]`."""
        same = draft.redraw is not None and draft.redraw[:2] == key and key[0] == "epoch"
        return same and self._is_another_bar(line)

    def _test(self, line: ParsedLine, epoch: float) -> None:
        """Takes a redraw of a test's bar; the last one is an evaluation at the finished epoch."""
        if line.cells["count"] < line.cells["total"]:
            return
        draft = self.drafts[line.rank]
        if draft.test and draft.test[0].number != line.number:
            self._end_test(draft)
        draft.test = line, epoch, tested(line, "val")

    def _end_test(self, draft: OpenRecord) -> None:
        if draft.test:
            line, epoch, figures = draft.test
            self._evaluations.write(line, figures, epoch, draft.place or self._stages.here)

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
