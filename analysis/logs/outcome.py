"""Lines that are not records -> events by their signs, how the run ended, and what ended it.

The cause is the first fatal line after the last record: later messages of other ranks and launchers are
consequences. A launcher's own error (`ChildFailedError`) is the cause only if nothing else was printed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import patterns
from gputel.analysis.logs.line_prefixes import STAMP
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.patterns import MEASURES, EngineResult
from gputel.analysis.logs.prefixes import PREFIX, Stamps
from gputel.analysis.logs.saved_steps import named_numbers
from gputel.analysis.logs.signs import (
    DONE,
    SAVE,
    SIGNS,
    TRACEBACK,
    WORTH,
    Fatal,
    SaveWords,
    alike,
    save_words,
    shortened,
    sign_of,
)

KINDS = ("checkpoint", "eval", "resume", "restart", "epoch", "nan", "oom", "nccl", "traceback", "stop")
Integers = npt.NDArray[np.int64]
Status = Literal["completed", "running", "interrupted", "failed", "unknown"]


@dataclass(frozen=True)
class LogEvent:
    """An event that a line reports; `fatal` if it ends the run.

    `amends`: it is no other event, but says more of the checkpoint before it. `late`: it repeats the number of that
    checkpoint, with records between: a copy by another rank, unless steps begin again between them.
    """

    kind: str
    line: int
    text: str
    time: int | None = None
    rank: str | None = None
    fatal: Fatal | None = None
    amends: bool = False
    late: bool = False


class SaveEnd(NamedTuple):
    """Timestamps of a save's last line and of the line behind it, which it ended before; None if there is none."""

    line: int
    behind: int | None

    def later(self, shift: int) -> SaveEnd:
        return SaveEnd(self.line + shift, None if self.behind is None else self.behind + shift)


_PREFIX = patterns.lazy_regex(
    rb"^(?:\s*(?:\[[\w.:-]*rank\w*\d+\]:?|\[[\w.-]+\]:|\d+:|\(\w[^()]*pid=\d+[^()]*\)|\w+-?\d+:)\s*)*", re.I
)
# What containers, journald and loggers put before every line: `trainer-1  | `, `[pod/a/b] `, `host a[7]: `
_MARGIN = patterns.lazy_regex(
    rb"^(?:(?:\[[\w./:-]+\]|[\w.-]+ +\||[\[(]?%b[\])]?|[\w.-]+(?: [\w./-]+)?\[\d+\]:|\d+:) )+" % STAMP
)
_STAMP = patterns.lazy_regex(STAMP)
_ERROR = patterns.lazy_regex(
    rb"^(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?::|\s*$)"
    rb"|^[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Expired|Iteration|Warning|Timeout|Failure)(?::|\s*$)"
)


