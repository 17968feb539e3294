"""What `parse`, `compare` and `plan` return: the data, with their figures for a notebook.

Attributes are declared one by one, so that type checkers and completion see them.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.scaling import Scaling
    from gputel.analysis.doubts import Doubt
    from gputel.analysis.logs.log import Log
    from gputel.analysis.logs.outcome import LogEvent, Status
    from gputel.analysis.logs.patterns import Reject
    from gputel.analysis.plan import Plan, Target
    from gputel.analysis.plan.question import Question
    from gputel.analysis.plan.rows import Row
    from gputel.analysis.render.notebook import Figures


def passed(path: str, doc: str) -> Any:
    """Returns a property that passes on an attribute of the wrapped answer: `log.name`."""
    return property(attrgetter(path), doc=doc)


class ParsedLog:
    """One run of a log file, with its figures. `log` has the details: lines, places, sources of each column."""

    log: Log

    def __init__(self, log: Log) -> None:
        self.log = log

    def __repr__(self) -> str:
        return repr(self.log)

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel parse --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.parse import parse_document
        from gputel.analysis.render.notebook import Figures

        return Figures(parse_document([self.log]))

    name: str = passed("log.name", "The name of the run.")
    source: str = passed("log.source", "The path of the log.")
    format: str | None = passed("log.format", "The log format; None if no format was recognized.")
    status: Status = passed("log.status", "How the run ended.")
    cause: LogEvent | None = passed("log.cause", "The line that tells why the run failed.")
    config: dict[str, float | str] = passed("log.config", "Settings that the log prints.")
    summary: dict[str, float | str] = passed("log.summary", "Totals that the log prints at its end.")
    records: pl.DataFrame = passed(
        "log.records", "A row per line that reports a step, in the order of the log."
    )
    steps: pl.DataFrame = passed("log.steps", "A row per step of each phase; of several attempts the last.")
    evals: pl.DataFrame = passed("log.evals", "A row per evaluation and metric.")
    events: pl.DataFrame = passed("log.events", "Checkpoints, restarts and faults.")
    doubts: tuple[Doubt, ...] = passed(
        "log.doubts", "Reasons why the reading is doubtful; empty if the log was understood."
    )
    rejects: list[Reject] = passed("log.rejects", "Lines with a number that could not be read.")
    fault: str | None = passed("log.fault", "Why the file could not be read to its end.")
    is_empty: bool = passed(
        "log.is_empty", "Whether nothing was read: no record, evaluation, event or GPU reading."
    )

    def metrics(self) -> list[str]:
        """The columns of `records` that hold measurements."""
        return self.log.metrics()


class Compared:
    """A comparison with its figures. With groups, each mean has `deviation` and `runs` beside it."""

    comparison: Comparison

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __repr__(self) -> str:
        return f"<{self.metric} of {', '.join(self.runs)} by {self.by}>"

    def _repr_html_(self) -> str:
        """The page of `gputel compare --html`."""
        return self.figures._repr_html_()

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel compare --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.compare import comparison_document
        from gputel.analysis.render.notebook import Figures

        return Figures(comparison_document(self.comparison))

    by: str = passed("comparison.by", "The axis on which runs are compared.")
    metric: str = passed("comparison.metric", "The metric that is compared.")
    phase: str = passed("comparison.phase", "The phase that is compared.")
    runs: list[str] = passed("comparison.runs", "Names of the runs, or of the groups, in the order given.")
    groups: dict[str, str] | None = passed(
        "comparison.groups", "The group of each run; None if runs are not grouped."
    )
    axes: list[str] = passed("comparison.axes", "The axes that every run has.")
    milestones: pl.DataFrame = passed(
        "comparison.milestones", "The metric of each run at equal places of the axis."
    )
    summary: pl.DataFrame = passed("comparison.summary", "A row per run.")
    validations: pl.DataFrame = passed("comparison.validations", "A row per run and validation metric.")
    equal: pl.DataFrame = passed(
        "comparison.equal", "A row per run and axis: the metric at the last place that all runs reached."
    )
    targets: pl.DataFrame = passed("comparison.targets", "A row per run and target: when the run reached it.")
    settings: pl.DataFrame = passed("comparison.settings", "Settings in which the runs differ.")
    curves: pl.DataFrame = passed(
        "comparison.curves",
        "Every printed point: run, place on each axis, `y`, and `smoothed` over `smoothing` steps.",
    )
    common: pl.DataFrame = passed(
        "comparison.common", "All runs at the same 1000 places of the axis, interpolated."
    )
    frontier: pl.DataFrame = passed(
        "comparison.frontier", "The best value that any run had reached by each amount of compute."
    )
    smoothing: float = passed("comparison.smoothing", "The window in steps of `curves` and `common`.")
    scaling: Scaling = passed("comparison.scaling", "The scaling law across sizes, or why there is none.")
    notes: list[str] = passed("comparison.notes", "What was left out of the comparison, and why.")
    cautions: dict[str, str] = passed("comparison.cautions", "Runs that were simulated or composed.")


class Planned:
    """A plan with its figures."""

    plan: Plan

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        return f"<plan of {', '.join(row.name for row in self.rows)} on {self.question.machine.words}>"

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel plan --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.plan import plan_document
        from gputel.analysis.render.notebook import Figures

        return Figures(plan_document(self.plan))

    question: Question = passed("plan.question", "What was asked: machine, recipe, limits.")
    rows: tuple[Row, ...] = passed("plan.rows", "A row per size, with estimates by name in `figures`.")
    notes: tuple[str, ...] = passed("plan.notes", "Remarks on the whole plan.")
    targets: tuple[Target, ...] = passed("plan.targets", "The MFU that each hoped-for throughput means.")
