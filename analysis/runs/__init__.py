"""What is reported, compared, judged and planned by: one run, with its log, its telemetry and its facts.

It comes from a run folder, a bare log, or a log and a table of readings that were never recorded together.
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

from gputel.analysis import document
from gputel.analysis.logs.files import read_file
from gputel.analysis.runs.facts import run_facts
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs.facts import Facts
    from gputel.analysis.runs.recording import Recording


LONGEST_WORD, LONGEST_COMMAND = 60, 320  # letters, of a script that stands in a command and of all of it


@dataclass(frozen=True)
class RunData:
    """`recording` is None of a bare log; `readings` are a table's that was joined to it by hand."""

    log: Log
    recording: Recording | None = None
    readings: pl.DataFrame | None = None

    @property
    def name(self) -> str:
        return self.recording.name if self.recording else self.log.name

    @cached_property
    def facts(self) -> Facts:
        return run_facts(self.log, self.recording.descriptions if self.recording else ())

    @cached_property
    def gpu(self) -> pl.DataFrame | None:
        """A row per tick and GPU, in the order of time; None where nothing was sampled."""
        frame = self.recording.gpu if self.recording else self.readings
        return None if frame is None or frame.is_empty() else frame

    @property
    def command(self) -> str | None:
        """What was recorded, in a line: a script in it is cut, and so is what is longer than a few lines."""
        described = self.recording.descriptions if self.recording else ()
        return (one_line(described[0].get("argv") or ()) if described else "") or None

    @property
    def caution(self) -> str | None:
        """What every table, page and picture of this run must say of it."""
        return document.caution(self.recording and self.recording.simulated, composed=self.log.composed)


def read_run(path: Path, formats: tuple[Format, ...] | None = None) -> RunData:
    """A run folder or a log. A table of GPU readings alone is a run without a log."""
    if path.is_dir():
        from gputel.analysis.runs.recording import open_recording

        recording = open_recording(path)
        return RunData(recording.log, recording)
    log = read_file(path, formats)
    return RunData(log, readings=log.telemetry.rows if log.telemetry else None)


def one_line(argv: Sequence[str]) -> str:
    """A command as it would be typed; `gputel info` has every letter of it."""
    words = [_cut(" ".join(word.split()), LONGEST_WORD) if "\n" in word else word for word in argv]
    quoted = [shlex.quote(word) if re.search(r"\s", word) or not word else word for word in words]
    return _cut(" ".join(quoted), LONGEST_COMMAND)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 2].rstrip()} …"


def from_table_and_log(table: Path, log: Path, offset_s: float = 0.0) -> RunData:
    """A table of readings beside a log; `offset_s` is added to the readings' clock."""
    import polars as pl

    telemetry = read_file(table).telemetry
    if telemetry is None or telemetry.rows.is_empty():
        raise GputelError(
            str(table), "no GPU readings were found in it", "name a CSV of nvidia-smi, dmon or dcgm"
        )
    shift = timedelta(seconds=offset_s)
    rows = _dated(telemetry.rows, table).with_columns(pl.col("time") + shift)
    return RunData(read_file(log), readings=rows)


def _dated(rows: pl.DataFrame, table: Path) -> pl.DataFrame:
    """A table that counts seconds from its begin only is taken to end when its file was last written."""
    import polars as pl

    if rows["time"].null_count() < rows.height or "elapsed_s" not in rows.columns:
        return rows
    since_end = ((pl.col("elapsed_s") - pl.col("elapsed_s").max()) * 1e9).cast(pl.Int64)
    moment = (since_end + table.stat().st_mtime_ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return rows.with_columns(moment.alias("time"))
