"""Hits of an engine -> rows of steps, evaluations and partial redraws, by the rules that docs/parse.md gives.

Runs of lines of one shape whose steps rise are taken over column by column; everything else goes row by row. What
is not finished when a piece of the log ends (the record that a next line may add to, the redraw that may be drawn
over, the evaluation that waits for a step) is kept until it is, so that pieces give the same rows as the whole.
"""

from __future__ import annotations

from gputel.analysis.logs import names
from gputel.analysis.logs.counting import Counting, Evaluations
from gputel.analysis.logs.drafts import OpenRecord, ParsedLine, Stages
from gputel.analysis.logs.frames import Rows
from gputel.analysis.logs.hits import Aside, Heads, HitRun, HitTable, stretches
from gputel.analysis.logs.line_kinds import LinePlan
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.open_records import Columnwise, OpenRecords
from gputel.analysis.logs.patterns import EngineResult, Field
from gputel.analysis.logs.prefixes import Stamps

ROLES = ("train", "part", "bar", "eval", "task", "epoch", "header", "begins", "names", "again")


class Assembler:
    """Takes readings chunk by chunk; `steps`, `evaluations` and `partials` grow until `finish`."""

    def __init__(self) -> None:
        self.stages = Stages()
        self.evaluations = Evaluations(self.stages)
        self.sources: dict[str, Field] = {}
        self.epoch_lines: list[ParsedLine] = []
        self._counting, self._heads = Counting(), Heads()
        self._records = OpenRecords(self._counting, self.stages, self.evaluations, self.sources)
        self._columnwise = Columnwise(
            self._records, self._counting, self.stages, self.evaluations, self._heads, self.sources
        )
        self._handed_over = False  # whether steps were
        self._said: int | None = None  # the line below which stands what was said before

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
        return self.steps.count > 0 or self._handed_over or any(draft.place for draft in self.drafts())

    @property
    def at_last_step(self) -> bool:
        """Whether the last record was of the last step of the last epoch."""
        return self._records.at_last_step

    @property
    def broken_off(self) -> bool:
        """Whether the last bar had not come to its end."""
        return self._records.broken_off

    def drafts(self) -> list[OpenRecord]:
        """The records that lines to come may still add to, or draw over."""
        return list(self._records.drafts.values())

    def add(self, reading: EngineResult, chunk: Chunk) -> None:
        tables = [HitTable(hits, chunk) for hits in reading.hits if hits.pattern.role in ROLES]
        for run, asides in stretches(tables):
            for part in self._columnwise.rising(run):
                self._stretch(part, [aside.within(part.first, part.end) for aside in asides])

    def hand_over(self) -> tuple[Rows, Rows, Rows]:
        """Steps, evaluations and partials since the last call, which are kept here no longer."""
        self._handed_over = self._handed_over or self.steps.count > 0
        steps, partials = self._records.hand_over()
        return steps, self.evaluations.hand_over(), partials

    def finish(self) -> None:
        """The log has ended: what was open is as it is now."""
        self._records.close_all()
        self.evaluations.settle(None)

    def _stretch(self, run: HitRun, asides: list[Aside]) -> None:
        """Its first and its last line are neighbours of others, and are taken for themselves."""
        _, _, first, end = run
        self._one_by_one(run.within(first, first + 1), [aside.within(first, first + 1) for aside in asides])
        first += 1
        asides = [aside.within(first, end) for aside in asides]
        if end > first and self._columnwise.take(run.within(first, end - 1), asides):
            first, asides = end - 1, []
        self._one_by_one(run.within(first, end), asides)

    def _one_by_one(self, run: HitRun, asides: list[Aside]) -> None:
        """All lines in the order of the file."""
        rows = [(int(run.table.lines[row]), run.table, row) for row in range(run.first, run.end)]
        rows += [
            (int(aside.table.lines[row]), aside.table, row) for aside in asides for row in aside.rows.tolist()
        ]
        for _, table, row in sorted(rows, key=lambda one: one[0]):
            shape = run.shape if table is run.table else table.plan(row)
            self._take(self._line(table, shape, row))

    def _line(self, table: HitTable, shape: LinePlan, row: int) -> ParsedLine:
        time, rank = self._heads.of(table, row)
        texts = table.texts(shape, row)
        for name, what in (*shape.columns.items(), *shape.evals.items()):
            self.sources.setdefault(name, what)
        return ParsedLine(
            table.pattern, shape, table.cells(shape, row), texts, int(table.numbers[row]), time, rank
        )

    def _take(self, line: ParsedLine) -> None:
        if self._said == line.number - 1:
            return
        if line.pattern.stage or "stage" in line.texts:
            self._announce(line)
        self._counting.see(line.cells)
        match line.pattern.role:
            case "epoch":
                self._counting.begin_epoch(line.cells)
                self.epoch_lines.append(line)
            case "header":
                self._records.header = [names.title(word) for word in line.texts["columns"].split()]
            case "eval" | "task":
                self.evaluations.take(line, self._counting.of_evaluation(line))
            case "bar":
                self._records.redraw(line)
            case "train" | "part":
                self._records.take(line)
            case "again":
                self._said = line.number

    def _announce(self, line: ParsedLine) -> None:
        stage = line.pattern.stage or line.texts["stage"]
        if line.pattern.role == "names":
            self.stages.name(stage)
            return
        if self.stages.changes(stage):
            self.finish()
        self.stages.announce(stage)
