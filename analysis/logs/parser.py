"""Parser: bytes of one log in any pieces -> lines -> engine -> rows and events.

The cost of `feed` depends on what is new, so the same object reads a finished file and one that grows. The
beginning of the log (a few megabytes at most) is kept until the lines that no format has read show whether they
are of the training; if they are, it is read again with the inferred format beside the others.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gputel.analysis.logs import (
    carriers,
    formats,
    numpy_engine,
    patterns,
    regex_engine,
    wrapped_bars,
)
from gputel.analysis.logs.encodings import Decoder, Utf16
from gputel.analysis.logs.first_lines import FirstLines
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.formats import patterns as patterns_of
from gputel.analysis.logs.glued_lines import GluedLines
from gputel.analysis.logs.lines import Chunk, Splitter, keep
from gputel.analysis.logs.notebooks import NotebookText
from gputel.analysis.logs.outcome import Outcome, ends_with_record, strange, unread
from gputel.analysis.logs.patterns import (
    MEASURES,
    NOTHING_READ,
    AlreadyRead,
    Engine,
    EngineResult,
    Field,
    Hits,
    Pattern,
    Reject,
)
from gputel.analysis.logs.prefixes import PREFIX
from gputel.analysis.logs.read_lines import ReadLines
from gputel.analysis.logs.records import Assembler
from gputel.analysis.logs.setting_rows import SettingRows, measures
from gputel.analysis.logs.stated import Stated
from gputel.analysis.logs.training_words import candidates, has_candidates, may_recur_or_measure
from gputel.analysis.logs.unread_lines import UnreadLines

if TYPE_CHECKING:
    from gputel.analysis.logs.infer import Inferred

    Infer = Callable[[bytes, AlreadyRead], Inferred | None]

SAMPLES = (1 << 20, 8 << 20)  # bytes after which to infer an unknown format; after the last it is given up
# A word that settings have: only lines with one are searched for them.
SETTING = patterns.lazy_regex(
    rb"(?i)lr\b|learning|batch|epochs|seed|optim|hidden|layers|steps|decay|args|config|param|option|setting"
)
PREAMBLE = 256 << 10  # bytes before the first record
LONG = 40_000  # lines after which inference sees only those that may speak of training
NUMERIC = b"0123456789.,eE+-"  # what the last byte of a cut number may be
HEAD = 16_384  # bytes in which the first timestamp is looked for, and where the weights come from
TAIL = 16_384  # bytes in which the end of the last save is looked for


class Parser:
    """Reads one log into `records`, `outcome`, `rejects` and what is `stated`, complete after `finish`."""

    def __init__(
        self,
        formats: tuple[Format, ...],
        engine: Engine = regex_engine.read,
        infer: Infer | None = None,
        *,
        live: bool = False,
        first_line: int = 1,
    ) -> None:
        """Sets up the parser. `live` reads redraws of a bar as they come, before their line ends.

        `first_line` is the number of the first line.
        """
        self.formats = formats
        self.patterns = patterns_of(formats)
        self.engine = engine
        self.inferred: Inferred | None = None
        self._infer = infer
        self._kept: list[Chunk] = []  # all of the log, while its format may be unknown
        self._strange: list[bytes] = []  # its lines that no pattern has read
        self._head = self._tail = b""  # the beginning of the log, and its end
        self._printed = b""  # the beginning, with what a carrier put before its lines
        self._seen = self._asked = 0
        self._ends = False  # whether the chunk being read is an unfinished last line
        self._lines = Splitter(live=live, first=first_line)
        self._utf16, self._decoder = Utf16(), Decoder()
        self._notebook, self._glued = NotebookText(), GluedLines()
        self._live = live
        self._begin()

    def _begin(self) -> None:
        self.records = Assembler(self.patterns)
        self.outcome = Outcome()
        self.rejects: list[Reject] = []
        self.stated = Stated()
        self.hits: Counter[str] = Counter()  # lines by format
        self.unread = UnreadLines()
        self.seen = ReadLines()
        self.first_lines = FirstLines()
        self._preamble = b""  # the lines before the first record
        self._recording = False  # whether a record or an evaluation has been read
        self._set = SettingRows()
        self._shapes: dict[Pattern, frozenset[Field]] = {}  # what the last line of each pattern printed
        self._recorded = False  # whether the chunk before ended with a record
        self._unexamined: list[
            tuple[Chunk, int, bytes, bool]
        ] = []  # regions whose events have not been read yet

    @property
    def lines(self) -> int:
        return self._lines.lines

    @property
    def is_notebook(self) -> bool:
        """Whether the lines are what the cells of a notebook printed."""
        return bool(self._notebook.is_notebook)

    @property
    def line(self) -> int:
        """The number of the line that the next byte belongs to."""
        return self._lines.next_line

    def feed(self, data: bytes) -> None:
        for chunk in self.split(data):
            self.take(chunk)

    def split(self, data: bytes) -> Iterator[Chunk]:
        """Cuts bytes into chunks for `take`."""
        return map(self._clean, self._lines.feed(self._utf16.decode(data)))

    def _clean(self, chunk: Chunk) -> Chunk:
        decoded = self._decoder.decode(self._notebook.read(chunk))
        return carriers.cut(self._glued.parted(wrapped_bars.joined(decoded)))

    def finish(self) -> None:
        rest = self._lines.feed(self._utf16.rest())
        for chunk in map(self._clean, [*rest, *self._lines.finish()]):
            self._ends = not chunk.data.endswith(b"\n")
            self.take(chunk)
        self._understand()
        self.records.finish()

    def take(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        """Reads a chunk; while the format may be unknown, stops to infer it where the sample is large enough.

        `reading` is the engine's result for the chunk, if it has been read already and is shorter than a sample.
        """
        while self._infer and self._seen + len(chunk.data) >= SAMPLES[self._asked]:
            part, chunk = chunk.cut(SAMPLES[self._asked] - self._seen)
            self._keep(part)
            self._asked += 1
            if self._asked == len(SAMPLES) or not self.records.begun or self._is_nothing():
                self._understand()
            if self._asked == len(SAMPLES):
                self._stop_asking()
        if chunk.data:
            self._keep(chunk, reading)

    def began(self) -> int | None:
        """The timestamp of the first line that has one, as those of records are read; None if they have none."""
        return self.records.stamps.first(self._printed.splitlines())

    @property
    def tail(self) -> list[bytes]:
        """The last lines."""
        return (self._tail if self._seen <= TAIL else self._tail.partition(b"\n")[2]).splitlines()

    @property
    def head(self) -> bytes:
        """The first lines, which say where the weights come from."""
        return self._head

    def _keep(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        if not self._head:
            self._head, self._printed = chunk.texts(0, HEAD), chunk.data[:HEAD]
        self._tail = (self._tail + chunk.data[-TAIL:])[-TAIL:]
        self._seen += len(chunk.data)
        if self._infer:
            keep(self._kept, chunk)
        self._piece(chunk, reading)

    def _piece(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        if reading is None:
            reading = self.engine(chunk.data, self.patterns, chunk.starts, chunk.begins)
        reading = self._read(chunk, reading)
        if not self._recording:
            self._settings(reading, chunk)
        regions = list(unread(reading, chunk))
        self._unexamined += [(chunk, *region) for region in regions]
        for unknown, places in strange(reading, regions):
            self.unread.add(unknown, chunk.number(places))
            if self._infer:
                self._strange.append(unknown)
        if not self._may_be_read_again():
            self._read_events()
        self._recorded = self._recorded or ends_with_record(reading)

    def _settings(self, reading: EngineResult, chunk: Chunk) -> None:
        """Keeps the lines before the first record, and takes the settings that they print once it has come."""
        starts = [int(hits.starts[0]) for hits in reading.hits if measures(hits)]
        self._recording = bool(starts)
        self._preamble = (self._preamble + chunk.texts(0, min(starts, default=None)))[:PREAMBLE]
        if self._recording and SETTING.search(self._preamble):
            from gputel.analysis.logs import printed_settings

            printed = printed_settings.read(self._preamble, formats.interpreted())
            again = {name for name in printed if name.removesuffix("_") in self.stated.config}
            self.stated.config |= {name: cell for name, cell in printed.items() if name not in again}

    def _may_be_read_again(self) -> bool:
        """Whether no pattern has matched so far, so that an inferred format may read everything again."""
        return self._infer is not None and not self._live and not any(self.hits.values())

    def _read_events(self) -> None:
        """Reads the events of lines that are not records."""
        for chunk, first, region, recorded in self._unexamined:
            if recorded or self._recorded:
                self.outcome.recorded()
                self._recorded = False
            self._events(chunk, first, region)
        self._unexamined = []

    def _read(self, chunk: Chunk, reading: EngineResult) -> EngineResult:
        reading = self._set.without(reading, chunk)
        if self._ends:
            reading = self._without_cut(reading, chunk.data)
        self._shapes.update({hits.pattern: _printed(hits) for hits in reading.hits})
        self.records.add(reading, chunk)
        for reject in reading.rejects:
            number = int(chunk.number(np.array([reject.line]))[0])
            self.rejects.append(Reject(number, reject.pattern, reject.reason))
        for hits in reading.hits:
            self.hits[hits.pattern.name.rpartition(".")[0]] += len(hits.lines) * (
                hits.pattern.role in MEASURES
            )
        self.seen.see(reading, chunk)
        self.first_lines.see(reading, chunk)
        self.stated.see(reading, chunk.data, self.patterns)
        return reading

    def _without_cut(self, reading: EngineResult, data: bytes) -> EngineResult:
        """Rejects an unfinished last line that prints fewer fields than usual: its last number may be cut."""
        last = reading.lines - 1
        ends = [h for h in reading.hits if int(h.lines[-1]) == last]
        cut = [h for h in ends if _printed(h) < self._shapes.get(h.pattern, frozenset())]
        if not cut or data[-1:] not in NUMERIC or reading.lines > 1:
            return reading
        reject = Reject(last, cut[0].pattern.name, "the log ends in the middle of a number")
        return EngineResult(
            reading.lines, [h for h in reading.hits if h is not cut[0]], [*reading.rejects, reject]
        )

    @property
    def is_settled(self) -> bool:
        """Whether no format will be inferred anymore."""
        return self._infer is None

    @property
    def _is_empty(self) -> bool:
        evaluations = self.records.evaluations
        return not (self.records.begun or evaluations.rows.count or evaluations.waiting())

    @property
    def strange_bytes(self) -> int:
        """The bytes of lines that no format has read and that may still turn out to be of the training."""
        return sum(map(len, self._strange))

    def tentative(self) -> Parser | None:
        """Another parser that has read the same, with the format that would be inferred if the log ended here."""
        inferred = self._guess()
        if inferred is None:
            return None
        other = copy.copy(self)
        other._lines = copy.copy(self._lines)
        other._decoder = copy.copy(self._decoder)
        other._read_again(inferred)
        return other

    def afresh(self) -> None:
        """Reads the kept log again, so that all its rows come again; not for a settled parser."""
        kept, self._strange = self._kept, []
        self._begin()
        for chunk in kept:
            self._piece(chunk)

    def _understand(self) -> None:
        inferred = self._guess()
        if inferred is not None:
            self._read_again(inferred)
        else:
            self._read_events()

    def _guess(self) -> Inferred | None:
        """The format inferred from lines that no format has read, or from all if there is no record yet."""
        nothing = self._is_nothing()
        lines = b"".join([c.texts() for c in self._kept] if nothing or self._is_empty else self._strange)
        if not self._infer or not has_candidates(lines):
            return None
        if not nothing and self.records.begun:
            some = candidates(lines, lambda: b"".join([c.texts() for c in self._kept]))
            names = {name: what.source for name, what in self.records.sources.items()}
            read = AlreadyRead(self.records.count, self.records.passes, names)
            return self._infer(some, read) if may_recur_or_measure(some) else None
        inferred = self._infer(lines, NOTHING_READ)
        long = lines.count(b"\n") >= LONG
        return inferred or (self._infer(candidates(lines), NOTHING_READ) if long else None)

    def _is_nothing(self) -> bool:
        """Whether the matching formats read nothing, or passed over the losses: the log is in none of them."""
        return any(self.hits.values()) and (self._is_empty or self.seen.are_passed_over)

    def _read_again(self, inferred: Inferred) -> None:
        """Reads the kept log again, with the inferred format beside the others."""
        self.inferred = inferred
        if self._is_nothing():
            self.patterns = tuple(p for p in self.patterns if not self.hits[p.name.rpartition(".")[0]])
        barred = {name for name in map(_format_of, self.rejects) if not self.hits[name]}
        self.patterns = tuple(p for p in self.patterns if p.name.rpartition(".")[0] not in barred)
        # The inferred format knows best what heads its own records.
        heads = () if any(self.hits.values()) else tuple(p for p in self.patterns if p.role == "epoch")
        kept, ends = self._kept, self._ends
        self._stop_asking()
        others = (pattern for pattern in self.patterns if pattern not in heads)
        self.patterns = (*others, *inferred.format.patterns, *heads)
        self._begin()
        for at, chunk in enumerate(kept, start=1):
            self._ends = ends and at == len(kept)
            self._piece(chunk)
        matched = {name for name, count in self.hits.items() if count}  # others' rejects do not count
        self.rejects = [reject for reject in self.rejects if _format_of(reject) in matched]

    def _stop_asking(self) -> None:
        self._infer, self._kept, self._strange = None, [], []

    def _events(self, chunk: Chunk, first: int, region: bytes) -> None:
        stamps = self.records.stamps
        for at, line in self.outcome.worth(region, first):
            printed = chunk.head(at) + line
            for event in self.outcome.read(printed, at):
                number = int(chunk.number(np.array([at]))[0])
                time = stamps.read(printed[:PREFIX])
                self.outcome.events.append(replace(event, line=number, time=time))


def _format_of(reject: Reject) -> str:
    return reject.pattern.rpartition(".")[0]


def _printed(hits: Hits) -> frozenset[Field]:
    """The fields that the last of these lines printed."""
    numbers = [what for what, values in hits.values.items() if values.present[-1]]
    return frozenset([*numbers, *(what for what, texts in hits.texts.items() if texts.present[-1])])


read: Engine = numpy_engine.read


def make_parser(
    chosen: tuple[Format, ...] | None = None, *, live: bool = False, first_line: int = 1
) -> Parser:
    if chosen is not None:
        return Parser(chosen, read, live=live, first_line=first_line)
    return Parser(formats.shipped(), read, infer, live=live, first_line=first_line)


def feed_together(parsers: list[Parser], texts: list[bytes]) -> None:
    """Feeds each parser its text, read in one go; they have the same formats, and texts are short."""
    chunks = [list(parser.split(text)) for parser, text in zip(parsers, texts, strict=True)]
    whole = [(parser, some[0]) for parser, some in zip(parsers, chunks, strict=True) if _is_ready(some)]
    pieces = [chunk for _, chunk in whole]
    readings = numpy_engine.read_together(pieces, parsers[0].patterns) if pieces else iter(())
    for (parser, chunk), reading in zip(whole, readings, strict=True):
        parser.take(chunk, reading)
    for parser, some in zip(parsers, chunks, strict=True):
        if not _is_ready(some):
            for chunk in some:
                parser.take(chunk)


def _is_ready(chunks: list[Chunk]) -> bool:
    """Whether it is one chunk of whole lines that needed no cleaning."""
    return len(chunks) == 1 and chunks[0].starts is not None and chunks[0].data.endswith(b"\n")


def infer(sample: bytes, read: AlreadyRead) -> Inferred | None:
    """Infers a format; the import waits until it is needed, as most logs are of a known format."""
    from gputel.analysis.logs import infer as guess

    return guess.infer(sample, read=read)
