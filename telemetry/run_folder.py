"""The run folder: creates it, finds its segments, reads and updates run.json.

A run has one or more segments, each with its own run.json, output.log and gpu/ folder: the first in the folder
itself, later ones under `segments/<n>/`, and those of one node of several under `nodes/<rank>/`. Several
processes update one run.json: each merges its change under a lock and renames the file into place, so that a
reader never sees half a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from gputel.telemetry import fact_types, recorder_lock
from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import SECOND, Stamp, boot_name, boot_ns, wall_at_boot
from gputel.telemetry.errors import DamagedFile, GputelError, reason
from gputel.telemetry.file_names import file_name
from gputel.telemetry.own_files import FOREIGN, UNFOLLOWED, ForeignFileError, is_inside, read_own
from gputel.telemetry.secrets import mask_argv, mask_value
from gputel.telemetry.whole_files import NO_ROOM, Reserve, draft, write_whole

SCHEMA = 1
DESCRIPTION = "run.json"
NO_RUN = "no run is here", f"a run folder holds a {DESCRIPTION} that gputel wrote"
"""The fault and the hint of a path that is no run folder."""
LOCK = f".{DESCRIPTION}.lock"
"""A file that the processes of a recording hold locked, so that no second one goes on with a run that is live."""
COMPACT_LOCK = ".compact.lock"
"""A file in each folder of a table; who compacts the table holds it locked."""
NUMBER = re.compile("[0-9]{1,9}")  # of a segment or a node
PRIVATE, SHARED = 0o700, 0o750
"""Modes of a run folder: for its user alone, or for their group to read."""


@dataclass(frozen=True)
class Segment:
    """One uninterrupted recording on one node."""

    path: Path
    node: str | None = None
    number: int = 1
    made: tuple[Path, ...] = field(default=(), compare=False)
    """The folders that were made for it, innermost first."""

    @property
    def output(self) -> Path:
        return self.path / "output.log"

    @property
    def index(self) -> Path:
        return self.path / "output.idx"

    @property
    def gpu(self) -> Path:
        return self.path / "gpu"


@dataclass(frozen=True)
class RunFolder:
    """All segments of a run, node by node, in the order in which they were recorded."""

    path: Path
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return str(readable_facts(self.segments[0].path).get("run") or self.path.resolve().name)


def default_path(stamp: Stamp, name: str, under: Path = Path("runs")) -> Path:
    """`runs/20261121-013500-d16`; a second run within the same second gets a number at its end."""
    moment = datetime.fromtimestamp(stamp.wall // 1_000_000_000)
    first = path = under / f"{moment:%Y%m%d-%H%M%S}-{file_name(name)}"
    number = 2
    while path.exists():
        path = first.with_name(f"{first.name}-{number}")
        number += 1
    return path


def create(
    path: Path, facts: Mapping[str, object], *, node: str | None = None, mode: int = PRIVATE
) -> Segment:
    """Create a run, or with `node` this node's part of it. Refuses a folder that already holds a run.

    An existing folder keeps its mode.
    """
    made = _make_folder(path, mode)
    segment = _create(path, facts, node)
    return replace(segment, made=(*segment.made, *made))


def _make_folder(path: Path, mode: int) -> tuple[Path, ...]:
    """Make the folder of a run; returns it and its parents that were not there, innermost first."""
    made = tuple(folder for folder in (path, *path.parents) if not folder.exists())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode)
    except OSError as error:
        raise unwritable(path, error) from error
    return made


def unwritable(path: Path, error: OSError) -> GputelError:
    return GputelError(str(path), f"cannot write here: {reason(error)}", "choose another --out")


def _create(path: Path, facts: Mapping[str, object], node: str | None) -> Segment:
    if node is not None:
        return _next_segment(path / "nodes" / node, facts, node)
    if is_run(path):
        raise GputelError(
            str(path), "this folder already holds a run", "choose another --out, or --continue it"
        )
    return _make(path, facts, None, 1)


def add_segment(run: Path, facts: Mapping[str, object], *, node: str | None = None) -> Segment:
    """Create the next segment of a resumed run. Refuses while this node's last one is recorded or removed."""
    for segment in open_folder(run).segments:
        recorder = recorder_lock.recorder_of(segment.path) if segment.node == node else None
        if recorder is not None:
            raise GputelError(str(run), f"is still in use by {recorder}", "wait for its end, or stop it")
    return _next_segment(run if node is None else run / "nodes" / node, facts, node)