class Outcome:
    """Reads the lines that are not records, in order, and collects their events."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []
        self.completed: int | None = None  # the line that says so
        self._open: dict[
            bytes, int
        ] = {}  # line of each traceback without its error yet, by the prefix of its lines
        self._saved: set[int] | None = None  # numbers in lines about saving since the last record
        self._named: set[int] = set()  # numbers of the last checkpoint
        self._best_name = (False, False, False)  # how well a line named the last checkpoint
        self._saving = self._done = False  # whether a checkpoint was announced, and then said to be written

    def worth(self, region: bytes, first: int) -> Iterator[tuple[int, bytes]]:
        """The lines of a region that may be events, and all lines within a traceback, with their numbers."""
        lower, number, start = region.lower(), first, 0
        while start <= len(region):
            if not self._open:
                match = WORTH.search(lower, start)
                if match is None:
                    return
                begin = max(start, region.rfind(b"\n", start, match.start()) + 1)
                number, start = number + region.count(b"\n", start, begin), begin
            end = region.find(b"\n", start)
            line = region[start : end if end >= 0 else len(region)]
            yield number, line
            number, start = number + 1, start + len(line) + 1

    def read(self, line: bytes, number: int) -> Iterator[LogEvent]:
        """The events of one line."""
        if self._open and (event := self._error(line, number)):
            yield event
            return
        if not WORTH.search(line.lower()):
            return
        if TRACEBACK in line:
            head = line[: line.index(TRACEBACK)]
            self._open |= {_prefix(head): number, _like(_margin(head)): number}
            yield LogEvent("traceback", number, "")
            return
        sign = sign_of(alike(line))
        if sign is SAVE:
            yield from self._save(line, number)
        elif sign is DONE:
            self.completed = number
        elif sign:
            if sign.kind in ("resume", "restart"):
                self._named = set()  # its steps come again, and so do its checkpoints
            yield LogEvent(sign.kind or "", number, shortened(line), fatal=sign.fatal)
            if sign.fatal == "interrupted" and SAVE.regex.search(line):
                yield from self._save(line, number)

    def recorded(self) -> None:
        """Notes that a record stands here: a checkpoint saved from now on is another one."""
        self._saved = None
        self._saving = self._saving and not self._done

    def _save(self, line: bytes, number: int) -> Iterator[LogEvent]:
        """The checkpoint that a line reports, or what it says more of the one before."""
        words = save_words(alike(line))
        if words.is_other:
            return
        open_save = self._saved is not None
        again = self._again(line, words)
        late = again and not open_save
        if late and self._saved is None:
            return  # it was announced above the record
        if again and open_save and words.names <= self._best_name:
            return
        self._best_name = max(words.names, self._best_name) if late else words.names
        yield LogEvent("checkpoint", number, shortened(line), amends=again and open_save, late=late)

    def _again(self, line: bytes, words: SaveWords) -> bool:
        """Whether the line is about the same checkpoint as an earlier one: ranks and files may print several.

        Between two records only another number makes another checkpoint.
        """
        if words.announces:
            self._saving, self._done = True, False
        elif self._saving:
            self._done = True
            return True
        is_numbered = words.names[-1]
        numbers = named_numbers(shortened(_PREFIX.sub(b"", line))) if is_numbered else set()
        before, self._saved = self._saved, numbers | (self._saved or set())
        late = bool(numbers) and numbers <= self._named  # a rank may print it behind the next record
        repeats = before is not None and not (numbers and before and numbers.isdisjoint(before))
        self._named = self._named | numbers if late or repeats else numbers
        return late or repeats

    def _error(self, line: bytes, number: int) -> LogEvent | None:
        """The event of a line that ends a traceback: not indented, and beginning with an exception's name."""
        heads = [head for head in (_prefix(line), _margin(line)) if _like(head) in self._open]
        body = next((rest for head in heads if _ERROR.match(rest := line[len(head) :])), b"")
        if not body:
            return None
        begun = {self._open[_like(head)] for head in heads}
        self._open = {head: line for head, line in self._open.items() if line not in begun}
        text = shortened(line)
        fatal: Fatal = "failed"
        kind = ""
        for sign in SIGNS:
            if sign.regex.search(body):
                fatal, kind = sign.fatal or fatal, sign.kind or ""
                break
        return LogEvent(kind if kind in ("oom", "nccl", "stop") else "", number, text, fatal=fatal)


def save_end(lines: Sequence[bytes], stamps: Stamps) -> SaveEnd | None:
    """Returns when the last save that these lines report ended; None if they report none, or have no timestamps."""
    for place in range(len(lines) - 1, -1, -1):
        alike_line = alike(lines[place])
        may_save = SAVE.regex.search(alike_line) is not None  # spares all other signs
        if may_save and sign_of(alike_line) is SAVE and not save_words(alike_line).is_other:
            times = [stamps.read(line[:PREFIX]) for line in lines[place:]]
            behind = next((time for time in times[1:] if time is not None), None)
            return None if times[0] is None else SaveEnd(times[0], behind)
    return None


def _prefix(line: bytes) -> bytes:
    found = _PREFIX.match(line)
    return found.group() if found else b""


def _margin(line: bytes) -> bytes:
    found = _MARGIN.match(line)
    return found.group() if found else b""


def _like(head: bytes) -> bytes:
    """The head of a line with all timestamps alike."""
    return _STAMP.sub(b"", head)


