"""An address of object storage -> a folder on this machine that holds the same runs, or the same file.

The copy lies in the user's cache and may be deleted at any time. What never changes is fetched once: a second look
costs one list and what is new. Bundles are poured into the files that they are pieces of.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gputel.telemetry import run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.errors import DamagedFile, GputelError
from gputel.telemetry.file_names import file_name
from gputel.telemetry.own_files import UNFOLLOWED
from gputel.telemetry.remote import bundle_times, bundles, file_kinds, manifest
from gputel.telemetry.remote.file_kinds import Place
from gputel.telemetry.remote.storage import Storage, StoredObject
from gputel.telemetry.secrets import mask
from gputel.telemetry.user_folders import user_folder
from gputel.telemetry.whole_files import write_whole

AT_ONCE = 8  # objects that are fetched side by side: most of the time is the way there and back
MOST_AHEAD = 2 * AT_ONCE
MOST_BYTES = 10 << 30
"""Size of all copies together; the least recently used go first."""
STATE, LOCK, ADDRESS = ".fetched.json", ".lock", ".address"
INCOMPLETE = "is incomplete or changed"


@dataclass(frozen=True)
class LocalCopy:
    """What an address held when it was asked: a folder with its runs, or one file."""

    path: Path
    unsealed: Mapping[str, datetime] = field(default_factory=dict)
    """Segments that may still be sent, and when their newest object came by the storage's clock."""


def local_copy(address: str) -> LocalCopy:
    """Fetches what is new at an address. Raises GputelError where nothing is."""
    storage = Storage(address)
    place = _place_of(address)
    place.mkdir(parents=True, exist_ok=True)
    with run_folder.locked(place / LOCK):
        write_whole(place / ADDRESS, mask(address.rstrip("/")).encode())
        copied = _Copy(place / file_name(address.rstrip("/").rpartition("/")[2]), storage).fetch()
    os.utime(place)
    _keep_within(MOST_BYTES, place)
    return copied


def _place_of(address: str) -> Path:
    """A folder for each address, in whose name one sees it again."""
    whole = address.rstrip("/")
    key = blake2b(whole.encode(), digest_size=8).hexdigest()
    return _copies() / f"{file_name(whole.rpartition('/')[0])}-{key}"


def _copies() -> Path:
    return user_folder("CACHE") / "runs"


def is_copy(path: Path) -> bool:
    """Whether a path lies in a copy. Nothing may be written into its files: bundles are poured there by offset."""
    return _real(path).is_relative_to(_real(_copies()))


def _real(path: Path) -> Path:
    """The path without links; those in a circle, of which `resolve` makes an error, stay."""
    return Path(os.path.realpath(path))


def shown(path: Path) -> str:
    """What a path is called where people read it: the address that it is a copy of, else the path itself."""
    if not is_copy(path):
        return str(path)
    place, *below = _real(path).relative_to(_real(_copies())).parts or (".",)
    try:
        address = (_copies() / place / ADDRESS).read_text()
    except OSError:
        return str(path)
    return "/".join([address, *below[1:]])