def _next_segment(home: Path, facts: Mapping[str, object], node: str | None) -> Segment:
    if not (home / DESCRIPTION).exists():
        with contextlib.suppress(FileExistsError):
            return _make(home, facts, node, 1)
    number = 2
    while True:
        try:
            return _make(home / "segments" / str(number), facts, node, number)
        except FileExistsError:
            number += 1


def _make(path: Path, facts: Mapping[str, object], node: str | None, number: int) -> Segment:
    """The first recorder to link run.json into place owns the folder; a second one gets FileExistsError."""
    made = tuple(folder for folder in (path, *path.parents) if not folder.exists())
    try:
        path.mkdir(parents=True, exist_ok=True)
        with draft(path / DESCRIPTION) as part:
            part.write_text(_text({"schema": SCHEMA, **facts}))
            os.link(part, path / DESCRIPTION)
        (path / "gpu").mkdir(exist_ok=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error
    return Segment(path, node, number, made)


def discard(segment: Segment) -> None:
    """Remove what was made for a recording that did not begin, and nothing else."""
    from gputel.telemetry.host.columns import TABLES

    for table in ("gpu", "inside", *TABLES):
        shutil.rmtree(segment.path / table, ignore_errors=True)
    for name in (DESCRIPTION, LOCK, recorder_lock.NAME, "output.log", "output.idx", "events.jsonl"):
        (segment.path / name).unlink(missing_ok=True)
    reserve(segment.path).release()
    for folder in segment.made:
        with contextlib.suppress(OSError):
            folder.rmdir()


def reserve(segment: Path) -> Reserve:
    """The room for the end of the run: a full disk would take neither end nor exit code."""
    return Reserve(segment / DESCRIPTION)


def update(segment: Path, **facts: object) -> None:
    """Merge facts into run.json. Raises OSError on a full disk, which leaves the old file as it was."""
    _merge(segment, facts, partial(write_whole, segment / DESCRIPTION))


def update_end(segment: Path, facts: Mapping[str, object], *, fsync: bool = False) -> None:
    """Merge the facts of the end into run.json, on a full disk in the room that was reserved."""
    try:
        _merge(segment, facts, partial(write_whole, segment / DESCRIPTION, fsync=fsync))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _merge(segment, facts, reserve(segment).write)


def _merge(segment: Path, facts: Mapping[str, object], write: Callable[[bytes], None]) -> None:
    with locked(segment / LOCK):
        write(_text({**describe(segment), **facts}).encode())


def describe(segment: Path) -> dict[str, object]:
    """The content of run.json."""
    path = segment / DESCRIPTION
    try:
        facts = parse_json(read_own(path))
    except ForeignFileError:
        raise GputelError(str(path), FOREIGN, "remove it") from None
    except FileNotFoundError:
        raise GputelError(str(segment), *NO_RUN) from None
    except (ValueError, RecursionError) as error:
        raise GputelError(
            str(path), f"is not JSON ({error})", "correct it by hand, or move it away"
        ) from None
    except OSError as error:
        raise GputelError(str(path), f"cannot be read: {reason(error)}") from None
    if not isinstance(facts, dict):
        raise GputelError(str(path), "is not an object", "correct it by hand, or move it away")
    if facts.get("schema") != SCHEMA:
        raise GputelError(
            str(path), f"schema {facts.get('schema')} is not {SCHEMA}", "open it with a newer gputel"
        )
    return facts


WRONG_TYPES = "has values of a wrong type, which are left out"


def readable_facts(segment: Path, *, warn: bool = True) -> dict[str, Any]:
    """The content of run.json for readers: damage costs what it hit, and one warning names it."""
    path = segment / DESCRIPTION
    try:
        facts = describe(segment)
    except GputelError as error:
        if warn:
            warnings.warn(DamagedFile(path, error.fault), stacklevel=2)
        return {}
    wrong = fact_types.wrong_keys(facts)
    if wrong and warn:
        warnings.warn(DamagedFile(path, ", ".join(wrong), WRONG_TYPES), stacklevel=2)
    return _masked({key: value for key, value in facts.items() if key not in wrong})


def _masked(facts: dict[str, Any]) -> dict[str, Any]:
    """Masks secrets again: another program may have written the folder."""
    masked = {**facts, "argv": mask_argv(facts["argv"])} if facts.get("argv") else facts
    for key in ("env", "tags"):
        if facts.get(key):
            masked = {**masked, key: {name: mask_value(name, value) for name, value in facts[key].items()}}
    return masked


def wall_ns(facts: Mapping[str, object], name: str) -> int | None:
    """Wall time of `started` or `ended` in nanoseconds since 1970; None if unknown, or not yet."""
    moment = facts.get(name)
    wall = moment.get("wall_ns") if isinstance(moment, dict) else None
    return wall if isinstance(wall, int) else None


def now_ns(segment: Path) -> int:
    """This moment on the wall clock of a recording, which stays as it was when the machine's clock is set."""
    facts = readable_facts(segment, warn=False)
    recorded = booted_ns(facts) if boot_of(facts) == boot_name() is not None else None
    return (wall_at_boot() if recorded is None else recorded) + boot_ns()


def booted_ns(facts: Mapping[str, object]) -> int | None:
    """What the wall clock of a recording was when the boot clock of its machine was 0; None if unknown."""
    started = facts.get("started")
    wall, boot = (
        (started.get("wall_ns"), started.get("boot_ns")) if isinstance(started, dict) else (None, None)
    )
    return wall - boot if isinstance(wall, int) and isinstance(boot, int) else None


def between_s(
    earlier: Mapping[str, object], start: str, later: Mapping[str, object], end: str
) -> float | None:
    """Seconds from moment `start` of one description to moment `end` of another; None if unknown.

    By the boot clock if one boot of one machine saw both, else by the wall clock, which may have been set in
    between: then a negative time is unknown.
    """
    first, last = earlier.get(start), later.get(end)
    if not (isinstance(first, dict) and isinstance(last, dict)):
        return None
    same_boot = earlier is later or boot_of(earlier) == boot_of(later) is not None
    for name in ("boot_ns", "wall_ns") if same_boot else ("wall_ns",):
        begin, finish = first.get(name), last.get(name)
        if isinstance(begin, int) and isinstance(finish, int):
            return (finish - begin) / SECOND if finish >= begin else None
    return None


def boot_of(facts: Mapping[str, object]) -> object:
    """The kernel's name for the time since the machine was started; None if unknown."""
    host = facts.get("host")
    return host.get("boot") if isinstance(host, dict) else None


def is_run(path: Path) -> bool:
    """Whether the folder holds a run, or the nodes of one."""
    return _is_segment(path) or any(path.glob(f"nodes/*/{DESCRIPTION}"))


def _is_segment(path: Path) -> bool:
    """Whether a recorder has written here: its description may be damaged or have gone since."""
    is_there = os.path.lexists
    ours = [is_there(f"{path}/{name}") for name in ("output.idx", "gpu")]
    if is_there(f"{path}/{DESCRIPTION}"):
        return any(ours) or not _is_of_another_tool(path / DESCRIPTION)
    return all(ours)


def _is_of_another_tool(description: Path) -> bool:
    """Whether another tool, such as Sacred, wrote this run.json: an object without the `schema` that ours has."""
    try:
        facts = parse_json(read_own(description))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and bool(facts) and "schema" not in facts


def open_folder(path: Path) -> RunFolder:
    """The run in a folder, with all its segments; a warning names those that lead out of it, which are left out."""
    homes = [(path, None), *((home, home.name) for home in _numbered(path / "nodes"))]
    segments = [segment for home, node in homes for segment in _segments(home, node)]
    root = path.resolve()
    own = tuple(segment for segment in segments if is_inside(segment.path, root))
    for segment in segments:
        if segment not in own:
            warnings.warn(DamagedFile(segment.path, FOREIGN), stacklevel=2)
    if not own:
        raise GputelError(str(path), *NO_RUN)
    return RunFolder(path, own)


def _segments(home: Path, node: str | None) -> Iterator[Segment]:
    if _is_segment(home):
        yield Segment(home, node, 1)
    for path in _numbered(home / "segments"):
        if _is_segment(path):
            yield Segment(path, node, int(path.name))


def _numbered(folder: Path) -> list[Path]:
    numbered = [path for path in folder.glob("*") if NUMBER.fullmatch(path.name)]
    return sorted(numbered, key=lambda path: int(path.name))


def _text(facts: Mapping[str, object]) -> str:
    return json.dumps(facts, indent=2, allow_nan=False) + "\n"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, one process at a time. Filesystems without locks run the block unlocked."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | UNFOLLOWED, 0o644)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
