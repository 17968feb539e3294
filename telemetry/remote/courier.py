"""Sends a run folder to object storage, and keeps no state: what is there says where to go on.

Files that never change are put once. What has grown goes out in bundles, which are numbered and never replaced.
Where a number is taken, by a courier that was killed or by another one, sending goes on from the end of its bundle.
So a courier may be killed at any moment, and started again elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gputel.telemetry import identity, recorder_lock, run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import Clock, Stamp, SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import bundles, file_kinds, manifest, masked_output
from gputel.telemetry.remote.bundles import GrownPiece
from gputel.telemetry.remote.storage import Storage, StoredObject

MASKS_OUTPUT = "sync_masks_output"
"""The fact of run.json by which all that send a segment mask its output."""
PIECE_BYTES = 8 << 20
"""The most of one file in one bundle."""


class SendingRate:
    """Holds puts back so that they keep to a rate on average; after a silence the first one goes at once."""

    def __init__(
        self,
        bytes_per_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_s, self._now, self._sleep = bytes_per_s, now, sleep
        self._free_at = now()

    def wait(self, size: int) -> None:
        """Returns when an object of this size may be put."""
        if self._bytes_per_s is None:
            return
        if (wait_s := self._free_at - self._now()) > 0:
            self._sleep(wait_s)
        self._free_at = max(self._free_at, self._now()) + size / self._bytes_per_s


@dataclass
class Sent:
    """Counts of the objects that were sent."""

    objects: int = 0
    bytes: int = 0
    unsealed: list[str] = field(default_factory=list)
    """Who records the segments that have not ended."""
    homes: dict[Path, str] = field(default_factory=dict, compare=False)
    """Where each segment lies in storage."""

    def add(self, size: int) -> None:
        self.objects += 1
        self.bytes += size


def send(run: Path, storage: Storage) -> Sent:
    """Sends all segments of a run as they are now, and seals those that have ended."""
    sent = Sent()
    listed = storage.objects()
    for segment in run_folder.open_folder(run).segments:
        recorder = recorder_lock.recorder_of(segment.path)
        courier = Courier(segment.path, storage, file_kinds.home(segment, run), listed, sent)
        courier.send(over=recorder is None)
        sent.homes[segment.path] = courier.home
        sent.unsealed += [recorder] if recorder else []
    return sent


class Courier:
    """Sends one segment; `listed` is what lies in storage when it begins."""

    def __init__(
        self,
        segment: Path,
        storage: Storage,
        home: str,
        listed: Iterable[StoredObject],
        sent: Sent,
        clock: Clock | None = None,
        rate: SendingRate | None = None,
    ) -> None:
        self._segment, self._storage, self._rate = segment, storage, rate or SendingRate()
        self._masks = run_folder.readable_facts(segment, warn=False).get(MASKS_OUTPUT) is True
        self._sent, self._clock = sent, clock or SystemClock()
        objects = {each.name for each in listed}
        self.home = home = self._claim(home, objects)
        own = (name.removeprefix(home) for name in objects if name.startswith(home))
        self._there = {file for file in own if file_kinds.kind_of(file)}
        bundles_there = (file for file in self._there if file_kinds.kind_of(file) == "bundle")
        self._number = max((int(file[-8:]) for file in bundles_there), default=0)
        self._ends = self._read_ends() if self._number else {}
        self._acked: Stamp | None = None  # when storage had answered for the last bundle
        self._contents: dict[str, bytes] = {}  # of what is replaced when it changes

    def send(self, *, over: bool) -> None:
        """Sends what is new, first what the end of a run needs; if the segment is `over`, its seal comes last.

        Callers ask whether it is over before they send, as a recorder writes meanwhile.
        """
        self._put_growth(over=over)
        self._put_replaced()
        self._put_final()
        if over:
            self._put(file_kinds.SEAL, manifest.make(self._segment, self._number, masks=self._masks))

    def _claim(self, home: str, objects: set[str]) -> str:
        """Where this segment goes: behind those of the machines that it replaces.

        Two runs in one place would be mixed without a word, so that is refused.
        """
        content = (self._segment / run_folder.DESCRIPTION).read_bytes()
        here = _facts(content)
        for place in file_kinds.successors(home):
            name = f"{place}{run_folder.DESCRIPTION}"
            if name not in objects and self._storage.put_new(name, content):
                self._sent.add(len(content))
                return place
            there = _facts(self._storage.get(name))
            if there.get("started") == here.get("started"):
                return place
            if not _is_replaced(there, here):
                break
        raise GputelError(self._storage.address, "already holds another run", "send this one elsewhere")

    def _put_growth(self, *, over: bool) -> None:
        while pieces := list(self._pieces(over=over)):
            ends = self._ends | {piece.file: piece.offset + len(piece.content) for piece in pieces}
            content = bundles.encode(pieces, ends, self._clock.stamp(), self._acked)
            self._rate.wait(len(content))
            self._number, self._acked = self._number + 1, None
            if self._storage.put_new(f"{self.home}{file_kinds.bundle(self._number)}", content):
                self._ends, self._acked = ends, self._clock.stamp()
                self._sent.add(len(content))
            else:
                self._ends = self._read_ends()

    def _pieces(self, *, over: bool) -> Iterator[GrownPiece]:
        """What has grown; of output that is masked only whole lines, until the recording is `over`.

        The index of the output comes before it.
        """
        files = file_kinds.files(self._segment, "growing")
        self._ends = {file: end for file, end in self._ends.items() if file in files}
        for file in files:
            offset = self._ends.get(file, 0)
            path = self._segment / file
            with suppress(FileNotFoundError), path.open("rb") as handle:  # it may be compacted at this moment
                handle.seek(offset)
                content = handle.read(PIECE_BYTES)
                if self._masks and file == file_kinds.OUTPUT:
                    ready = content if over else masked_output.whole_lines(content)
                    content = masked_output.masked(ready if ready or len(content) < PIECE_BYTES else content)
                if content:
                    yield GrownPiece(file, offset, content)

    def _read_ends(self) -> dict[str, int]:
        """Where the newest bundle ends; by its first bytes, since its pieces can be large."""
        name = f"{self.home}{file_kinds.bundle(self._number)}"
        return bundles.ends(self._storage.beginning(name, bundles.LENGTH.size + bundles.HEAD_BYTES))

    def _put_replaced(self) -> None:
        for file in file_kinds.files(self._segment, "replaced"):
            self._put(file, (self._segment / file).read_bytes())

    def _put_final(self) -> None:
        for file in file_kinds.files(self._segment, "final"):
            if file in self._there:
                continue
            with suppress(FileNotFoundError):  # merged into another just now
                content = (self._segment / file).read_bytes()
                self._rate.wait(len(content))
                if self._storage.put_new(f"{self.home}{file}", content):
                    self._sent.add(len(content))
                self._there.add(file)

    def _put(self, file: str, content: bytes) -> None:
        """Puts what is replaced when it changes."""
        if self._read(file) != content:
            self._rate.wait(len(content))
            self._storage.put(f"{self.home}{file}", content)
            self._contents[file] = content
            self._there.add(file)
            self._sent.add(len(content))

    def _read(self, file: str) -> bytes | None:
        """The content of an object; it is asked for once, and known from then on."""
        if file in self._there and file not in self._contents:
            self._contents[file] = self._storage.get(f"{self.home}{file}")
        return self._contents.get(file)


def _facts(description: bytes) -> dict[str, Any]:
    try:
        facts = parse_json(description)
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {}


def _is_replaced(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether `here` goes on as the same node of the same training, on another machine or after it was lost."""
    node, commands = here.get("node_rank"), [each.get("argv") for each in (there, here)]
    before, now = (
        identity.without_addresses([f"{word}" for word in argv]) if isinstance(argv, list) else None
        for argv in commands
    )
    return node is not None and node == there.get("node_rank") and before == now
