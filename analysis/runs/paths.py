"""Paths -> logs: decides whether a path is a run folder or a file, and reads it accordingly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.logs import files
from gputel.analysis.logs.files import read_file, read_files
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log


def parse(path: str | Path, *, format: str | Path | None = None) -> Log:  # noqa: A002
    """Parses one run: a log file or a run folder."""
    return read_log(Path(path), files.chosen(format))


def parse_all(path: str | Path, *, format: str | Path | None = None) -> list[Log]:  # noqa: A002
    """Parses every non-empty run below a folder, in order of the paths; a file gives a list of one."""
    logs = []
    for log in read_logs(walk(Path(path)), files.chosen(format)):
        if isinstance(log, GputelError):
            raise log
        if not log.is_empty:
            logs.append(log)
    return logs


def walk(path: Path) -> Iterator[Path]:
    """Yields the files and run folders below a path; hidden ones are skipped."""
    if not path.is_dir() or run_folder.is_run(path):
        yield path
        return
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if not entry.name.startswith("."):
            yield from walk(Path(entry.path))


def read_log(path: Path, formats: tuple[Format, ...] | None = None) -> Log:
    """Reads a run folder, a log file or a FIFO; raises GputelError if it cannot be opened."""
    if not path.is_dir():
        return read_file(path, formats)
    from gputel.analysis.runs import output

    return output.read(path, formats)


def read_logs(
    paths: Iterable[Path], formats: tuple[Format, ...] | None = None
) -> Iterator[Log | GputelError]:
    """Yields each log, or the error that reading it raised; small files are read many at a time."""
    for is_folder, group in groupby(paths, Path.is_dir):
        if not is_folder:
            yield from read_files(group, formats)
            continue
        for path in group:
            try:
                yield read_log(path, formats)
            except GputelError as error:
                yield error
