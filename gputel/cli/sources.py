"""What RUN may be: a run folder, a log file, a folder of either, a glob, `latest`, or `-` for standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gputel.analysis import progress, text
from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import matches, natural_order
from gputel.telemetry.remote import storage

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.paths import Skipped

RUNS = Path("runs")
MOST_UNSEALED = 2  # segments in storage that are named; a fleet that goes on has one for each node
COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class RunSource:
    """One thing that a command can open. A FIFO is a log; standard input has no path of its own."""

    kind: Literal["run", "log", "store", "stdin"]
    path: Path
    within: Path | None = None  # the folder that was searched for it; None for a path that was named itself

    @property
    def name(self) -> str:
        """`d16-base` for d16-base.log.gz, the folder's name for a run."""
        name = self.path.name or self.path.resolve().name
        if self.kind != "log":
            return name
        for ending in COMPRESSED:
            name = name.removesuffix(ending)
        return name.rpartition(".")[0] or name


def find(word: str, skipped: list[Skipped] | None = None) -> list[RunSource]:
    """Everything that one argument names, in a stable order; files of a folder that are not read go to `skipped`.

    Raises GputelError if it names nothing.
    """
    if word == "-":
        return [RunSource("stdin", Path("-"))]
    path = Path(fetched(word))
    if word == "latest" and not path.exists():
        return [RunSource("run", latest())]
    if path.exists() or _is_run_of_store(path):
        return list(_in(path, skipped)) or _nothing(
            word, _lacking(path), "name a folder that holds logs or runs"
        )
    found = [source for match in matches(word) for source in _in(match, skipped)]
    return found or _nothing(
        word,
        "no such file or folder",
        hint_for_output(word) or "name a run folder, a log, a glob, 'latest' or '-'",
    )


def hint_for_output(word: str) -> str:
    """How to name the file to write, if that is what a word after `--html` looks like; flags take no value."""
    from gputel.analysis.runs.paths import PAGES

    return f"to write it, say --out {word}" if Path(word).suffix in PAGES and not Path(word).exists() else ""


def fetched(word: str) -> str:
    """The argument itself; for an address, such as `s3://bucket/d16`, the path of a local copy of what is there."""
    if not storage.is_address(word):
        return word
    from gputel.cli import show
    from gputel.telemetry.remote.local_copy import local_copy

    with progress.stage(f"fetching {word}", 0.0):
        copy = local_copy(word)
    unsealed = sorted(copy.unsealed.items(), key=lambda each: natural_order(each[0]))
    for segment, newest in unsealed[:MOST_UNSEALED]:
        show.note(
            f"{word}: {segment or 'the run'} is not sealed; its newest object is of {text.moment(newest)}"
        )
    if others := [newest for _, newest in unsealed[MOST_UNSEALED:]]:
        edges = " to ".join(dict.fromkeys(text.moment(edge) for edge in (min(others), max(others))))
        show.note(f"{word}: {len(others)} more are not sealed; the newest object of each is of {edges}")
    return str(copy.path)


def in_natural_order(words: Sequence[str]) -> list[str]:
    """The words with run2 before run10, if they stand in the order in which a shell's `*` gives them.

    That order is of letters, in most locales without regard to their case; any other order was typed and stays.
    """
    for fold in (str, str.casefold):
        if list(words) == sorted(words, key=fold):
            return sorted(words, key=lambda word: natural_order(fold(word)))
    return list(words)


@contextmanager
def reading(named: Sequence[RunSource]) -> Iterator[None]:
    """Counts the bytes of several runs as one piece of work."""
    from gputel.analysis.runs import paths

    label = (
        f"reading {len(named)} runs" if len(named) > 1 else f"reading {named[0].path.name}" if named else ""
    )
    with progress.stage(label, sum(paths.bytes_of(source.path) for source in named), progress.BYTES):
        yield


def without_copies(read: Sequence[tuple[RunSource, Log]]) -> tuple[list[Log], list[Skipped]]:
    """The logs, without those of a folder that another log in it repeats; a log that was named itself stays."""
    folders = dict.fromkeys(source.within for source, _ in read if source.within)
    if not folders:
        return [log for _, log in read], []
    from gputel.analysis.runs import copies
    from gputel.analysis.runs.paths import Skipped

    copied: dict[int, int] = {}
    for folder in folders:
        places = [at for at, (source, _) in enumerate(read) if source.within == folder]
        repeats = copies.find([read[at][1] for at in places])
        copied |= {places[copy]: places[kept] for copy, kept in repeats.items()}
    logs = [log for at, (_, log) in enumerate(read) if at not in copied]
    whys = {at: f"the same run as {read[kept][1].source}" for at, kept in copied.items()}
    return logs, [Skipped(read[at][0].path, why) for at, why in whys.items()]


def subject(source: RunSource) -> RunData:
    """The run that comparisons, reports and gates take."""
    from gputel.analysis import runs
    from gputel.analysis.logs import files
    from gputel.analysis.runs import read_run

    if source.kind == "stdin":
        return runs.RunData(files.stream(sys.stdin.buffer, "stdin", "-"))
    return read_run(source.path)


