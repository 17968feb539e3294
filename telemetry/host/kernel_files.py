"""Small files of the kernel, kept open and read from their start each time, and the integers that are in them.

`pread` of an open descriptor costs a quarter of open, read and close. A file that is missing or refused is null,
and is tried again a minute later, since a disk or a limit may appear. Bytes that are those of the last read are not
parsed again: most of what the kernel counts stands still.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputel.telemetry.host.columns import HostColumn

TRY_AGAIN_S = 60.0
SMALL = 64 * 1024
LARGEST = 8 * 1024 * 1024


class KernelFile:
    """`read` returns the bytes, or None while the file cannot be read; `fault` then says why."""

    __slots__ = ("_descriptor", "_path", "_retry_at", "_size", "fault")

    def __init__(self, path: Path, size: int = SMALL) -> None:
        self._path, self._size = path, size
        self._descriptor = -1
        self._retry_at = 0.0
        self.fault: int | None = None

    def read(self) -> bytes | None:
        if self._descriptor < 0 and not self._open():
            return None
        try:
            data = os.pread(self._descriptor, self._size, 0)
            while len(data) == self._size and self._size < LARGEST:
                self._size *= 2
                data = os.pread(self._descriptor, self._size, 0)
        except OSError as error:
            self._fail(error)
            return None
        return data

    def why(self) -> str | None:
        """Why the last read gave nothing, with the file's path; None if it did."""
        return None if self.fault is None else f"{self._path}: {os.strerror(self.fault).lower()}"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        if self.fault is not None and time.monotonic() < self._retry_at:
            return False
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            self._fail(error)
            return False
        self.fault = None
        return True

    def _fail(self, error: OSError) -> None:
        self.fault = error.errno or errno.EIO
        self._retry_at = time.monotonic() + TRY_AGAIN_S
        self.close()


PRESSURE_TOTAL = re.compile(rb"^(some|full) .*\btotal=(\d+)", re.MULTILINE)
Values = tuple["int | None", ...]
Contents = Sequence["bytes | None"]
UNREADABLE = "cannot be understood"


@dataclass
class HostSource:
    """`read` returns its columns, subject by subject; null where a file is missing or says something else."""

    name: str
    table: str
    tier: str
    columns: tuple[HostColumn, ...]
    files: tuple[KernelFile, ...]
    parse: Callable[[Contents], Values]
    subjects: tuple[str, ...] = ("",)
    fault: str | None = None
    """Why something of it is null."""
    _last: list[bytes | None] = field(default_factory=list)
    _answer: Values = ()

    def read(self) -> Values:
        contents = [file.read() for file in self.files]
        if contents != self._last or not self._answer:
            self._answer, self._last = self._parsed(contents), contents
        return self._answer

    def _parsed(self, contents: Contents) -> Values:
        self.fault = next((why for file in self.files if (why := file.why())), None)
        try:
            return self.parse(contents)
        except (ValueError, IndexError):
            self.fault = self.fault or f"{self.name} {UNREADABLE}"
            return (None,) * (len(self.columns) * len(self.subjects))

    def close(self) -> None:
        for file in self.files:
            file.close()


def by_subject(rows: Mapping[bytes, Sequence[int | None]], subjects: Sequence[str], columns: int) -> Values:
    """The rows of these subjects one after the other; nulls for one that is gone."""
    blank = (None,) * columns
    return tuple(value for subject in subjects for value in rows.get(subject.encode(), blank))


def parser_of_lines(
    lines: Sequence[re.Pattern[bytes]], row: Callable[[bytes], Values], columns: int
) -> Callable[[Contents], Values]:
    """A parser of a file with a line for each subject: `row` reads its first group; nulls for one that is gone."""
    blank: Values = (None,) * columns

    def parse(contents: Contents) -> Values:
        content = contents[0] or b""
        matches = [line.search(content) for line in lines]
        return tuple(value for match in matches for value in (row(match[1]) if match else blank))

    return parse


def numbers_by_name(content: bytes) -> dict[bytes, int]:
    """The lines `name 12` or `name: 12 kB` of a file."""
    pairs = (line.split() for line in content.splitlines())
    return {pair[0].rstrip(b":"): int(pair[1]) for pair in pairs if len(pair) >= 2 and pair[1].isdigit()}


def pressure_totals(content: bytes | None) -> dict[str, int]:
    """Microseconds by `some` and `full`; before Linux 5.13 the one of cores has no `full`."""
    return {kind.decode(): int(total) for kind, total in PRESSURE_TOTAL.findall(content or b"")}
