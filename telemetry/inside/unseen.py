"""What could not be seen inside a training: the first failure of each process, kept in its `<pid>.trouble`.

A failure there never reaches the training; it becomes one event of the run, and `gputel stacks` lists them all.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from gputel.telemetry import events
from gputel.telemetry.secrets import mask

KIND = "unseen"
"""The kind of its event."""
ENDING = ".trouble"
OWN = ("gputel.log: ", "steps: ")
"""Begin what went wrong with rows that a process gave by itself, and with its steps."""
LONGEST = 500


def failures(folder: Path) -> list[str]:
    """A line for each process: `process 71: OSError: [Errno 28] No space left on device`."""
    return [f"process {path.stem}: {_first_line(path)}" for path in sorted(folder.glob(f"*{ENDING}"))]


def sentence(failure: str) -> str:
    """Says what is missing: stacks, or rows or steps of the process."""
    return failure if any(words in failure for words in OWN) else f"no stacks of {failure}"


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


def _first_line(path: Path) -> str:
    """The failure; a file without a word is one for which memory had no room."""
    try:
        with path.open(errors="replace") as file:
            line = file.readline(LONGEST).strip()
    except OSError as error:
        return mask(f"{error.strerror}")
    return mask(line) or "no room in memory to say why"
