"""What could not be seen inside a training: the first failure of each process, and ranks of which no step is seen.

A process keeps its failure in `<pid>.trouble`; it never reaches the training. The first becomes one event of the
run, and `gputel stacks` lists them all. A rank without steps is an event of its own.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND
from gputel.telemetry.host.process_names import RANKS, WORLDS
from gputel.telemetry.inside import proc, step_records
from gputel.telemetry.inside.environment import ASKED, files
from gputel.telemetry.secrets import mask

KIND = "unseen"
"""The kind of its event."""
ENDING = ".trouble"
ROWS, STEPS = "gputel.log: ", re.compile(r"(process \d+): steps(?: of (rank \d+))?: (.*)", re.DOTALL)
"""Begin what went wrong with rows that a process gave by itself, and with its steps."""
LONGEST = 500
FEWEST_STEPS, PATIENCE_S = 10, 60.0
"""Steps of another process, and how long they have been seen, after which a rank without any is named."""
START_S = 900.0
"""After so long a process is named where none has a step."""
PIECE = step_records.SIZE << 14
NO_OPTIMIZER = "no optimizer of PyTorch took one"


def failures(folder: Path) -> list[str]:
    """A line for each process: `process 71: OSError: [Errno 28] No space left on device`."""
    return [f"process {path.stem}: {_first_line(path)}" for path in files(folder, ENDING)]


def sentence(failure: str) -> str:
    """Says what is missing: stacks, or rows or steps of the process."""
    if found := STEPS.match(failure):
        process, rank, why = found.groups()
        return f"{f'{rank} ({process})' if rank else process}: steps are not seen: {why}"
    return failure if ROWS in failure else f"no stacks of {failure}"


def note(folder: Path, pid: str, failure: str) -> None:
    """Keeps what failed when a process was looked at from outside, unless there is something of it already."""
    with contextlib.suppress(OSError), (folder / f"{pid}{ENDING}").open("x") as file:
        file.write(f"{failure}\n")


def report(segment: Path, folder: Path) -> None:
    """Writes the event of a folder with failures, once, whichever process is first. Raises OSError."""
    lines = failures(folder)
    if not lines:
        return
    with contextlib.suppress(FileExistsError):
        (folder / "reported").touch(exist_ok=False)
        more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
        events.note(segment, KIND, f"{sentence(lines[0])}{more}")


@dataclass
class _StepFile:
    """What was read of the records of a process: how many ended steps, and the last step that had not ended."""

    pid: int
    head: step_records.StepHeader
    read: int = step_records.SIZE
    steps: int = 0
    unended: step_records.StepRecord | None = None

    def read_on(self, path: Path) -> None:
        """Reads no more than is needed to know that there are steps."""
        if self.steps >= FEWEST_STEPS:
            return
        with path.open("rb") as file:
            file.seek(self.read)
            content = file.read(PIECE)
        for record in step_records.records(content):
            self.read += step_records.SIZE
            is_open = bool(record.flags & step_records.OPEN)
            self.steps += not is_open
            self.unended = record if is_open else None


class StepSight:
    """Names each rank of which no optimizer step is seen, once, with what is known of it."""

    def __init__(self, segment: Path, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._segment, self._folder, self._now = segment, folder, now
        self._files: dict[str, _StepFile] = {}
        self._began = now()
        self._seen_since: float | None = None
        self._looked: tuple[list[int], set[int | None]] | None = None

    def look(self, copies: Sequence[Path], *, at_end: bool = False) -> None:
        """Looks at the records that the run folder has; at the end of the command without patience."""
        for path in copies:
            self._read(path)
        seeing = [file for file in self._files.values() if file.steps >= FEWEST_STEPS]
        if seeing and self._seen_since is None:
            self._seen_since = self._now()
        since, patience = (
            (self._began, START_S) if self._seen_since is None else (self._seen_since, PATIENCE_S)
        )
        if at_end or self._now() - since >= patience:
            for who, why in (*self._without_steps(), *(() if at_end else self._silent(seeing))):
                self._say(who, why)

    def _read(self, path: Path) -> None:
        if path.name not in self._files:
            with path.open("rb") as file:
                head = step_records.header(file.read(step_records.SIZE))
            if head is None:
                return
            self._files[path.name] = _StepFile(int(path.name.partition("-")[0]), head)
        self._files[path.name].read_on(path)

    def _without_steps(self) -> Iterator[tuple[str, str]]:
        """Processes that train, as their backwards say, without an optimizer step that is seen."""
        for file in self._files.values():
            if not file.steps and file.unended and file.unended.backwards:
                yield _name(file.head.rank, file.pid), f"{NO_OPTIMIZER}; {_work(file.unended)}"

    def _silent(self, seeing: Sequence[_StepFile]) -> Iterator[tuple[str, str]]:
        """Ranks by the environment of processes that listen; they, their parents and children have no steps.

        It never changes, so they are read again only when there are others: this runs once a second.
        """
        worlds = {file.head.world for file in seeing}
        listening = sorted(int(path.stem) for path in files(self._folder, ASKED) if path.stem.isdigit())
        if self._looked == (listening, worlds):
            return
        self._looked = listening, worlds
        known = {file.head.rank for file in self._files.values()}
        parents = {pid: facts.parent for pid in listening if (facts := proc.facts(pid))}
        with_steps = {file.pid for file in self._files.values()}
        related = {parents.get(pid) for pid in with_steps} | {
            pid for pid, parent in parents.items() if parent in with_steps
        }
        for pid in parents:
            rank, world = proc.number(pid, RANKS), proc.number(pid, WORLDS)
            if rank is not None and rank not in known and world in worlds and pid not in with_steps | related:
                known.add(rank)
                yield _name(rank, pid), f"{NO_OPTIMIZER} while others took {FEWEST_STEPS} and more"

    def _say(self, who: str, why: str) -> None:
        """Writes the event, unless one of our processes has."""
        with contextlib.suppress(FileExistsError):
            (self._folder / f"{who.partition(' (')[0]} without steps").touch(exist_ok=False)
            events.note(self._segment, KIND, f"{who}: steps are not seen: {why}")


def _name(rank: int | None, pid: int) -> str:
    return f"process {pid}" if rank is None else f"rank {rank} (process {pid})"


def _work(record: step_records.StepRecord) -> str:
    """What a step has been so far, such as `12 batches and 12 backwards in 44 s, 31 % of it waiting for data`."""
    seconds = record.step_ns / SECOND
    waits = (
        f", {100 * record.fetch_ns / record.step_ns:.0f} % of it waiting for data" if record.fetches else ""
    )
    return f"{record.fetches:,} batches and {record.backwards:,} backwards in {seconds:.0f} s{waits}"


def _first_line(path: Path) -> str:
    """The failure; a file without a word is one for which memory had no room."""
    try:
        with path.open(errors="replace") as file:
            line = file.readline(LONGEST).strip()
    except OSError as error:
        return mask(f"{error.strerror}")
    return mask(line) or "no room in memory to say why"
