"""Paths -> logs: decides whether a path is a run folder or a file, and reads it accordingly; many on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gputel.analysis import progress, stores
from gputel.analysis.logs import files
from gputel.analysis.logs.files import DEFAULT, Limits, read_file, read_files
from gputel.telemetry import own_files, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import natural_order

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

FASTEST = 500e6  # bytes per second of CPU that no log exceeds
PAGES = (".html", ".png", ".svg", ".pdf")  # gputel may have written them beside logs
ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})  # one of them lies in a Python environment
PROGRAMS = frozenset({"site-packages", "node_modules", "__pycache__"})


def parse(path: str | Path, *, format: str | Path | None = None) -> Log:  # noqa: A002
    """Parses one run: a log file or a run folder."""
    return read_log(Path(path), files.chosen(format))


def parse_all(path: str | Path, *, format: str | Path | None = None) -> list[Log]:  # noqa: A002
    """Parses every non-empty run below a folder once, in order of the paths; a file gives a list of one."""
    from gputel.analysis.runs import copies

    logs = []
    for log in read_logs(walk(Path(path)), files.chosen(format)):
        if isinstance(log, GputelError):
            raise log
        if not log.is_empty:
            logs.append(log)
    repeats = copies.find(logs)
    return [log for at, log in enumerate(logs) if at not in repeats]


FOREIGN = "a link that leads out of the folder or nowhere, a pipe or a device"


class Skipped(NamedTuple):
    """A file of a folder that is not read, and why."""

    path: Path
    why: str

    def as_json(self) -> dict[str, str]:
        return {"path": str(self.path), "why": self.why}


def walk(
    path: Path,
    skipped: list[Skipped] | None = None,
    is_known: Callable[[os.DirEntry[str]], bool] = lambda _: False,
) -> Iterator[Path]:
    """Yields the files and run folders below a path in natural order, run2 before run10; a file yields itself.

    Each is yielded once, whatever links lead to it. Adds what is left out to `skipped`: binary files, what gputel
    wrote itself, folders of installed programs, links to what is found anyway or that lead out, pipes, devices.
    Hidden files are never looked at. What `is_known` accepts is neither looked at nor yielded.
    """
    if not path.is_dir():
        yield from stores.runs_of_file(path)
        return
    if run_folder.is_run(path):
        yield path
        return
    found = _Walk(path.resolve(), [] if skipped is None else skipped, is_known)
    found.folder(path)
    found.follow_links()
    yield from sorted(found.paths, key=natural_order)


class _Walk:
    """Goes through a folder; links come last, so that a file is found by its own name first."""

    def __init__(
        self, root: Path, skipped: list[Skipped], is_known: Callable[[os.DirEntry[str]], bool]
    ) -> None:
        self._root = root
        self.paths: list[Path] = []
        self._skipped = skipped
        self._seen: dict[tuple[int, int], Path | str] = {}
        self._links: list[Path] = []
        self._is_known = is_known
        self._claimed: set[Path] = set()  # files of the stores that were found

    def folder(self, path: Path) -> None:
        if not self._is_new(path):
            return
        if run_folder.is_run(path):
            self.paths.append(path)
            return
        try:
            with os.scandir(path) as listing:
                shown = [entry for entry in listing if not entry.name.startswith(".")]
            entries = [entry for entry in shown if not self._leads_to_itself(entry)]
            device = path.stat().st_dev
        except OSError as error:
            self._skipped.append(Skipped(path, f"cannot be opened: {error.strerror}"))
            return
        if _holds_programs(path, entries) and path.resolve() != self._root:
            self._skipped.append(Skipped(path, "a folder of installed programs"))
            return
        here = stores.in_folder(path, entries, self._claimed)
        self.paths += here.paths
        self._claimed |= here.claimed
        new = [entry for entry in entries if not self._pass_over(entry, device)]
        for entry in sorted(new, key=lambda entry: natural_order(entry.name)):
            inside = Path(entry.path)
            if entry.is_symlink():
                self._links.append(inside)
            elif (is_folder := entry.is_dir()) or entry.is_file():
                self._take(inside, is_folder=is_folder)
            else:
                self._skipped.append(Skipped(inside, FOREIGN))

    def _leads_to_itself(self, entry: os.DirEntry[str]) -> bool:
        """Whether it is a link that cannot be followed to an end; `_is_new` notices those that lead to nothing."""
        try:
            entry.is_file()
        except OSError as error:
            self._skipped.append(Skipped(Path(entry.path), f"cannot be opened: {error.strerror}"))
            return True
        return False

    def _pass_over(self, entry: os.DirEntry[str], device: int) -> bool:
        """Whether a file belongs to a store, or is known; links to what is known are not yielded either."""
        if self._claimed and Path(entry.path) in self._claimed:
            return True
        if entry.is_symlink() or not self._is_known(entry):
            return False
        self._seen.setdefault((device, entry.inode()), entry.path)
        return True

    def follow_links(self) -> None:
        while self._links:
            links, self._links = self._links, []
            for link in links:
                if own_files.is_inside(link, self._root):
                    self._take(link, is_folder=link.is_dir())
                else:
                    self._skipped.append(Skipped(link, FOREIGN))

    def _take(self, path: Path, *, is_folder: bool) -> None:
        if is_folder:
            self.folder(path)
        elif path.name.endswith(PAGES):
            self._skipped.append(Skipped(path, "page or picture"))
        elif (seen := stores.look(path)).binary and not seen.store:
            self._skipped.append(Skipped(path, seen.binary))
        elif self._is_new(path):
            self.paths += stores.runs_of_file(path) if seen.store else [path]

    def _is_new(self, path: Path) -> bool:
        """Whether nothing else that was found is the same file or folder; a broken link is skipped, too."""
        try:
            facts = path.stat()
        except OSError as error:
            self._skipped.append(Skipped(path, f"cannot be opened: {error.strerror}"))
            return False
        first = self._seen.setdefault((facts.st_dev, facts.st_ino), path)
        if first is not path:
            self._skipped.append(Skipped(path, f"the same as {first}"))
        return first is path


def _holds_programs(path: Path, entries: Iterable[os.DirEntry[str]]) -> bool:
    return path.name in PROGRAMS or not ENVIRONMENT.isdisjoint(entry.name for entry in entries)


def bytes_of(path: Path) -> int:
    """Bytes to read of a log, or of what a run printed; 0 where that cannot be known."""
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("output.log"))
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def read_log(path: Path, formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT) -> Log:
    """Reads a run folder, a store, a log file or a FIFO; raises GputelError if it cannot be opened."""
    if _is_store(path, formats):
        return stores.read(path)
    if not path.is_dir():
        return read_file(path, formats, limits)
    from gputel.analysis.runs import output

    return output.read(path, formats)


def read_logs(
    paths: Iterable[Path], formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT
) -> Iterator[Log | GputelError]:
    """Yields each log, or the error that reading it raised; small files are read many at a time."""
    for is_single, group in groupby(paths, lambda path: path.is_dir() or _is_store(path, formats)):
        if not is_single:
            yield from read_files(group, formats, limits)
            continue
        for path in group:
            try:
                yield read_log(path, formats, limits)
            except GputelError as error:
                yield error


def _is_store(path: Path, formats: tuple[Format, ...] | None) -> bool:
    """Whether a path is a store; a log that is read in a format of the user's choice is none."""
    return formats is None and stores.kind(path) is not None


def read_many(
    paths: Sequence[Path], formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT
) -> Iterator[Log | GputelError]:
    """Yields each log, or the error that reading it raised, in the order of the paths.

    Reads here, or on all cores where what is left to read pays for more processes.
    """
    from gputel.analysis import spread

    sizes = {path: bytes_of(path) for path in paths}

    def show(path: Path) -> None:
        with progress.stage(path.name, sizes[path], progress.BYTES) as advance:
            advance(sizes[path])

    read = partial(_read, formats=formats, limits=limits)
    least_s = sum(sizes.values()) / FASTEST
    return spread.spread_where_it_pays(
        read, paths, sizes.__getitem__, _killed, least_s=least_s, from_afar=show
    )


def _read(
    paths: Sequence[Path], formats: tuple[Format, ...] | None, limits: Limits
) -> Iterable[Log | GputelError]:
    """The logs with their results made, since those that are made when asked for stay in the process."""
    for log in read_logs(paths, formats, limits):
        yield log if isinstance(log, GputelError) else log.with_results()


def _killed(path: Path) -> GputelError:
    return GputelError(str(path), "reading it killed the process that read it", "is there enough memory?")
