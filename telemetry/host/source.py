"""One source: some files of the kernel, and the integers that are in them.

Bytes that are those of the last read are not parsed again: most of what the kernel counts stands still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gputel.telemetry.host.columns import HostColumn
from gputel.telemetry.host.kernel_file import KernelFile

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
