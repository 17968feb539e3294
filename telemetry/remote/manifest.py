"""`sealed.json`, the last object of a segment: its files with sizes and digests, to tell whether all are there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry import run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.remote import file_kinds, masked_output
from gputel.telemetry.remote.storage import Storage, StoredObject

SCHEMA = 1
CHUNK_BYTES = 1 << 20


class Version(NamedTuple):
    """Size and digest of a file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Seal:
    """The files of a sealed segment."""

    files: Mapping[str, Version]
    bundles: int
    """Bundles 1 to this one hold the files that grew."""


def version(path: Path, chunks: Callable[[Path], Iterable[bytes]] | None = None) -> Version | None:
    """None where there is no such file. `chunks` reads its content, if it is not sent as it stands there."""
    whole, size = hashlib.sha256(), 0
    try:
        for chunk in (chunks or _chunks)(path):
            whole.update(chunk)
            size += len(chunk)
    except OSError:
        return None
    return Version(size, whole.hexdigest())


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def make(segment: Path, last_bundle: int, *, masks: bool = False) -> bytes:
    """The seal of a segment as it is sent, with its output masked or as it was printed."""
    files = file_kinds.files(segment, "final", "growing", "replaced")
    readers = {file_kinds.OUTPUT: masked_output.chunks} if masks else {}
    versions = {
        file: found._asdict() for file in files if (found := version(segment / file, readers.get(file)))
    }
    exit_code = run_folder.readable_facts(segment, warn=False).get("exit_code")
    seal = {"schema": SCHEMA, "exit_code": exit_code, "bundles": last_bundle, "files": versions}
    return f"{json.dumps(seal, indent=1)}\n".encode()


def read(content: bytes) -> Seal:
    """The seal in an object; what is damaged counts as absent."""
    try:
        seal = parse_json(content)
    except ValueError:
        seal = None
    if not isinstance(seal, dict):
        return Seal({}, 0)
    listed, last = seal.get("files"), seal.get("bundles")
    files = {
        file: Version(found["size"], found["sha256"])
        for file, found in (listed.items() if isinstance(listed, dict) else ())
        if file_kinds.kind_of(file) and isinstance(found, dict) and {"size", "sha256"} <= found.keys()
    }
    return Seal(files, last if isinstance(last, int) and last >= 0 else 0)


def objects(storage: Storage) -> list[StoredObject]:
    """The objects of a sealed run, by its seals: for a server that lists nothing."""
    return [each for home in _sealed_homes(storage) for each in home]


def _sealed_homes(storage: Storage) -> Iterator[list[StoredObject]]:
    """The segments of the run, then those of its nodes, until there is none of the next number."""
    yield from _segments(storage, "")
    node = 0
    while segments := list(_segments(storage, f"nodes/{node}/")):
        yield from segments
        node += 1


def _segments(storage: Storage, home: str) -> Iterator[list[StoredObject]]:
    number = 1
    segment = home
    while (content := storage.find(f"{segment}{file_kinds.SEAL}")) is not None:
        yield _objects_of(segment, content)
        number += 1
        segment = f"{home}segments/{number}/"


def _objects_of(segment: str, content: bytes) -> list[StoredObject]:
    seal = read(content)
    never = datetime.fromtimestamp(0, timezone.utc)
    whole = [
        StoredObject(f"{segment}{file}", version.size, never, version.sha256)
        for file, version in seal.files.items()
        if file_kinds.kind_of(file) != "growing"
    ]
    grown = [
        StoredObject(f"{segment}{file_kinds.bundle(number + 1)}", 0, never, "")
        for number in range(seal.bundles)
    ]
    return [*whole, *grown, StoredObject(f"{segment}{file_kinds.SEAL}", len(content), never, "")]
