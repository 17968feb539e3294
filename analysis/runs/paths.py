"""Paths -> logs: decides what a path is, a run folder or a file, and has each read by those who know it."""

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
    """One run from a log file or a run folder."""
    return read_log(Path(path), files.chosen(format))


def parse_all(path: str | Path, *, format: str | Path | None = None) -> list[Log]:  # noqa: A002
    """Every run in a folder in which something was found, in the order of the paths; of one file, a list of one."""
    found = []
    for log in read_logs(walk(Path(path)), files.chosen(format)):
        if isinstance(log, GputelError):
            raise log
        if not log.is_empty:
            found.append(log)
    return found


def walk(path: Path) -> Iterator[Path]:
    """The files and run folders under a path; hidden ones are nobody's logs."""
    if not path.is_dir() or run_folder.is_run(path):
        yield path
        return
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if not entry.name.startswith("."):
            yield from walk(Path(entry.path))


def read_log(path: Path, formats: tuple[Format, ...] | None = None) -> Log:
    """A run folder, a log file or a FIFO. What cannot be opened is a GputelError."""
    if not path.is_dir():
        return read_file(path, formats)
    from gputel.analysis.runs import output

    return output.read(path, formats)


def read_logs(
    paths: Iterable[Path], formats: tuple[Format, ...] | None = None
) -> Iterator[Log | GputelError]:
    """Each as `read` does it, or the error that it raised; small files are read many at a time."""
    for is_folder, some in groupby(paths, Path.is_dir):
        if not is_folder:
            yield from read_files(some, formats)
            continue
        for path in some:
            try:
                yield read_log(path, formats)
            except GputelError as error:
                yield error
