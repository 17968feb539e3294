"""One log: bytes in any pieces -> lines -> engine -> rows and events.

`feed` does work that grows with what is new, so the same object reads a file that exists and one that grows. The
beginning (a few megabytes at most) is kept until the shapes of the lines that no format has read say what those
are; if they say something of the training, it is read once more, with the inferred format beside the others.

Which engine reads, with which formats: all that are shipped and a guess at unknown ones, unless chosen.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from gputel.analysis.logs import formats, numpy_engine, patterns, regex_engine
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.formats import patterns as patterns_of
from gputel.analysis.logs.lines import Chunk, Splitter, keep
from gputel.analysis.logs.outcome import RECORDS, LogEvent, Outcome, ends_with_record, strange, unread
from gputel.analysis.logs.patterns import Engine, EngineResult, Field, Hits, Pattern, Reject
from gputel.analysis.logs.records import Assembler

if TYPE_CHECKING:
    from gputel.analysis.logs.infer import Inferred

    Infer = Callable[[bytes, int], Inferred | None]

SAMPLES = (1 << 20, 8 << 20)  # bytes after which to ask what an unknown format is; then it is given up
# What a line of training has: without one, nobody is asked.
CANDIDATE = patterns.lazy_regex(
    rb"(?i)(?:loss|nll|ppl|perplex|bp[bc]\b|entropy|xent|logloss|rmse|\bmae\b|objective|cost|reward|acc|\bf1\b"
    rb"|lr\b|rate\b|\btime\b|norm|err|score|objf|\b[bc]?ce\b|\bmse\b|learn|train|epoch|\bavg|seconds|/ ?s(?:ec)?\b)"
)


class Parser:
    """`records`, `outcome`, `rejects`, `summary` and `config` hold what was read; complete after `finish`."""

    def __init__(
        self,
        formats: tuple[Format, ...],
        engine: Engine = regex_engine.read,
        infer: Infer | None = None,
        *,
        live: bool = False,
        first_line: int = 1,
    ) -> None:
        """`live`: redraws of a bar are read as they come, and not when their line has ended.

        `first_line` is the number of the first line.
        """
        self.formats = formats
        self.patterns = patterns_of(formats)
        self.engine = engine
        self.inferred: Inferred | None = None
        self._infer = infer
        self._kept: list[Chunk] = []  # all of the log, as long as its format may be unknown
        self._strange: list[bytes] = []  # the lines of it that no pattern has read
        self._seen = self._asked = 0
        self._ends = False  # whether the line that is read now is the last, and has no end
        self._lines = Splitter(live=live, first=first_line)
        self._live = live
        self._begin()

    def _begin(self) -> None:
        self.records = Assembler()
        self.outcome = Outcome()
        self.rejects: list[Reject] = []
        self.summary: dict[str, float | str] = {}
        self.config: dict[str, float | str] = {}
        self.hits: Counter[str] = Counter()  # lines by format
        self._shapes: dict[Pattern, frozenset[Field]] = {}  # what the last line of each pattern printed
        self._recorded = False  # whether the chunk before ended with a record
        self._untold: list[tuple[Chunk, int, bytes, bool]] = []  # lines whose events are not looked for yet

    @property
    def lines(self) -> int:
        return self._lines.lines

    @property
    def line(self) -> int:
        """The number of the line that the next byte belongs to."""
        return self._lines.number

    def feed(self, data: bytes) -> None:
        for chunk in self.split(data):
            self.take(chunk)

    def split(self, data: bytes) -> Iterator[Chunk]:
        """What is to be taken next."""
        return self._lines.feed(data)

    def finish(self) -> None:
        for chunk in self._lines.finish():
            self._ends = not chunk.data.endswith(b"\n")
            self.take(chunk)
        self._understand()
        self.records.finish()

    def take(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        """While the format may be unknown, stops where the sample is large enough to say what it is.

        `reading` is that of a chunk shorter than a sample, if it has been read already.
        """
        while self._infer and self._seen + len(chunk.data) >= SAMPLES[self._asked]:
            part, chunk = chunk.cut(SAMPLES[self._asked] - self._seen)
            self._keep(part)
            self._asked += 1
            if self._asked == len(SAMPLES) or not self.records.begun:
                self._understand()
            if self._asked == len(SAMPLES):
                self._stop_asking()
        if chunk.data:
            self._keep(chunk, reading)

    def _keep(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        self._seen += len(chunk.data)
        if self._infer:
            keep(self._kept, chunk)
        self._piece(chunk, reading)

    def _piece(self, chunk: Chunk, reading: EngineResult | None = None) -> None:
        reading = self._read(chunk, reading or self.engine(chunk.data, self.patterns, chunk.starts))
        for first, region, recorded in unread(reading, chunk):
            self._untold.append((chunk, first, region, recorded))
            if self._infer:
                self._strange.append(strange(reading, first, region))
        if not self._may_be_read_again():
            self._tell()
        self._recorded = self._recorded or ends_with_record(reading)

    def _may_be_read_again(self) -> bool:
        """Whether nothing was read so far, and all of it is likely to be of an unknown format."""
        return self._infer is not None and not self._live and not any(self.hits.values())

    def _tell(self) -> None:
        """What happened in lines that are no records."""
        for chunk, first, region, recorded in self._untold:
            if recorded or self._recorded:
                self.outcome.recorded()
                self._recorded = False
            self._events(chunk, first, region)
        self._untold = []

    def _read(self, chunk: Chunk, reading: EngineResult) -> EngineResult:
        if self._ends:
            reading = self._without_cut(reading, chunk.data)
        self._shapes.update({hits.pattern: _printed(hits) for hits in reading.hits})
        self.records.add(reading, chunk)
        for reject in reading.rejects:
            number = int(chunk.number(np.array([reject.line]))[0])
            self.rejects.append(Reject(number, reject.pattern, reject.reason))
        for hits in reading.hits:
            self.hits[hits.pattern.name.rpartition(".")[0]] += len(hits.lines) * (
                hits.pattern.role in RECORDS
            )
        self._facts(reading)
        return reading

    def _without_cut(self, reading: EngineResult, data: bytes) -> EngineResult:
        """A log may end in the middle of a number: that of a line which prints less than usual is none."""
        last = reading.lines - 1
        ends = [h for h in reading.hits if int(h.lines[-1]) == last]
        cut = [h for h in ends if _printed(h) < self._shapes.get(h.pattern, frozenset())]
        if not cut or not data[-1:].isdigit() or reading.lines > 1:
            return reading
        reject = Reject(last, cut[0].pattern.name, "the log ends in the middle of a number")
        return EngineResult(
            reading.lines, [h for h in reading.hits if h is not cut[0]], [*reading.rejects, reject]
        )

    @property
    def is_settled(self) -> bool:
        """Whether no format will be inferred any more."""
        return self._infer is None

    @property
    def strange_bytes(self) -> int:
        """How much there is that no format has read, and that may yet turn out to be of the training."""
        return sum(map(len, self._strange))

    def tentative(self) -> Parser | None:
        """Another parser, which has read the same, in the format that would be inferred if the log ended here."""
        inferred = self._guess()
        if inferred is None:
            return None
        other = copy.copy(self)
        other._lines = copy.copy(self._lines)
        other._read_again(inferred)
        return other

    def afresh(self) -> None:
        """Reads what is kept once more, so that all rows are here again; not for one that is settled."""
        kept, self._strange = self._kept, []
        self._begin()
        for chunk in kept:
            self._piece(chunk)

    def _understand(self) -> None:
        inferred = self._guess()
        if inferred is not None:
            self._read_again(inferred)
        else:
            self._tell()

    def _guess(self) -> Inferred | None:
        """What the lines that no format knew turn out to be, if that is something of the training."""
        nothing = self._is_nothing()
        lines = b"".join([chunk.data for chunk in self._kept] if nothing else self._strange)
        if not self._infer or not CANDIDATE.search(lines):
            return None
        if not self.records.begun:
            return self._infer(lines, 0)
        spoken = [line for line in lines.split(b"\n") if CANDIDATE.search(line)]  # a tenth of a long log's
        return self._infer(b"\n".join(spoken), sum(self.hits.values()))

    def _is_nothing(self) -> bool:
        """Whether formats have read lines of which no record and no evaluation came: it is none of theirs."""
        return any(self.hits.values()) and not self.records.begun and not self.records.evaluations.rows.count

    def _read_again(self, inferred: Inferred) -> None:
        """Reads what was kept once more, with the inferred format beside the others."""
        self.inferred = inferred
        if self._is_nothing():
            self.patterns = tuple(p for p in self.patterns if not self.hits[p.name.rpartition(".")[0]])
        kept, ends = self._kept, self._ends
        self._stop_asking()
        self._begin()
        self.patterns = (*self.patterns, *inferred.format.patterns)
        for at, chunk in enumerate(kept, start=1):
            self._ends = ends and at == len(kept)
            self._piece(chunk)
        own = {
            name for name, count in self.hits.items() if count
        }  # rejects of formats that it is not are none
        self.rejects = [reject for reject in self.rejects if reject.pattern.rpartition(".")[0] in own]

    def _stop_asking(self) -> None:
        self._infer, self._kept, self._strange = None, [], []

    def _facts(self, reading: EngineResult) -> None:
        """What banners and summaries say; of a fact said twice a banner's first and a summary's last counts."""
        for hits in reading.hits:
            if hits.pattern.role not in ("summary", "config"):
                continue
            found: dict[str, float | str] = {}
            for what, values in hits.values.items():
                numbers = values.numbers[values.present]
                if len(numbers):
                    name = "train_loss" if what.column == "loss" else what.column
                    found[name] = float(numbers[-1 if hits.pattern.role == "summary" else 0])
            for what, texts in hits.texts.items():
                said = [text for text in texts if text]
                if said:
                    found[what.column] = said[0].decode(errors="replace").strip()
            if hits.pattern.role == "summary":
                self.summary.update(found)
            else:
                self.config = {**found, **self.config}

    def _events(self, chunk: Chunk, first: int, region: bytes) -> None:
        stamps = self.records.stamps
        for at, line in enumerate(region.split(b"\n"), start=first):
            for event in self.outcome.read(line, at):
                number = int(chunk.number(np.array([at]))[0])
                time = stamps.read(line[:80])
                self.outcome.events.append(
                    LogEvent(event.kind, number, event.text, time, event.rank, event.fatal)
                )


def _printed(hits: Hits) -> frozenset[Field]:
    """What the last of these lines printed."""
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
    """Gives each of the parsers, all of the same formats, its text, shorter than a sample; read in one go."""
    chunks = [list(parser.split(text)) for parser, text in zip(parsers, texts, strict=True)]
    whole = [(parser, some[0]) for parser, some in zip(parsers, chunks, strict=True) if _is_ready(some)]
    pieces = [(chunk.data, chunk.starts) for _, chunk in whole if chunk.starts is not None]
    readings = numpy_engine.read_together(pieces, parsers[0].patterns) if pieces else iter(())
    for (parser, chunk), reading in zip(whole, readings, strict=True):
        parser.take(chunk, reading)
    for parser, some in zip(parsers, chunks, strict=True):
        if not _is_ready(some):
            for chunk in some:
                parser.take(chunk)


def _is_ready(chunks: list[Chunk]) -> bool:
    """Whether this is one chunk of whole lines that needed no cleaning."""
    return len(chunks) == 1 and chunks[0].starts is not None and chunks[0].data.endswith(b"\n")


def infer(sample: bytes, known: int) -> Inferred | None:
    """Imported when it is needed: most logs are of a known format."""
    from gputel.analysis.logs import infer as guess

    return guess.infer(sample, known=known)
