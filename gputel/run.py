"""A run in Python: its frames, its report, and its figures for a notebook."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis.runs import RunData, as_run, recording
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.log import Log
    from gputel.analysis.render.notebook import Figures
    from gputel.analysis.report.run_report import Report
    from gputel.analysis.runs.facts import Facts
    from gputel.analysis.runs.recording import Recording


class Run:
    """One run: a recording, a log, or a log beside a table of GPU readings.

    `log` is what the run printed, `recording` what gputel sampled; None for a bare log, whose other attributes
    raise a GputelError where only a recording has the data.
    """

    def __init__(self, source: Recording | RunData) -> None:
        self._source = source

    def __repr__(self) -> str:
        return repr(self.recording) if self.recording else f"<run {self.name!r}: {self.log!r}>"

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def data(self) -> RunData:
        """The run as commands take it; a recording's log is parsed when this is first asked for."""
        return as_run(self._source)

    @property
    def recording(self) -> Recording | None:
        return self._source if isinstance(self._source, recording.Recording) else self._source.recording

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def path(self) -> Path:
        """The run folder, or the log."""
        return self.recording.path if self.recording else Path(self.log.source)

    @property
    def log(self) -> Log:
        return self.data.log

    @property
    def facts(self) -> Facts:
        return self.data.facts

    @property
    def caution(self) -> str | None:
        """What every table and picture of this run says of it: that it was simulated, or composed."""
        return self.data.caution

    @property
    def steps(self) -> pl.DataFrame:
        """A row per step of each phase."""
        return self.log.steps

    @property
    def evals(self) -> pl.DataFrame:
        return self.log.evals

    @property
    def events(self) -> pl.DataFrame:
        """Events in the log; those that the recorder saw are `recording.events`."""
        return self.log.events

    @property
    def gpu(self) -> pl.DataFrame:
        """A row per tick and GPU, as recorded or as the table beside the log has them."""
        if self.recording:
            return self.recording.gpu
        if self.data.gpu is None:
            raise GputelError(
                self.name,
                "has no GPU readings",
                "open a run folder, or name a table: open_run(log, gpu=TABLE)",
            )
        return self.data.gpu

    @property
    def gpu_1s(self) -> pl.DataFrame:
        """Whole seconds: mean, minimum and maximum of each reading."""
        return self._recorded.gpu_1s

    def scan(self, table: str = "gpu") -> pl.LazyFrame:
        """The ticks of a table such as `disk`, for what does not fit in memory."""
        return self._recorded.scan(table)

    @property
    def host(self) -> pl.DataFrame:
        """The whole machine, a row a second: CPU, pressure, memory; without rows if it was not recorded."""
        return self._recorded.host

    @property
    def cores(self) -> pl.DataFrame:
        """A row a second and core."""
        return self._recorded.cores

    @property
    def disks(self) -> pl.DataFrame:
        """A row a second and disk."""
        return self._recorded.disks

    @property
    def networks(self) -> pl.DataFrame:
        """A row a second and network interface."""
        return self._recorded.networks

    @property
    def cgroups(self) -> pl.DataFrame:
        """A row a second and control group: `self` is the command's own, others are above it and have a limit."""
        return self._recorded.cgroups

    @property
    def processes(self) -> pl.DataFrame:
        """A row a second and process of the command that did something in it."""
        return self._recorded.processes

    @property
    def segments(self) -> pl.DataFrame:
        """An attempt a row: node, number, start, end, exit code, and the downtime before it on its node."""
        return self._recorded.segments

    @property
    def descriptions(self) -> list[dict[str, Any]]:
        """The `run.json` of each segment."""
        return self._recorded.descriptions

    @property
    def simulated(self) -> str | None:
        """What was simulated; None where nothing was, and of a run that was not recorded."""
        return self.recording.simulated if self.recording else None

    @property
    def duration_s(self) -> float | None:
        """The duration of all segments that have an end."""
        return self._recorded.duration_s

    @property
    def downtime_s(self) -> float | None:
        return self._recorded.downtime_s

    def per_step(self) -> pl.DataFrame:
        """Time and cost of each step: a row per record, divided by the number of steps that it covers."""
        from gputel.analysis.align import per_step

        return per_step.per_step(self.data)

    def report(self, *, keep_idle: bool = False) -> Report:
        """What `gputel report` prints. `keep_idle`: with what was recorded before and after the work."""
        from gputel.analysis.report.run_report import make_report

        return make_report(self.data, keep_idle=keep_idle)

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel report --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.report import report_document
        from gputel.analysis.render.notebook import Figures

        return Figures(report_document(self.report()))

    @property
    def _recorded(self) -> Recording:
        if self.recording is None:
            raise GputelError(self.name, "was not recorded by gputel", "open the folder of a recorded run")
        return self.recording
