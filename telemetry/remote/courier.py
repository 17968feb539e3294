"""Sends a run folder to object storage, and keeps no state: what is there says where to go on.

Files that never change are put once. What has grown goes out in bundles, which are numbered and never replaced.
Where a number is taken, by a courier that was killed or by another one, sending goes on from the end of its bundle.
So a courier may be killed at any moment, and started again elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import Clock, SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import bundles, names, seals
from gputel.telemetry.remote.bundles import GrownPiece
from gputel.telemetry.remote.storage import Storage, StoredObject

PIECE_BYTES = 8 << 20
"""The most of one file in one bundle."""


@dataclass
class Sent:
    """What a courier has put."""

    objects: int = 0
    bytes: int = 0
    unsealed: list[str] = field(default_factory=list)
    """Segments that are still being recorded, and by which process."""

    def add(self, size: int) -> None:
        self.objects += 1
        self.bytes += size


def send(run: Path, storage: Storage, clock: Clock | None = None) -> Sent:
    """Sends all segments of a run as they are now, and seals those that have ended."""
    sent = Sent()
    listed = {each.name: each for each in storage.objects()}
    for segment in run_folder.open_folder(run).segments:
        home = names.home(segment, run)
        Courier(segment.path, storage, home, listed, sent, clock or SystemClock()).send()
    return sent


class Courier:
    """Sends one segment."""

    def __init__(
        self,
        segment: Path,
        storage: Storage,
        home: str,
        listed: Mapping[str, StoredObject],
        sent: Sent,
        clock: Clock,
    ) -> None:
        self._segment, self._storage, self._home, self._clock = segment, storage, home, clock
        self._there = {
            name.removeprefix(home): each for name, each in listed.items() if name.startswith(home)
        }
        self._sent = sent
        self._number = max(
            (int(name[-8:]) for name in self._there if names.kind_of(name) == "bundle"), default=0
        )
        self._ends: dict[str, int] = self._read_ends() if self._number else {}
        self._seal_there = storage.find(f"{home}{names.SEAL}") if names.SEAL in self._there else None

    def send(self) -> None:
        """Sends all that is here: first what the end of the run needs, the seal last."""
        self._refuse_another_run()
        recorder = recorder_lock.recorder_of(self._segment)  # asked first: it may write while this sends
        self._put_growth()
        self._put_replaced()
        self._put_final()
        if recorder is None:
            self._seal()
        else:
            self._sent.unsealed.append(recorder)

    def _refuse_another_run(self) -> None:
        """Two runs in one place would be mixed without a word."""
        if run_folder.DESCRIPTION not in self._there:
            return
        try:
            there = parse_json(self._storage.get(f"{self._home}{run_folder.DESCRIPTION}"))
        except ValueError:
            there = None
        here = run_folder.describe(self._segment)
        if not isinstance(there, dict) or there.get("started") != here.get("started"):
            raise GputelError(self._storage.address, "already holds another run", "send this one elsewhere")

    def _put_growth(self) -> None:
        while pieces := list(self._pieces()):
            ends = self._ends | {piece.file: piece.offset + len(piece.content) for piece in pieces}
            content = bundles.encode(pieces, ends, self._clock.stamp())
            name = f"{self._home}{names.bundle(self._number + 1)}"
            self._number += 1
            if self._storage.put_new(name, content):
                self._ends = ends
                self._sent.add(len(content))
            else:
                self._ends = self._read_ends()

    def _pieces(self) -> Iterator[GrownPiece]:
        """What has grown. The index of the output comes before it, so that it never counts more than is sent."""
        files = list(names.files(self._segment, "growing"))
        self._ends = {file: end for file, end in self._ends.items() if file in files}
        for file in files:
            offset = self._ends.get(file, 0)
            try:
                with (self._segment / file).open("rb") as handle:
                    handle.seek(offset)
                    content = handle.read(PIECE_BYTES)
            except FileNotFoundError:  # compacted at this moment
                continue
            if content:
                yield GrownPiece(file, offset, content)

    def _read_ends(self) -> dict[str, int]:
        """Where the newest bundle ends; by its first bytes, since its pieces can be large."""
        name = f"{self._home}{names.bundle(self._number)}"
        return bundles.ends(self._storage.beginning(name, bundles.LENGTH.size + bundles.HEAD_BYTES))

    def _put_replaced(self) -> None:
        for file in names.files(self._segment, "replaced"):
            content = (self._segment / file).read_bytes()
            if hashlib.sha256(content).hexdigest().encode() in (self._seal_there or b""):
                continue  # sealed as it is
            self._storage.put(f"{self._home}{file}", content)
            self._sent.add(len(content))

    def _put_final(self) -> None:
        for file in names.files(self._segment, "final"):
            try:
                size = (self._segment / file).stat().st_size
                if file in self._there and self._there[file].size == size:
                    continue
                content = (self._segment / file).read_bytes()
            except FileNotFoundError:  # merged into another at this moment
                continue
            if self._storage.put_new(f"{self._home}{file}", content):
                self._sent.add(len(content))

    def _seal(self) -> None:
        seal = seals.make(self._segment, self._number)
        if seal != self._seal_there:
            self._storage.put(f"{self._home}{names.SEAL}", seal)
            self._sent.add(len(seal))
