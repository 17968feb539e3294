"""Assembler: hits of an engine -> rows of steps, evaluations and partial redraws, by the rules in docs/parse.md.

Runs of lines of one shape whose steps rise are taken column by column; everything else row by row. What is open at
the end of a piece of the log (a record that the next line may add to, a bar that may be redrawn, an evaluation
that waits for its step) is kept, so that pieces give the same rows as the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs import names
from gputel.analysis.logs.columnwise import Columnwise
from gputel.analysis.logs.counting import Counting
from gputel.analysis.logs.drafts import OpenRecord, ParsedLine
from gputel.analysis.logs.evaluation_loops import EvaluationLoop
from gputel.analysis.logs.evaluations import Evaluations, tested
from gputel.analysis.logs.frames import Rows
from gputel.analysis.logs.hits import Aside, Heads, HitRun, HitTable, stretches
from gputel.analysis.logs.line_kinds import LinePlan
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.open_records import OpenRecords
from gputel.analysis.logs.patterns import EVALUATIONS, RECORDS, STATED, EngineResult, Field, Pattern
from gputel.analysis.logs.prefixes import Stamps
from gputel.analysis.logs.stages import Stages

SECTIONS = ("validates", "trains")
MOST_LOOPED = 10_000  # lines that are remembered


class Assembler:
    """Takes engine results chunk by chunk; `steps`, `evaluations` and `partials` are complete after `finish`."""

    def __init__(self, patterns: Sequence[Pattern] = ()) -> None:
        self.stages = Stages()
        self.evaluations = Evaluations(self.stages)
        self.sources: dict[str, Field] = {}
        self.digits: dict[
            str, float
        ] = {}  # what the last printed digit of each column stands for, where first met
        self.epoch_lines: list[ParsedLine] = []
        self._counting, self._heads = Counting(), Heads()
        boxed = any(pattern.role == "border" for pattern in patterns)
        self._records = OpenRecords(self._counting, self.stages, self.evaluations, self.sources, boxed=boxed)
        self._columnwise = Columnwise(
            self._records, self._counting, self.stages, self.evaluations, self._heads, self.sources
        )
        self._handed_over = 0  # steps
        self._loop = EvaluationLoop()
        self._leads = False  # whether evaluations stand above the records that they belong to
        self._repeats_after: int | None = None  # the line which says that the next one repeats figures
        self.looped = set[int]()  # the first lines that are of a loop of evaluation
        self._tested: ParsedLine | None = None  # the line that says where the evaluations below it stand
        self._sets: set[str] = set()  # of held-out data, that bars name
        self._ended = False  # whether an epoch was over before the last line
        self._first_epoch = next((pattern.ends for pattern in patterns if pattern.ends is not None), None)
        self._counting.begin(self._first_epoch)

    @property
    def steps(self) -> Rows:
        return self._records.steps

    @property
    def partials(self) -> Rows:
        return self._records.partials

    @property
    def stamps(self) -> Stamps:
        return self._heads.stamps

    @property
    def begun(self) -> bool:
        """Whether a training record has been read."""
        return self.count > 0

    @property
    def count(self) -> int:
        """The number of training records, open ones among them."""
        return self._handed_over + self.steps.count + sum(draft.place is not None for draft in self.drafts())

    @property
    def passes(self) -> int:
        """How often the count of records, or a bar of which only the end is printed, has begun."""
        return max(len(self.steps.places()), self._counting.passes + 1)

    @property
    def at_last_step(self) -> bool:
        """Whether the last record was of the last step of the last epoch."""
        return self._records.at_last_step

    @property
    def broken_off(self) -> bool:
        """Whether the last bar had not reached its end."""
        return self._records.broken_off

    def drafts(self) -> list[OpenRecord]:
        """The open records, which later lines may still add to or redraw."""
        return list(self._records.drafts.values())

    def add(self, reading: EngineResult, chunk: Chunk) -> None:
        tables = [HitTable(hits, chunk) for hits in reading.hits if hits.pattern.role not in STATED]
        for whole, asides in stretches(tables):
            is_fixed = asides or whole.below or self._loop.is_open
            runs = [whole] if is_fixed else self._columnwise.by_rank(whole)
            for part in (part for run in runs for part in self._columnwise.rising(run, asides)):
                self._stretch(part, [aside.within(part.first, part.end) for aside in asides])

    def hand_over(self) -> tuple[Rows, Rows, Rows]:
        """Hands over the steps, evaluations and partials since the last call."""
        self._handed_over += self.steps.count
        steps, partials = self._records.hand_over()
        return steps, self.evaluations.hand_over(), partials

    def finish(self) -> None:
        """Ends the log: closes open records and gives waiting evaluations a step."""
        self._records.close_all()
        self._end_loop()
        self.evaluations.settle(None)

    def _stretch(self, run: HitRun, asides: list[Aside]) -> None:
        """Takes a run; its first and last lines, which have other neighbors, one by one."""
        table, shape, first, end, _ = run
        while self._loop.is_open and first < end:
            step = run.within(first, first + 1)
            self._one_by_one(step, [aside.within(first, first + 1) for aside in asides])
            first += 1
        if first == end:
            return
        self._loop.counts(table.cells(shape, end - 1) if table.pattern.role in RECORDS else {})
        self._one_by_one(run.within(first, first + 1), [aside.within(first, first + 1) for aside in asides])
        first += 1
        asides = [aside.within(first, end) for aside in asides]
        if end > first and self._columnwise.take(run.within(first, end - 1), asides):
            first, asides = end - 1, []
        self._one_by_one(run.within(first, end), asides)

    def _one_by_one(self, run: HitRun, asides: list[Aside]) -> None:
        """Takes the lines one by one, in the order of the file."""
        rows = [
            (int(table.lines[row]), table, row)
            for table, _, first, end, _ in filter(None, (run, run.below))
            for row in range(first, end)
        ]
        rows += [
            (int(aside.table.lines[row]), aside.table, row) for aside in asides for row in aside.rows.tolist()
        ]
        for _, table, row in sorted(rows, key=lambda row: row[0]):
            shape = run.shape if table is run.table else table.plan(row)
            self._take(self._line(table, shape, row))

    def _line(self, table: HitTable, shape: LinePlan, row: int) -> ParsedLine:
        time, rank = self._heads.time_and_rank(table, row)
        texts = table.texts(shape, row)
        if not shape.columns.keys() <= self.digits.keys():
            self.digits = {
                **dict.fromkeys(shape.columns, 0.0),
                **table.last_digits(shape, row),
                **self.digits,
            }
        for name, what in (*shape.columns.items(), *shape.evals.items()):
            self.sources.setdefault(name, what)
        return ParsedLine(
            table.pattern, shape, table.cells(shape, row), texts, int(table.numbers[row]), time, rank
        )

    def _take(self, line: ParsedLine) -> None:
        if self._repeats_after == line.number - 1 or self._evaluates(line):
            return
        self._end_loop_before(line)
        if line.pattern.stage or "stage" in line.texts:
            self._announce(line)
        self._counting.see(line.cells)
        match line.pattern.role:
            case "evaluates" | "validates":
                self._loop.begin(line)
            case "epoch" | "trains":
                self._begin_epoch(line)
            case "border":
                self._records.close_all()
                self._end_loop()
                self._loop.end()
            case "header" | "again" | "tested" | "starts":
                self._head(line)
            case "eval" | "task":
                self._evaluate(line)
            case "bar" | "eval_bar":
                self._redraw(line)
            case "train" | "part":
                self._records.take(line)
        self._end_epoch(line)

    def _head(self, line: ParsedLine) -> None:
        """Takes a line that says what the figures below it are, where they were measured, or of which training."""
        if line.pattern.role == "header":
            self._records.header = [names.title(word) for word in line.texts["columns"].split()]
        elif line.pattern.role == "tested":
            self._tested = line
        elif line.pattern.role == "starts":
            self._start()
        else:
            self._repeats_after = line.number

    def _begin_epoch(self, line: ParsedLine) -> None:
        """Takes the line of an epoch, which ends a loop, or the heading of a section, which may name its epoch."""
        if line.pattern.role == "trains" or not self._loop.is_section:
            self._loop.end()
        if "epoch" in line.cells:
            self._records.begin_epoch(line)
            self._counting.begin_epoch(line.cells, line.rank)
            self.epoch_lines.append(line)

    def _start(self) -> None:
        """Ends the training above, if there is one: what stands below the line is of another."""
        if self.stages.has_steps:
            self.finish()
            self._loop.end()
            self.stages.start()
            self._records.begin_training()
            self._counting.begin(self._first_epoch)

    def _end_epoch(self, line: ParsedLine) -> None:
        """Begins the next epoch below a line that ends one, and keeps evaluations right below it in the old one."""
        if line.pattern.ends is not None and "epoch" in line.cells:
            self._counting.begin_epoch({**line.cells, "epoch": line.cells["epoch"] + 1}, line.rank)
            self._ended = True
        elif line.pattern.role in RECORDS:
            self._ended = False

    def _evaluate(self, line: ParsedLine) -> None:
        self._leads = self._leads or not (self.begun or self.drafts() or self._records.has_losses)
        named = line.shape.place is not None or "epoch" in line.cells
        if self._repeats_record(line, named=named):
            return
        self._records.sum_up_test(line.evaluations())
        self._tested = None if named else self._tested
        is_below = (self._ended or line.pattern.is_of_above) and not named and self._tested is None
        step = self._counting.of_evaluation(self._tested or line, self._leads)
        step = self.stages.last_step if is_below else self._records.step_of_iteration(line, step)
        if step is not None or self._leads or not self._records.evaluate(line):
            self.evaluations.take(line, step, self._counting.epoch(line.cells, line.rank))

    def _repeats_record(self, line: ParsedLine, *, named: bool) -> bool:
        """Whether it has figures of the record above, and no other step: `Final val loss: 0.4096`."""
        givers = [draft for draft in self.drafts() if draft.gives(line.evaluations())]
        if not (named and givers):
            return bool(givers)
        step = line.shape.step(line.cells, self._counting.from_zero(line.pattern))
        return line.cells.get("epoch", step) in (givers[0].step, givers[0].cells.get("epoch"))

    def _redraw(self, line: ParsedLine) -> None:
        if line.pattern.role == "eval_bar":
            self._evaluate_bar(line)
        else:
            self._records.redraw(line)
            self.evaluations.end_bar(self.drafts())

    def _evaluate_bar(self, line: ParsedLine) -> None:
        """Takes a redraw of an evaluation's bar; a test is told apart where the log validates, too."""
        held_out = names.held_out_set(line.texts.get("set", "val"))
        self._sets.add(held_out)
        held_out = held_out if len(self._sets) > 1 else "val"
        step = self._counting.of_evaluation(line, self._leads)
        epoch = self._counting.epoch(line.cells, line.rank)
        self.evaluations.of_bar(line, tested(line, held_out), step, epoch)

    def _evaluates(self, line: ParsedLine) -> bool:
        """Whether it looks like a record, but is of a loop that was announced as evaluation."""
        if not (self._loop.is_open and line.pattern.role in RECORDS and self._loop.takes(line)):
            return False
        if len(self.looped) < MOST_LOOPED:
            self.looped.add(line.number)
        return True

    def _end_loop_before(self, line: ParsedLine) -> None:
        if line.pattern.role in EVALUATIONS:
            self._loop.forget(line)
        elif line.pattern.role in (*SECTIONS, *RECORDS, "epoch"):
            self._tested = None
            self._end_loop()

    def _end_loop(self) -> None:
        """Takes the last figures of an evaluation's loop for its result, where no line gives one."""
        for line in self._loop.result():
            step = self._counting.of_loop(line, self._loop)
            epoch = self._counting.epoch({}, line.rank)
            self.evaluations.of_loop(line, tested(line, self._loop.held_out), step, epoch)

    def _announce(self, line: ParsedLine) -> None:
        stage = line.pattern.stage or line.texts["stage"]
        if line.pattern.role == "names":
            self.stages.name(stage)
            return
        if self.stages.changes(stage):
            self.finish()
        self.stages.announce(stage)