def cause(events: list[LogEvent], after: int) -> LogEvent | None:
    """The event that ended the run: the first fatal one after line `after`, preferably not a launcher's."""
    fatal = [event for event in events if event.fatal and event.line > after]
    # After a task of a step fails, Slurm cancels the others with the message of a user's cancel.
    failed = next((event.line for event in fatal if "xited with exit code" in event.text), None)
    first_hand = [
        event
        for event in fatal
        if event.fatal != "victim"
        and not (
            failed and event.line > failed and "CANCELLED AT" in event.text and "DUE TO" not in event.text
        )
    ]
    return next(iter(first_hand or fatal), None)


def caught(events: list[LogEvent], lines: Integers, steps: Integers) -> LogEvent | None:
    """The interruption that a run printed in its last step: a loop that catches a signal finishes its step.

    `lines` are those of the records that have a step.
    """
    stops = [event for event in events if event.fatal == "interrupted"]
    if not stops or not len(steps):
        return None
    earlier = lines[steps != steps[-1]]
    return cause(stops, int(earlier[-1]) if len(earlier) else 0)


def status(ended_by: LogEvent | None, completed: bool, live: bool) -> Status:
    if ended_by:
        return "interrupted" if ended_by.fatal == "interrupted" else "failed"
    if completed:
        return "completed"
    return "running" if live else "unknown"


def unread(reading: EngineResult, chunk: Chunk) -> Iterator[tuple[int, bytes, bool]]:
    """Regions without records, as (number of the first line, lines, whether a record stands right before)."""
    hits = [h for h in reading.hits if h.pattern.role in MEASURES]
    if not hits:
        yield 0, chunk.texts().removesuffix(b"\n"), False
        return
    data = chunk.data
    if sum(len(h.lines) for h in hits) == reading.lines and not _has_traceback(data):
        return  # all lines are records, and no traceback was printed into one
    lines = np.concatenate([h.lines for h in hits])
    order = np.argsort(lines, kind="stable")
    lines, starts = lines[order], np.concatenate([h.starts for h in hits])[order]
    glued = _glued(data, starts)
    if len(glued):
        lines, starts = np.delete(lines, glued), np.delete(starts, glued)
    gaps = np.flatnonzero(np.diff(lines, prepend=-1, append=reading.lines) > 1).tolist()
    for gap in gaps:
        begin = data.index(b"\n", int(starts[gap - 1])) + 1 if gap else 0
        end = int(starts[gap]) if gap < len(starts) else len(data)
        yield int(lines[gap - 1]) + 1 if gap else 0, chunk.texts(begin, end).removesuffix(b"\n"), gap > 0


def strange(
    reading: EngineResult, regions: Sequence[tuple[int, bytes, bool]]
) -> Iterator[tuple[bytes, Integers]]:
    """Of each region the lines that no pattern has read, each with its end, and their places in the chunk."""
    if not regions:
        return
    read = np.zeros(reading.lines, dtype=np.bool_)
    for hits in reading.hits:
        read[hits.lines] = True
    for first, region, _ in regions:
        unknown = ~read[first : first + region.count(b"\n") + 1]
        lines = region
        if not unknown.all():
            lines = b"\n".join(itertools.compress(region.split(b"\n"), unknown))
        places = np.flatnonzero(unknown) + first
        yield lines + b"\n" if len(places) else b"", places


def ends_with_record(reading: EngineResult) -> bool:
    last = reading.lines - 1
    return any(h.pattern.role in MEASURES and int(h.lines[-1]) == last for h in reading.hits)


def _has_traceback(data: bytes) -> bool:
    return b"T" in data and b"(" in data and TRACEBACK in data  # one byte is found twenty times as fast


def _glued(data: bytes, starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Rows of records with a traceback printed into their line."""
    found: list[int] = []
    at = data.find(TRACEBACK) if _has_traceback(data) else -1
    while at >= 0:
        owner = int(np.searchsorted(starts, at, side="right")) - 1
        if owner >= 0 and b"\n" not in data[int(starts[owner]) : at]:
            found.append(owner)
        at = data.find(TRACEBACK, at + 1)
    return found
