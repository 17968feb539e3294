"""The recorded source of runs -> which files differ between them, and in which lines.

A file that the commands name was saved whole; for any other file the uncommitted changes are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.telemetry.own_files import is_foreign
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

LARGEST = 2 << 20  # bytes of a saved file that are read
COMMITTED = "as committed"
MOST_LINES = 60


@dataclass(frozen=True)
class SavedSource:
    """The files of one run: whole texts by name, and the pieces of a diff by file."""

    texts: Mapping[str, str]
    changes: Mapping[str, tuple[str, ...]]

    def state(self, name: str) -> str:
        """A digest of the file's text or changes, equal if the file is."""
        text = self.texts.get(name) or "".join(self.changes.get(name, ()))
        return _digest(text) if text else COMMITTED

    def shown(self, name: str) -> str:
        """The state of a file in a few letters: `+12 -3, 5f2a1c`."""
        if name not in self.changes:
            return self.state(name)
        lines = [line for piece in self.changes[name] for line in piece.splitlines()]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        return f"+{added} -{removed}, {self.state(name)}"


def differing(runs: Mapping[str, RunData]) -> dict[str, dict[str, str]]:
    """Returns by run a setting `code FILE` for each file that differs between the runs with a saved source."""
    saved = {run: each for run, subject in runs.items() if (each := _saved(subject))}
    return {
        run: {f"code {name}": each.shown(name) for name in _files(saved.values())}
        for run, each in saved.items()
    }


def pieces(runs: Mapping[str, RunData]) -> list[str]:
    """Returns the lines in which the source of two runs differs; none for more runs, or without saved source."""
    saved = {run: each for run, subject in runs.items() if (each := _saved(subject))}
    if len(runs) != 2 or len(saved) != 2:
        return []
    lines = [line for name in _files(saved.values()) for line in _file_pieces(name, saved)]
    more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return [*map(mask, lines[:MOST_LINES]), *more]


def _file_pieces(name: str, saved: Mapping[str, SavedSource]) -> Iterator[str]:
    (first, one), (second, other) = saved.items()
    if name in one.texts and name in other.texts:
        before, after = one.texts[name].splitlines(), other.texts[name].splitlines()
        yield from unified_diff(before, after, f"{first}: {name}", f"{second}: {name}", lineterm="")
        return
    for run, mine, others in ((first, one, other), (second, other, one)):
        only = [piece for piece in mine.changes.get(name, ()) if piece not in others.changes.get(name, ())]
        if only:
            yield f"only in {run}: {name}"
            yield from (f"  {line}" for piece in only for line in piece.splitlines())


def _files(saved: Collection[SavedSource]) -> list[str]:
    """The files whose state differs."""
    names = dict.fromkeys(name for each in saved for name in (*each.texts, *each.changes))
    return [name for name in names if len({each.state(name) for each in saved}) > 1]


def _saved(subject: RunData) -> SavedSource | None:
    """The source of a run's last segment; None where none was saved."""
    if subject.recording is None:
        return None
    from gputel.telemetry import source_code

    segment = subject.recording.folder.segments[-1].path
    contents = source_code.describe(segment)
    if not contents:
        return None
    folder = segment / source_code.FOLDER
    listed = contents.get("files")
    files = [file for file in listed if isinstance(file, dict)] if isinstance(listed, list) else []
    texts = {
        str(file.get("name")): _text(folder / "files" / Path(str(file.get("file"))).name) for file in files
    }
    return SavedSource(texts, dict(_changes(_text(folder / source_code.DIFF))))


def _changes(diff: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The pieces of each file of a diff, without the numbers of their lines."""
    lines = diff.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith("diff --git ")]
    for start, end in pairwise([*starts, len(lines)]):
        name = lines[start].rstrip().rpartition(" b/")[2].rstrip('"')
        heads = [at for at in range(start, end) if lines[at].startswith("@@ ")]
        found = ["".join(lines[at + 1 : stop]) for at, stop in pairwise([*heads, end])]
        yield name, tuple(found) or ("".join(lines[start + 1 : end]),)


def _text(path: Path) -> str:
    """The text of a saved file; nothing of a link or a pipe in its place."""
    if is_foreign(path.parent, folder=True) or is_foreign(path):
        return ""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode(errors="replace")
    except OSError:
        return ""


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:6]
