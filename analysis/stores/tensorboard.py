"""A folder of TensorBoard event files -> one stored run.

Children called train, validation and the like belong to their parent, and their name goes before the tag; so do
those that torch's `add_scalars` makes for each curve, and `add_hparams` for the settings. A file
that says that a session starts at a step, or whose steps begin below those of the file before it, begins an
attempt: nothing is taken out, the later attempt supersedes.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gputel.analysis.logs.files import FRESH_S
from gputel.analysis.logs.open_files import has_writer
from gputel.analysis.stores.event_files import FORMAT, EventBlock, EventDecoder, is_event_file
from gputel.analysis.stores.plain_yaml import settings_beside
from gputel.analysis.stores.points import StoredRun, TagValues, joined, numbered
from gputel.analysis.stores.tags import is_part
from gputel.telemetry.file_names import natural_order

PIECE = 8 << 20
HEAD = 512
FIRST_RECORDS = 4 << 10  # bytes that hold the name of a curve that has its own writer
HPARAMS_METRIC = "hparam/"  # what the hyperparameter dashboard calls the result of a run
HPARAMS_FOLDER = re.compile(r"\d{9,11}\.\d+")  # the time as `add_hparams` names its folder
HPARAMS = b"_hparams_/"
DEEPEST = 4  # depth of folders from a run to its curves: names given to `add_scalars` may have slashes


def event_files(folder: Path) -> list[Path]:
    """The event files of a folder, older first, known by their content."""
    try:
        entries = [
            entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_file()
        ]
    except OSError:
        return []
    paths = sorted((Path(entry.path) for entry in entries), key=natural_order)
    return [path for path in paths if is_event_path(path)]


def is_event_path(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_event_file(file.read(HEAD))
    except OSError:
        return False


def parts(folder: Path) -> dict[str, list[Path]]:
    """The event files of a run by the part of it that they are about: "" for those of the folder itself."""
    own = event_files(folder)
    found = {"": own}
    for child in _folders(folder):
        if is_part(child.name):
            found[child.name] = event_files(child)
        elif own:
            found |= {str(path.relative_to(folder)): files for path, files in _of_same_writer(child, folder)}
    settings = [name for name in found if HPARAMS_FOLDER.fullmatch(name)]
    if len(settings) > 1:  # a sweep that has one writer: each is a run
        for name in settings:
            del found[name]
    return {name: files for name, files in found.items() if files}


def _folders(folder: Path) -> list[Path]:
    try:
        children = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(children, key=natural_order)


def _of_same_writer(child: Path, run: Path, depth: int = 1) -> Iterator[tuple[Path, list[Path]]]:
    """The folders at and below a child that the writer of the run made for single curves or settings."""
    try:
        names = [entry.name for entry in os.scandir(child) if entry.is_file()]
    except OSError:
        return
    if not names and depth < DEEPEST:
        for below in _folders(child):
            yield from _of_same_writer(below, run, depth + 1)
    elif names and all("tfevents" in name for name in names):
        files = event_files(child)
        if files and _is_side_file(files[0], str(child.relative_to(run))):
            yield child, files


def _is_side_file(path: Path, part: str) -> bool:
    """Whether an event file holds one curve of `add_scalars`, or what `add_hparams` was given."""
    with path.open("rb") as file:
        head = file.read(FIRST_RECORDS)
    if HPARAMS_FOLDER.fullmatch(part):
        return HPARAMS in head
    decoder = EventDecoder()
    decoder.feed(head)
    return len(decoder.tags) == 1 and _curve(part, decoder.tags[0]) is not None


def _curve(part: str, tag: str) -> str | None:
    """The name of a curve: of `loss`, torch writes train to `loss_train`, tensorboardX to `loss/train`."""
    starts = (f"{tag.replace('/', '_')}_", f"{tag}/")
    return next((part[len(start) :] for start in starts if part.startswith(start)), None)


def _tag_of_run(part: str, tag: str) -> str:
    """The name that a tag of a part has in the run."""
    if HPARAMS_FOLDER.fullmatch(part):
        return HPARAMS_METRIC + tag.removeprefix(HPARAMS_METRIC)
    if part and not is_part(part) and (curve := _curve(part, tag)):
        return f"{tag}/{curve}"
    return f"{part}/{tag}" if part else tag


@dataclass
class _File:
    """One event file, and how far it was read."""

    path: Path
    decoder: EventDecoder = field(default_factory=EventDecoder)
    blocks: list[EventBlock] = field(default_factory=list)
    read: int = 0
    fault: str | None = None

    def advance(self) -> bool:
        """Reads what was written since the last call; returns whether there was anything."""
        before = self.read
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self.read)
                while data := file.read(PIECE):
                    self.blocks.append(self.decoder.feed(data))
                    self.read += len(data)
        except OSError as error:
            self.fault = f"{self.path.name} could not be read: {error.strerror}"
        return self.read > before

    def points(self, part: str) -> TagValues:
        tags = [_tag_of_run(part, tag) for tag in self.decoder.tags]
        return joined(
            [
                TagValues(
                    tags, block.tag, block.step, block.time, block.value, np.ones(len(block.tag), np.int64)
                )
                for block in self.blocks
            ]
        )

    def starts(self) -> list[tuple[int, int]]:
        """How many values come before each start of a session that names a step, and the step."""
        records = np.concatenate([np.zeros(0, np.int64), *(block.record for block in self.blocks)])
        return [(int(np.searchsorted(records, at)), step) for at, step in self.decoder.starts if step > 0]


class FolderReader:
    """Reads the event files of a run, and later what was written to them since, and the files that are new.

    An event file that is named itself is a run of its own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: dict[str, dict[Path, _File]] = {}

    @property
    def files(self) -> list[Path]:
        return [path for files in self._parts.values() for path in files]

    def advance(self) -> bool:
        """Reads what is new; returns whether anything is."""
        found = {"": [self.path]} if self.path.is_file() else parts(self.path)
        for part, paths in found.items():
            files = self._parts.setdefault(part, {})
            for path in paths:
                files.setdefault(path, _File(path))
        grown = [file.advance() for files in self._parts.values() for file in files.values()]
        return any(grown)

    def run(self) -> StoredRun:
        """Makes the run of everything that was read so far."""
        name = (self.path.parent if self.path.is_file() else self.path.resolve()).name or self.path.name
        resumes: dict[int, str] = {}
        several = [_attempts(part, list(files.values()), resumes) for part, files in self._parts.items()]
        points, results = _hparam_results(joined(several))
        files = [file for some in self._parts.values() for file in some.values()]
        decoders = [file.decoder for file in files]
        texts = {
            tag.removesuffix("/text_summary"): words for each in decoders for tag, words in each.texts.items()
        }
        skipped = sum((decoder.skipped for decoder in decoders), Counter[str]())
        live = is_written(self.files)
        return StoredRun(
            name,
            str(self.path),
            FORMAT,
            points,
            config=self._settings() | {n: value for each in decoders for n, value in each.config.items()},
            summary={**texts, **results},
            rejects=[reject for decoder in decoders for reject in decoder.rejects],
            resumes=resumes,
            status="running" if live else "unknown",
            live=live,
            fault="; ".join(file.fault for file in files if file.fault) or None,
            notes=tuple(f"{count:,} {what} skipped" for what, count in sorted(skipped.items())),
        )

    def _settings(self) -> dict[str, float | str]:
        return {} if self.path.is_file() else settings_beside(self.path)


