"""What `parse`, `compare` and `plan` return: the data, with their figures for a notebook.

Attributes are passed on one by one, so that type checkers and completion see them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, repr=False, eq=False)
class ParsedLog:
    """One run of a log file, with its figures. `log` has the details: lines, places, sources of each column."""

    log: Log

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

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.log.name

    @property
    def source(self) -> str:
        """The path of the log."""
        return self.log.source

    @property
    def format(self) -> str | None:
        """The log format; None if no format was recognized."""
        return self.log.format

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.log.status

    @property
    def cause(self) -> LogEvent | None:
        """The line that tells why the run failed."""
        return self.log.cause

    @property
    def config(self) -> dict[str, float | str]:
        """Settings that the log prints."""
        return self.log.config

    @property
    def summary(self) -> dict[str, float | str]:
        """Totals that the log prints at its end."""
        return self.log.summary

    @property
    def records(self) -> pl.DataFrame:
        """A row per line that reports a step, in the order of the log."""
        return self.log.records

    @property
    def steps(self) -> pl.DataFrame:
        """A row per step of each phase; of several attempts the last."""
        return self.log.steps

    @property
    def evals(self) -> pl.DataFrame:
        """A row per evaluation and metric."""
        return self.log.evals

    @property
    def events(self) -> pl.DataFrame:
        """Checkpoints, restarts and faults."""
        return self.log.events

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons why the reading is doubtful; empty if the log was understood."""
        return self.log.doubts

    @property
    def rejects(self) -> list[Reject]:
        """Lines with a number that could not be read."""
        return self.log.rejects

    @property
    def fault(self) -> str | None:
        """Why the file could not be read to its end."""
        return self.log.fault

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read: no record, evaluation, event or GPU reading."""
        return self.log.is_empty

    def metrics(self) -> list[str]:
        """The columns of `records` that hold measurements."""
        return self.log.metrics()


@dataclass(frozen=True, repr=False, eq=False)
class Compared:
    """A comparison with its figures. With groups, each mean has `deviation` and `runs` beside it."""

    comparison: Comparison

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

    @property
    def by(self) -> str:
        """The axis on which runs are compared."""
        return self.comparison.by

    @property
    def metric(self) -> str:
        """The metric that is compared."""
        return self.comparison.metric

    @property
    def phase(self) -> str:
        """The phase that is compared."""
        return self.comparison.phase

    @property
    def runs(self) -> list[str]:
        """Names of the runs, or of the groups, in the order given."""
        return self.comparison.runs

    @property
    def groups(self) -> dict[str, str] | None:
        """The group of each run; None if runs are not grouped."""
        return self.comparison.groups

    @property
    def axes(self) -> list[str]:
        """The axes that every run has."""
        return self.comparison.axes

    @property
    def milestones(self) -> pl.DataFrame:
        """The metric of each run at equal places of the axis."""
        return self.comparison.milestones

    @property
    def summary(self) -> pl.DataFrame:
        """A row per run."""
        return self.comparison.summary

    @property
    def validations(self) -> pl.DataFrame:
        """A row per run and validation metric."""
        return self.comparison.validations

    @property
    def equal(self) -> pl.DataFrame:
        """A row per run and axis: the metric at the last place that all runs reached."""
        return self.comparison.equal

    @property
    def targets(self) -> pl.DataFrame:
        """A row per run and target: when the run reached it."""
        return self.comparison.targets

    @property
    def settings(self) -> pl.DataFrame:
        """Settings in which the runs differ."""
        return self.comparison.settings

    @property
    def curves(self) -> pl.DataFrame:
        """Every printed point: run, place on each axis, `y`, and `smoothed` over `smoothing` steps."""
        return self.comparison.curves

    @property
    def common(self) -> pl.DataFrame:
        """All runs at the same 1000 places of the axis, interpolated."""
        return self.comparison.common

    @property
    def frontier(self) -> pl.DataFrame:
        """The best value that any run had reached by each amount of compute."""
        return self.comparison.frontier

    @property
    def smoothing(self) -> float:
        """The window in steps of `curves` and `common`."""
        return self.comparison.smoothing

    @property
    def scaling(self) -> Scaling:
        """The scaling law across sizes, or why there is none."""
        return self.comparison.scaling

    @property
    def notes(self) -> list[str]:
        """What was left out of the comparison, and why."""
        return self.comparison.notes

    @property
    def cautions(self) -> dict[str, str]:
        """Runs that were simulated or composed."""
        return self.comparison.cautions


@dataclass(frozen=True, repr=False, eq=False)
class Planned:
    """A plan with its figures."""

    plan: Plan

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

    @property
    def question(self) -> Question:
        """What was asked: machine, recipe, limits."""
        return self.plan.question

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row per size, with estimates by name in `figures`."""
        return self.plan.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the whole plan."""
        return self.plan.notes

    @property
    def targets(self) -> tuple[Target, ...]:
        """The MFU that each hoped-for throughput means."""
        return self.plan.targets
