"""Paths -> logs: decides whether a path is a run folder or a file, and reads it accordingly."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.logs import files
from gputel.analysis.logs.files import read_file, read_files
from gputel.telemetry import run_folder
from gputel.telemetry.characters import visible_line
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


def warn_of_skipped(path: Path) -> None:
    warnings.warn(skipped(path), stacklevel=2)


def skipped(path: Path) -> str:
    return f"{visible_line(str(path))}: skipped: a link that leads out of the folder or nowhere, a pipe or a device"


def walk(path: Path, on_skip: Callable[[Path], object] = warn_of_skipped) -> Iterator[Path]:
    """Yields the files and run folders below a path; hidden ones are left out.

    Skips links that lead out of it, pipes and devices, and calls `on_skip` with each. A link to a folder inside is
    left out, too: the folder itself is walked.
    """
    if not path.is_dir() or run_folder.is_run(path):
        yield path
    else:
        yield from _below(path, path.resolve(), on_skip)


def _below(folder: Path, root: Path, on_skip: Callable[[Path], object]) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if not run_folder.is_inside(path, root):
            on_skip(path)
        elif not entry.is_dir() or run_folder.is_run(path):
            if not (entry.is_dir() and entry.is_symlink()):
                yield path
        elif not entry.is_symlink():
            yield from _below(path, root, on_skip)


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
