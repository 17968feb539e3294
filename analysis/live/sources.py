"""Where the bytes of a log that is followed come from: what a file, a pipe and a command have in common.

A command that prints a log (`kubectl logs -f pod0`) -> its bytes, started again when it ends, no line twice.

It is split into arguments as a shell would, and given to none. It is waited for after each end, longer from time to
time as long as nothing new comes of it; what it says on its standard error is its `trouble`.

What a command prints when it is started again -> only what it had not printed before.

`kubectl logs -f` begins again with the whole log, or with what its node still has of it; `ssh b tail -F log` with
the last ten lines. So lines are held back as long as they are those that once stood somewhere, one after the other;
what follows the last of the old ones is new. Lines that part from the old are another container's, and all new.

Lines are known by checksum and length: the last ones each, the first ones each, of those between every thousandth
with all before it. What cannot be known: a second run that prints, to the letter, what the first one did.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gputel.analysis.live.files import HEAD, FilePosition, fingerprint
from gputel.analysis.logs import files
from gputel.telemetry.errors import GputelError


class LiveSource(Protocol):
    """`read` gives what is new, b"" where nothing is, and never waits.

    A file of which an earlier follower has left its place is read again from its beginning.
    """

    trouble: str | None
    is_over: bool
    """Whether nothing will come any more."""

    @property
    def descriptors(self) -> list[int]:
        """What can be waited for; changes of files are told otherwise."""

    @property
    def written(self) -> float | None:
        """When the log was last written to, in seconds since 1970."""

    @property
    def repeats(self) -> int:
        """Bytes ahead that an earlier follower has shown."""

    @property
    def repeated(self) -> bool:
        """Whether the last read gave such bytes."""

    @property
    def position(self) -> int:
        """Bytes that were read, of a file that turns of the present one."""

    @property
    def place(self) -> FilePosition | None:
        """How to find the position again; None where that cannot be."""

    def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class PipeSource:
    """Standard input, or a FIFO; it is over when nobody has it open for writing any more."""

    def __init__(self, descriptor: int) -> None:
        self.trouble: str | None = None
        self.is_over = False
        self.written: float | None = None
        self.repeats, self.repeated = 0, False
        self.position, self.place = 0, None
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    @property
    def descriptors(self) -> list[int]:
        return [] if self.is_over else [self._descriptor]

    def read(self, most: int) -> bytes:
        if self.is_over:
            return b""
        try:
            data = os.read(self._descriptor, most)
        except BlockingIOError:
            return b""
        if data:
            self.written = time.time()
        self.position += len(data)
        self.is_over = not data
        return data

    def close(self) -> None:
        os.set_blocking(self._descriptor, True)


class Packed:
    """A compressed log: nobody adds to one, so it is over when it is read."""

    def __init__(self, path: Path, place: FilePosition | None = None) -> None:
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self.written = path.stat().st_mtime
        self._file = path.open("rb", buffering=0)
        self._head = os.pread(self._file.fileno(), HEAD, 0)
        self.position = 0  # bytes as they are once unpacked
        is_known = place is not None and place.fingerprint == fingerprint(self._head)
        self.repeats, self.repeated = place.position if place and is_known else 0, False
        self._pieces = files.unpacked(self._file)
        self._rest = b""

    @property
    def place(self) -> FilePosition:
        facts = os.fstat(self._file.fileno())
        return FilePosition(
            facts.st_dev, facts.st_ino, self.position, len(self._head), fingerprint(self._head)
        )

    def read(self, most: int) -> bytes:
        data = b"".join([self._rest, *self._unpacked(most - len(self._rest))])
        data, self._rest = data[:most], data[most:]
        self.is_over = not data
        self.position += len(data)
        self.repeated = bool(data) and self.repeats > 0
        self.repeats = max(self.repeats - len(data), 0)
        return data

    def _unpacked(self, most: int) -> Iterator[bytes]:
        """It comes in small pieces: about as many as were asked for."""
        size = 0
        try:
            while size < most and (piece := next(self._pieces, b"")):
                size += len(piece)
                yield piece
        except (EOFError, OSError) as error:
            self.trouble = f"could be read only in part: {error}"

    def close(self) -> None:
        self._file.close()


def is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((files.GZIP, files.ZSTD))
    except OSError:
        return False


FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


def split(text: str) -> tuple[str, list[str]]:
    """`rank0=kubectl logs -f pod0` -> the rank, and the command as arguments."""
    label, equals, command = text.partition("=")
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise GputelError(f"--from {text}", str(error).lower(), "close the quote", exit_code=2) from None
    if not equals or not label.strip() or not arguments:
        raise GputelError(
            f"--from {text}", "is no LABEL=COMMAND", "write --from rank0='kubectl logs -f pod0'", exit_code=2
        )
    return label.strip(), arguments


class FollowedCommand:
    """`read` gives what is new and never waits; `descriptor` can be read when there is more."""

    def __init__(
        self,
        arguments: Sequence[str],
        replays: Replays | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.arguments = list(arguments)
        self.replays = replays or Replays()
        self.trouble: str | None = None
        self.starts = 0
        self._now = now
        self.written: float | None = None
        self.is_over = False  # it is started again
        self.repeats, self.repeated = 0, False  # old lines are left out
        self.position, self.place = 0, None
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s = FIRST_PAUSE_S
        self._start_at = now()
        self._complaint = b""

    @property
    def descriptors(self) -> list[int]:
        return [self._process.stdout.fileno()] if self._process and self._process.stdout else []

    def read(self, most: int) -> bytes:
        if self._process is None and not self._start():
            return b""
        assert self._process
        assert self._process.stdout
        self._listen()
        try:
            data = os.read(self._process.stdout.fileno(), most)
        except BlockingIOError:
            return b""
        if not data:
            self._end()
            return b""
        fresh = self.replays.feed(data)
        if fresh:
            self._pause_s, self.trouble = FIRST_PAUSE_S, None
            self.written = time.time()
            self.position += len(fresh)
        return fresh

    def close(self) -> None:
        """Stops the command, which has a process group of its own."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._let_go()

    def _start(self) -> bool:
        if self._now() < self._start_at:
            return False
        self.replays.begin()
        try:
            self._process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._postpone(f"cannot be started: {error.strerror}")
            return False
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
        self.starts += 1
        return True

    def _listen(self) -> None:
        """Takes what is said on standard error, of which the end is kept; unread, it would hold the command up."""
        assert self._process
        assert self._process.stderr
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._process.stderr.fileno(), 65536):
                self._complaint = (self._complaint + data)[-4096:]

    def _end(self) -> None:
        self._listen()
        code = self._let_go()
        complaint = self._complaint.decode(errors="replace").strip().rpartition("\n")[2]
        self._complaint = b""
        self._postpone(": ".join(filter(None, [f"ended with {code}", complaint[:200]])))

    def _let_go(self) -> int:
        process, self._process = self._process, None
        assert process
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        return process.wait()

    def _postpone(self, trouble: str) -> None:
        self.trouble = f"{trouble}; started again in {self._pause_s:.0f} s"
        self._start_at = self._now() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