def is_written(files: Sequence[Path]) -> bool:
    """Whether a process has one of the files open for writing; files that have been silent long are not asked."""
    now = time.time()
    for path in files:
        try:
            changed = path.stat().st_mtime
        except OSError:
            continue
        if now - changed < FRESH_S and has_writer(path, changed):
            return True
    return False


def _attempts(part: str, files: Sequence[_File], resumes: dict[int, str]) -> TagValues:
    """Joins the files of one part, with the attempt of each value."""
    several: list[TagValues] = []
    begins: dict[int, int | None] = {}  # places at which an attempt begins, and the step that the file names
    count = 0
    for file in files:
        points = file.points(part)
        begins |= {count + at: step for at, step in file.starts() if count + at}
        if count and count not in begins and _begins_again(several, points):
            begins[count] = None
        several.append(points)
        count += len(points)
    points = joined(several)
    attempt = numbered(points, list(begins))
    for at, step in begins.items():
        if step is not None and at < len(attempt):
            resumes.setdefault(int(attempt[at]), f"a session starts at step {step}; later rows supersede")
    return replace(points, attempt=attempt)


def _begins_again(before: list[TagValues], points: TagValues) -> bool:
    """Whether the first step of a tag is not above the last one of the same tag in an earlier file."""
    last: dict[str, int] = {}
    for earlier in before:
        for at, tag in enumerate(earlier.tags):
            steps = earlier.step[earlier.tag == at]
            if len(steps):
                last[tag] = int(steps[-1])
    for at, tag in enumerate(points.tags):
        steps = points.step[points.tag == at]
        if len(steps) and tag in last and int(steps[0]) <= last[tag]:
            return True
    return False


def _hparam_results(points: TagValues) -> tuple[TagValues, dict[str, float | str]]:
    """Takes out what the hyperparameter dashboard shows as results of a run."""
    chosen = [at for at, tag in enumerate(points.tags) if tag.startswith(HPARAMS_METRIC)]
    is_result = np.isin(points.tag, chosen)
    results: dict[str, float | str] = {
        points.tags[tag]: value
        for tag, value in zip(points.tag[is_result].tolist(), points.value[is_result].tolist(), strict=True)
    }
    return points.only(~is_result), results