class _Copy:
    """One look at an address; the state beside the copy says which objects it was made of."""

    def __init__(self, path: Path, storage: Storage) -> None:
        self._path, self._storage = path, storage
        self._state = path.with_name(STATE)

    def fetch(self) -> LocalCopy:
        known = _read_state(self._state)
        if self._storage.lists_nothing:
            listed = manifest.objects(self._storage)
        else:
            listed = self._storage.objects(_rows_of_bundles(known))
        placed = {each: place for each in listed if (place := file_kinds.place(each.name))}
        if not any(place.file == run_folder.DESCRIPTION for place in placed.values()):
            return self._one_file()
        new = {each: place for each, place in placed.items() if known.get(each.name) != _version(each)}
        self._take(new)
        if new:
            self._check(placed)
            write_whole(self._state, json.dumps({each.name: _version(each) for each in placed}).encode())
        return LocalCopy(self._path, _unsealed(placed))

    def _one_file(self) -> LocalCopy:
        """The object that the address itself names, such as a log."""
        write_whole(self._path, self._storage.itself())
        return LocalCopy(self._path)

    def _take(self, new: Mapping[StoredObject, Place]) -> None:
        """Bundles come last and in order, so that what a growing file has lost since does not come back."""
        objects = sorted(new, key=lambda each: (new[each].kind == "bundle", each.name))
        for each, content in self._contents(objects):
            if new[each].kind == "bundle":
                self._pour(new[each], content)
                noted = f"{new[each].home}{bundle_times.NAME}"
                bundle_times.append(self._file(new[each].run, noted), each, content)
            else:
                write_whole(self._file(new[each].run, new[each].path), content)

    def _contents(self, objects: Iterable[StoredObject]) -> Iterator[tuple[StoredObject, bytes]]:
        """Each object in order; a few are fetched ahead, and memory holds little that the disk has not taken."""
        ahead: deque[tuple[StoredObject, Future[bytes]]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for each in objects:
                ahead.append((each, pool.submit(self._storage.get, each.name)))
                if len(ahead) > MOST_AHEAD:
                    first, content = ahead.popleft()
                    yield first, content.result()
            while ahead:
                first, content = ahead.popleft()
                yield first, content.result()

    def _file(self, run: str, path: str) -> Path:
        file = self._path / run / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _pour(self, place: Place, bundle: bytes) -> None:
        """Writes each piece at its offset."""
        try:
            pieces = list(bundles.decode(bundle))
        except GputelError as error:
            warnings.warn(
                DamagedFile(Path(f"{self._storage.address}/{place.path}"), error.fault), stacklevel=2
            )
            return
        for piece in pieces:
            if file_kinds.kind_of(piece.file) != "growing":
                continue
            file = self._file(place.run, f"{place.home}{piece.file}")
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | UNFOLLOWED, 0o644)
            with os.fdopen(handle, "wb") as opened:
                opened.seek(piece.offset)
                opened.write(piece.content)

    def _check(self, placed: Mapping[StoredObject, Place]) -> None:
        """Compares sealed segments with their lists; what a list does not have was replaced by something else."""
        for seal in (place for place in placed.values() if place.kind == "seal"):
            segment = self._path / seal.run / seal.home
            sealed = manifest.read((segment / file_kinds.SEAL).read_bytes())
            for file in file_kinds.files(segment, "growing"):
                if file not in sealed.files:
                    (segment / file).unlink()
            for file, version in sealed.files.items():
                if manifest.version(segment / file) != version:
                    warnings.warn(
                        DamagedFile(segment / file, f"differs from {file_kinds.SEAL}", INCOMPLETE),
                        stacklevel=2,
                    )


def _version(each: StoredObject) -> str:
    return f"{each.tag} {each.size} {each.modified.isoformat()}"


def _rows_of_bundles(known: Mapping[str, Any]) -> list[list[StoredObject]]:
    """The bundles of each segment that were fetched before, up to the first number that is missing."""
    rows: dict[str, list[StoredObject]] = {}
    for name in sorted(known):
        above, _, number = name.rpartition("/")
        place = file_kinds.place(name)
        if place is None or place.kind != "bundle":
            continue
        row = rows.setdefault(above, [])
        if int(number) == len(row) + 1 and (each := _of_version(name, known[name])):
            row.append(each)
    return [row for row in rows.values() if row]


def _of_version(name: str, version: object) -> StoredObject | None:
    """What `_version` was made of; None of anything else."""
    try:
        tag, size, modified = str(version).rsplit(" ", 2)
        return StoredObject(name, int(size), datetime.fromisoformat(modified), tag)
    except ValueError:
        return None


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _unsealed(placed: Mapping[StoredObject, Place]) -> dict[str, datetime]:
    newest: dict[str, datetime] = {}
    sealed = {(place.run, place.home) for place in placed.values() if place.kind == "seal"}
    for each, place in placed.items():
        if (place.run, place.home) not in sealed:
            segment = f"{place.run}/{place.home}".strip("/")
            newest[segment] = max(each.modified, newest.get(segment, each.modified))
    return newest


def _keep_within(most: int, newest: Path) -> None:
    """Removes the copies that were not asked for the longest, until the others fit."""
    copies = [(path.stat().st_mtime, path) for path in newest.parent.iterdir() if path.is_dir()]
    room = most
    for _, path in sorted(copies, reverse=True):
        room -= sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if room < 0 and path != newest:
            shutil.rmtree(path, ignore_errors=True)