def subjects(named: Sequence[RunSource]) -> Iterator[RunData]:
    """The runs, their logs read on all cores where that pays. Raises the GputelError of the first that has one."""
    from gputel.analysis.runs import RunData, of_log, paths
    from gputel.analysis.runs.recording import open_recording

    logs = paths.read_many([source.path for source in named if source.kind != "stdin"])
    for source in named:
        if source.kind == "stdin":
            yield subject(source)
            continue
        log = next(logs)
        if isinstance(log, GputelError):
            raise log
        yield RunData(log, open_recording(source.path)) if source.kind == "run" else of_log(log)


def one_subject(word: str) -> RunData:
    """The run or log that an argument names; nothing to parse in it is a GputelError."""
    found = find(word)
    if len(found) > 1:
        such = next((source for source in reversed(found) if source.kind == "run"), found[-1])
        many = "runs" if all(source.kind == "run" for source in found) else "runs and files"
        _nothing(
            word,
            f"holds {len(found)} {many}, and this needs one",
            f"name one of them, such as {such.path}; 'gputel runs {word}' shows all of them",
        )
    return parsed_subject(found[0], word)


def parsed_subject(source: RunSource, word: str = "") -> RunData:
    """The run; a GputelError that calls it `word` if nothing in it can be parsed, with exit code 3."""
    run = subject(source)
    if run.recording is None and run.log.is_empty:
        place = word or f"{source.path}"
        raise GputelError(place, "nothing in it could be parsed", f"see 'gputel parse {place}'", exit_code=3)
    return run


def one_run(word: str) -> Path:
    """The run folder that an argument names, for commands that open just one.

    Looks at no logs: that needs polars, whose threads would take the signals of a recorder.
    """
    path = Path(word)
    if word == "latest" and not path.exists():
        return latest()
    paths = matches(word)
    if not paths:
        _nothing(word, "no such file or folder", "name a run folder, or 'latest'")
    runs = sorted({run for match in paths for run in _run_folders(match)}, key=natural_order)
    if not runs:
        _nothing(word, *run_folder.NO_RUN)
    if len(runs) > 1:
        _nothing(word, f"holds {len(runs)} runs, and this needs one", f"name one of them, such as {runs[-1]}")
    return runs[0]


def latest(under: Path = RUNS) -> Path:
    """The run under `runs/` that started last; a start that failed counts only if nothing else is there."""
    runs = (
        [path for path in under.glob("*") if path.is_dir() and run_folder.is_run(path)]
        if under.is_dir()
        else []
    )
    if not runs:
        _nothing("latest", f"there is no run under {under}/", "record one: gputel record -- COMMAND")
    newest = sorted(runs, key=_started, reverse=True)
    return next((run for run in newest if not _failed_to_start(run)), newest[0])


def _failed_to_start(path: Path) -> bool:
    """Whether nothing was recorded and nothing will be: no output, no sample, no recorder."""
    try:
        segments = run_folder.open_folder(path).segments
    except GputelError:
        return True
    return not any(_holds_something(segment) for segment in segments)


def _holds_something(segment: run_folder.Segment) -> bool:
    has_output = segment.output.is_file() and segment.output.stat().st_size > 0
    has_samples = segment.gpu.is_dir() and any(segment.gpu.iterdir())
    return has_output or has_samples or recorder_lock.recorder_of(segment.path) is not None


def _started(path: Path) -> int:
    """The last start of any of its segments; a run.json that cannot be read goes by its date."""
    try:
        segments = run_folder.open_folder(path).segments
    except GputelError:
        return 0
    moments = []
    for segment in segments:
        try:
            moments.append(run_folder.wall_ns(run_folder.describe(segment.path), "started") or 0)
        except GputelError:
            moments.append((segment.path / run_folder.DESCRIPTION).stat().st_mtime_ns)
    return max(moments)


def _run_folders(path: Path) -> Iterator[Path]:
    """The run folders at or below a path; hidden folders and links to folders are not entered."""
    if run_folder.is_run(path):
        yield path
        return
    for folder, inner, _ in os.walk(path):
        inner[:] = [name for name in inner if not name.startswith(".")]
        if run_folder.is_run(Path(folder)):
            inner.clear()
            yield Path(folder)


def _in(path: Path, skipped: list[Skipped] | None = None) -> Iterator[RunSource]:
    """A run folder needs no search, nor polars, whose threads would take the signals of a recorder."""
    if path.is_dir() and run_folder.is_run(path):
        yield RunSource("run", path, path)
        return
    from gputel.analysis.runs import paths

    for found in paths.walk(path, skipped):
        yield RunSource(_kind_of(found), found, path if path.is_dir() else None)


def _kind_of(path: Path) -> Literal["run", "log", "store"]:
    from gputel.analysis import stores

    if stores.kind(path):
        return "store"
    return "run" if path.is_dir() else "log"


def _is_run_of_store(path: Path) -> bool:
    """Whether a path is `FILE#RUN`, such as a run in a database of MLflow."""
    if "#" not in path.name:
        return False
    from gputel.analysis import stores

    return stores.kind(path) is not None


def _lacking(folder: Path) -> str:
    return "no log and no run is in it" if any(folder.iterdir()) else "the folder is empty"


def _nothing(word: str, fault: str, hint: str) -> list[RunSource]:
    raise GputelError(word, fault, hint)
