"""A path -> RunData: one run with its log, its GPU telemetry and its facts, the input of every analysis.

RunData        a log, with the recording or the table of GPU readings beside it
read_run       opens a run folder, a log, or a table of readings

paths          files and run folders under a path -> logs; copies: which of them are one run
output         a run folder's recorded output -> Log; api_rows: values that the training gave by itself
recording      the telemetry frames of a run folder; scan: those of many, lazily
inside_steps   the steps that hooks in a training recorded
facts          size, batch and GPUs of a run, each with its origin
batch          tokens of a step, by figures that are checked against each other; batch_changes: one that changes
mfu            MFU as printed, as the log's own figures come to, and why the two differ
record_gaps    the time between records
printed_times  which printed step times hold more than a step
sensors        how often a sensor really refreshed; energy by its counter
cross_checks   figures of two sources -> doubts where they contradict each other; log_doubts has those of a log
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import stores
from gputel.analysis.logs.date_order import DAY
from gputel.analysis.logs.file_times import time_in_name
from gputel.analysis.logs.files import read_file
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs.batch import BatchFigures, StepTokens
    from gputel.analysis.runs.facts import Facts
    from gputel.analysis.runs.recording import Recording


FROM_ZERO = 60_000_000_000  # ns behind midnight in which a clock that counts from the start begins
LONGEST_WORD, LONGEST_COMMAND = 60, 320  # letters of a script within a command, and of the whole command


@dataclass(frozen=True)
class RunData:
    """One run. A bare log has no `recording`; `readings` come from a table named beside the log."""

    log: Log
    recording: Recording | None = None
    readings: pl.DataFrame | None = None
    gpu_names: tuple[str, ...] = ()  # of the readings' GPUs, where their table has them

    @property
    def name(self) -> str:
        return self.recording.name if self.recording else self.log.name

    @cached_property
    def facts(self) -> Facts:
        from gputel.analysis.runs.facts import run_facts

        descriptions = self.recording.descriptions if self.recording else ()
        return run_facts(self.log, descriptions, self.readings, self.gpu_names, self._batch)

    @cached_property
    def _batch(self) -> BatchFigures:
        from gputel.analysis.runs.batch import batch_figures

        return batch_figures(self.log)

    @cached_property
    def step_tokens(self) -> StepTokens:
        """The tokens of a step, checked against the other figures that the log prints."""
        from gputel.analysis.runs.batch import step_tokens
        from gputel.analysis.runs.facts import trained_on

        descriptions = self.recording.descriptions if self.recording else ()
        return step_tokens(self._batch, trained_on(self.facts.gpus, descriptions), self._step_s)

    def _step_s(self) -> float | None:
        from gputel.analysis.runs.record_gaps import step_by_stamps

        step = step_by_stamps(self.log, recorded=self.recording is not None)
        return None if step is None else step.seconds

    @cached_property
    def gpu(self) -> pl.DataFrame | None:
        """One row per tick and GPU, in order of time; None if nothing was sampled."""
        frame = self.recording.gpu if self.recording else self.readings
        return None if frame is None or frame.is_empty() else frame

    @property
    def command(self) -> str | None:
        """The command on one line, if it is known; an inline script and a very long command are cut."""
        if self.recording is None:
            return one_line(self.log.provenance.command) or None if self.log.provenance else None
        described = self.recording.descriptions
        return (one_line(described[0].get("argv") or ()) if described else "") or None

    @property
    def caution(self) -> str | None:
        """The caution that every table, page and picture of this run must show, such as SIMULATED."""
        from gputel.analysis import document

        return document.caution(self.recording and self.recording.simulated, composed=self.log.composed)


def read_run(path: Path, formats: tuple[Format, ...] | None = None) -> RunData:
    """Opens a run folder, a store or a log. A table of GPU readings alone is a run with an empty log."""
    if formats is None and stores.kind(path):
        return of_log(stores.read(path))
    if path.is_dir():
        from gputel.analysis.runs.recording import open_recording

        return as_run(open_recording(path))
    return of_log(read_file(path, formats))


def as_run(source: Path | RunData | Recording | Log) -> RunData:
    """Returns the run that a source is, or that lies at a path."""
    from gputel.analysis.runs.recording import Recording

    if isinstance(source, Path):
        return read_run(source)
    if isinstance(source, Recording):
        return RunData(source.log, source)
    return source if isinstance(source, RunData) else of_log(source)


def of_log(log: Log) -> RunData:
    """Wraps a log, and the table of GPU readings that it is, or that a store keeps beside it."""
    table = log.telemetry
    return RunData(log, readings=table.rows, gpu_names=table.names) if table else RunData(log)


def one_line(argv: Sequence[str]) -> str:
    """Formats a command as it would be typed, cut to a few lines; `gputel info` shows all of it."""
    words = [_cut(" ".join(word.split()), LONGEST_WORD) if "\n" in word else word for word in argv]
    quoted = [shlex.quote(word) if re.search(r"\s", word) or not word else word for word in words]
    return _cut(" ".join(quoted), LONGEST_COMMAND)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 2].rstrip()} …"


def from_table_and_log(table: Path, log: Path, offset_s: float = 0.0) -> RunData:
    """Joins a table of readings to a log; `offset_s` is added to the timestamps of the readings."""
    import polars as pl

    telemetry = read_file(table).telemetry
    if telemetry is None or telemetry.rows.is_empty():
        raise GputelError(
            str(table), "no GPU readings were found in it", "name a CSV of nvidia-smi, dmon or dcgm"
        )
    shift = timedelta(seconds=offset_s)
    rows = _dated(telemetry.rows, table).with_columns(pl.col("time") + shift)
    return RunData(_on_day_of(rows, read_file(log)), readings=rows, gpu_names=telemetry.names)


def _on_day_of(rows: pl.DataFrame, log: Log) -> Log:
    """Moves a log whose timestamps have no date to the day on which it lies within the readings.

    Leaves it where it shares time with the readings already, and where no day or several would do. Timestamps that
    begin at midnight may count from the start of the run, and tell nothing.
    """
    times = log.records["time"].drop_nulls()
    if log.dated_by is None or times.is_empty() or (log.began or 0) % DAY < FROM_ZERO:
        return log
    (first, last), (begun, ended) = _edges_ns(times), _edges_ns(rows["time"].drop_nulls())
    if first <= ended and begun <= last:
        return log
    days = range(-((first - begun) // DAY), (ended - last) // DAY + 1)
    return log.days_later(days[0], "the readings") if len(days) == 1 else log


def _edges_ns(times: pl.Series) -> tuple[int, int]:
    in_order = times.dt.epoch("ns").sort()
    return in_order[0], in_order[-1]


def _dated(rows: pl.DataFrame, table: Path) -> pl.DataFrame:
    """Dates a table that has only elapsed seconds: by the start time in its name, else by when it was written."""
    import polars as pl

    if rows["time"].null_count() < rows.height or "elapsed_s" not in rows.columns:
        return rows
    began, elapsed = time_in_name(table), pl.col("elapsed_s")
    if began is None:
        began, elapsed = table.stat().st_mtime_ns, elapsed - elapsed.max()
    moment = ((elapsed * 1e9).cast(pl.Int64) + began).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return rows.with_columns(moment.alias("time"))