Ints = npt.NDArray[np.int64]

LAST, FIRST = 1 << 18, 1 << 12  # lines that are known one by one
EVERY = 1 << 10
_LINE = re.compile(rb"[^\r\n]*(?:\r*\n|\r+(?=[^\r\n]))")  # a redraw is a line, too


class Replays:
    """`begin` where the command starts; `feed` what it prints, which gives what is new."""

    def __init__(self) -> None:
        self._marks: Ints = np.zeros(0, dtype=np.int64)  # of the last lines
        self._fresh: list[int] = []  # of those that are to be put behind them
        self._first: list[int] = []
        self._chain: list[int] = []  # a checksum of all lines up to every thousandth
        self._sum = self._lines = 0
        self._line = b""  # what was handed on of a line that has no end yet
        self._places: Ints | None = (
            None  # where among the last lines this start may have begun; below 0: before
        )
        self._held: list[bytes] = []
        self._sure = 0  # how many of those held back are old whatever comes
        self._part = b""  # of the line after them
        self._compared = self._compared_sum = 0

    def begin(self) -> None:
        """Whatever was held back of the start before was old, or cannot be told from it."""
        self._marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        self._fresh, self._held, self._part = [], [], b""
        self._sure = self._compared = self._compared_sum = 0
        before = self._lines - len(self._marks)
        places = np.arange(len(self._marks), dtype=np.int64)
        self._places = np.concatenate([[-before], places]) if before else places

    def as_json(self) -> dict[str, Any]:
        """Returns what is known of the lines that were handed on, for `from_json`; a line without an end is not."""
        marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        return {
            "last": base64.b64encode(marks.astype("<i8").tobytes()).decode(),
            "first": self._first,
            "chain": self._chain,
            "sum": self._sum,
            "lines": self._lines,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Replays:
        """Raises ValueError, TypeError or KeyError for anything that `as_json` did not write."""
        known = cls()
        known._marks = np.frombuffer(base64.b64decode(found["last"], validate=True), "<i8").astype(np.int64)
        known._first, known._chain = ([int(mark) for mark in found[name]] for name in ("first", "chain"))
        known._sum, known._lines = int(found["sum"]), int(found["lines"])
        expected = (min(known._lines, LAST), min(known._lines, FIRST), known._lines // EVERY)
        if (len(known._marks), len(known._first), len(known._chain)) != expected:
            raise ValueError(f"marks of {known._lines} lines are not complete")
        return known

    def feed(self, data: bytes) -> bytes:
        data = self._part + data
        lines = _LINE.findall(data)
        self._part = data[sum(map(len, lines)) :]
        for at, line in enumerate(lines):
            if self._is_told_apart:
                return self._hand_on(lines[at:])
            self._compare(line)
        return self._hand_on([]) if self._is_told_apart else b""

    @property
    def _is_told_apart(self) -> bool:
        return self._places is None or not len(self._places)

    def _compare(self, line: bytes) -> None:
        """Which places does another line of this start speak against, and which have come to the last one?"""
        assert self._places is not None
        mark = _mark(line)
        at = self._places + self._compared
        known = np.where(at >= 0, self._marks[np.clip(at, 0, None)], mark)
        self._held.append(line)
        self._compared += 1
        if at[0] < 0 and not self._is_the_whole_log(line, mark):
            known[0] = ~mark
        self._places = self._places[known == mark]
        come = self._places + self._compared == len(self._marks)
        if come.any():
            self._sure = len(self._held)
            self._places = self._places[~come]

    def _is_the_whole_log(self, line: bytes, mark: int) -> bool:
        """Whether this start can have begun with the first line that there ever was."""
        count = self._compared
        self._compared_sum = zlib.crc32(line, self._compared_sum)
        if count <= len(self._first):
            return self._first[count - 1] == mark
        if count % EVERY:
            return True
        if self._chain[count // EVERY - 1] != self._compared_sum:
            return False
        self._held, self._sure = [], 0  # old whatever comes, and not to be kept by the million
        return True

    def _hand_on(self, lines: list[bytes]) -> bytes:
        """What is held back and not old, then these lines, then the one that has only begun."""
        if self._places is not None:
            lines = [*self._held[self._sure :], *lines]
            self._places, self._held, self._sure = None, [], 0
        whole = b"".join([*lines, self._part])
        if not lines and self._line.startswith(whole):
            return b""  # no more yet than was handed on before
        begun = self._line if whole.startswith(self._line) else b""
        torn = b"\n" if self._line and not begun else b""
        if torn:
            self._remember(self._line + torn)
        for line in lines:
            self._remember(line)
        self._line = self._part
        return torn + whole[len(begun) :]

    def _remember(self, line: bytes) -> None:
        mark = _mark(line)
        self._fresh.append(mark)
        if len(self._fresh) == LAST:
            self._marks, self._fresh = np.array(self._fresh, dtype=np.int64), []
        self._lines += 1
        self._sum = zlib.crc32(line, self._sum)
        if len(self._first) < FIRST:
            self._first.append(mark)
        if self._lines % EVERY == 0:
            self._chain.append(self._sum)


def _mark(line: bytes) -> int:
    return zlib.crc32(line) | (len(line) & 0x7FFFFFFF) << 32
