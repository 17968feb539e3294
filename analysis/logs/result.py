"""A finished parser -> a `Log`, whose frames, events and status are made when they are first asked for."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs import (
    counting,
    evaluation_spacing,
    events,
    frames,
    outcome,
    quotations,
    stale_evaluations,
)
from gputel.analysis.logs.clock_jumps import ClockJump, clock_jump
from gputel.analysis.logs.cut_lines import cut_column
from gputel.analysis.logs.date_order import Calendar
from gputel.analysis.logs.frames import EVALS, PARTIALS, RECORDS, Frame, Places, Together
from gputel.analysis.logs.log import DEFAULT_PHASE, Log, ReadyResults
from gputel.analysis.logs.outcome import LogEvent, Outcome, SaveEnd, Status, save_end
from gputel.analysis.logs.patterns import RECORDS as RECORD_ROLES
from gputel.analysis.logs.patterns import Reject
from gputel.analysis.logs.saved_steps import begins_where_resumed

if TYPE_CHECKING:
    from gputel.analysis.logs.gpu_tables import Telemetry
    from gputel.analysis.logs.parser import Parser
    from gputel.analysis.logs.records import Assembler

TRAINED_BEFORE = re.compile(
    rb"(?i)pre-?train|fine-?tun|resum|\b(?:load(?:ed|ing)?|restor(?:ed?|ing)|init(?:ialized)?) (?:\w+ ){0,3}from\b"
    rb"|init_from|from_pretrained|load_checkpoint"
)

UNNAMED = (
    "its rows of numbers have no names; a line above them such as `step loss acc` would say what they are"
)
_NUMERIC = b"0123456789.,;eE+- \t\r"
_BETWEEN_CELLS = re.compile(rb"[\s,;]+")
_MOST, _FEWEST = 0.8, 3  # of the first lines, from which on their rows are told


def conclude(
    parser: Parser,
    name: str,
    source: str,
    latest: datetime | None = None,
    *,
    live: bool = False,
    fault: str | None = None,
    together: Together | None = None,
) -> Log:
    """Makes the log of a finished parser.

    `latest` is a time after which nothing was written to the log; it dates timestamps that have no date. `live`
    says that a process still writes it. Pass one `together` when concluding many logs: frames are made together.
    """
    assembler = parser.records
    rows = assembler.steps.count + assembler.evaluations.rows.count
    may_quote = len(parser.formats) > 1 and not parser.is_notebook  # cells print texts of language models
    if may_quote and rows and quotations.quotes_training(parser.head, rows):
        return replace(_empty(name, source), lines=parser.lines)
    places = _places(assembler)
    calendar = assembler.stamps.calendar(latest or datetime.now(timezone.utc))
    began, saved = parser.began(), save_end(parser.tail, copy.copy(assembler.stamps))
    together = together or Together()
    records, evals, partials = (
        together.add(kind, rows, places, calendar)
        for kind, rows in zip((RECORDS, EVALS, PARTIALS), assembler.hand_over(), strict=True)
    )
    return Log(
        name=name,
        source=source,
        format=_main_format(parser),
        lines=parser.lines,
        config=parser.stated.config,
        summary=parser.stated.summary,
        rejects=sorted(parser.rejects, key=lambda reject: reject.line),
        sources=assembler.sources,
        digits=assembler.digits,
        places=list(dict.fromkeys(places.values())),
        results=_LazyResults(
            assembler, records, evals, partials, calendar, parser.outcome, parser.stated.config, live
        ),
        formats=dict(parser.hits),
        began=None if began is None else calendar.moment(began),
        last_save=saved and _dated(saved, calendar),
        dated_by="its file" if assembler.stamps.lacks_date else None,
        fault=fault,
        inferred=_understood(parser),
        learned=_learned(parser),
        composed="composed" in parser.stated.config,
        continues=TRAINED_BEFORE.search(parser.head) is not None,
        unread=parser.unread.found(parser.seen, assembler.looped),
        first_lines=parser.first_lines.found(),
        cut_at=cut_column(parser.head.splitlines()[:-1]) or cut_column(parser.tail),
        has_ambiguous_dates=calendar.ambiguous,
        notes=(UNNAMED,) if not rows and _are_unnamed(parser.head) else (),
    )


def _are_unnamed(head: bytes) -> bool:
    """Whether most lines are several numbers each, and nothing else."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    rows = sum(
        not line.translate(None, _NUMERIC) and len(_BETWEEN_CELLS.split(line.strip())) > 1 for line in lines
    )
    return rows >= max(_FEWEST, _MOST * len(lines))


def settled(evals: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """The evaluations of a finished log: where all of them together say that they stand, and each once."""
    return stale_evaluations.without_repeats(evaluation_spacing.placed(evals, records), records)


def _dated(saved: SaveEnd, calendar: Calendar) -> SaveEnd:
    behind = None if saved.behind is None else calendar.moment(saved.behind)
    return SaveEnd(calendar.moment(saved.line), behind)


@dataclass(eq=False)
class _LazyResults:
    """The results of a finished parser; each is made once, when it is first asked for."""

    assembler: Assembler
    make_records: Frame
    make_evals: Frame
    make_partials: Frame
    calendar: Calendar
    outcome: Outcome
    config: dict[str, float | str]
    live: bool

    @cached_property
    def jump(self) -> ClockJump | None:
        return clock_jump(self._printed)

    @cached_property
    def records(self) -> pl.DataFrame:
        return self._timed(self._printed)

    @cached_property
    def evals(self) -> pl.DataFrame:
        evals, records = self.make_evals(), self._printed
        if records is not self._made:
            evals = counting.steps_of_evaluations(evals, records, self.config)
        return self._timed(settled(evals, records))

    @cached_property
    def partials(self) -> pl.DataFrame:
        return self.make_partials()

    @cached_property
    def events(self) -> pl.DataFrame:
        seen = [*self.outcome.events, *events.of_lines(self.assembler)]
        ranges = events.line_ranges(self.records)
        done, _ = events.EventTracker().take(seen, self.records, ranges, ended=True)
        return self._timed(done.frame(self.calendar))

    @cached_property
    def _printed(self) -> pl.DataFrame:
        return counting.steps_by_tokens(self._made, self.config)

    @cached_property
    def _made(self) -> pl.DataFrame:
        return self.make_records()

    def _timed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Leaves out timestamps that time nothing, as the clock was set."""
        return frame.with_columns(time=pl.lit(None, frame.schema["time"])) if self.jump else frame

    @cached_property
    def cause(self) -> LogEvent | None:
        return self._fatal or (self._cut_off() if self.status == "unknown" else None)

    @cached_property
    def status(self) -> Status:
        done = self.outcome.completed is not None or self._reached_its_end()
        return outcome.status(self._fatal, done, self.live)

    @cached_property
    def _fatal(self) -> LogEvent | None:
        found = outcome.cause(self.outcome.events, _last_line(self.records))
        if found or self.outcome.completed is not None:
            return found
        known = self.records.filter(pl.col("step").is_not_null())
        stop = outcome.caught(self.outcome.events, known["line"].to_numpy(), known["step"].to_numpy())
        return None if stop is None or self._reached_its_end() else stop

    def _cut_off(self) -> LogEvent | None:
        """Says what stopped a run that does not say how it ended, else where; None if it prints no total."""
        last = _last_line(self.records)
        stopped = next((e for e in self.outcome.events if e.kind == "stop" and e.line > last), None)
        if stopped is not None:
            return stopped
        goal = self._goal()
        if goal is None:
            return None
        reached, total, _ = goal
        return LogEvent("", last, f"log ends at step {reached:,.0f} of {total:,.0f}")

    def _reached_its_end(self) -> bool:
        """Whether the last phase reached the last step of a total that the log printed."""
        if self.assembler.at_last_step:
            return True
        goal = None if self.assembler.broken_off else self._goal()
        return goal is not None and goal[0] >= goal[1] - goal[2]

    def _goal(self) -> tuple[float, float, bool] | None:
        """Returns the last phase's last step, its total, and whether steps count from 0; None if one is unknown."""
        records = self.records
        if not records.height or ("total_steps" not in records.columns and "total_steps" not in self.config):
            return None
        phase, attempt = records["phase"][-1], records["attempt"][-1]
        of_phase = _where(records, "phase", phase)
        last = _where(of_phase, "attempt", attempt)
        printed = last["total_steps"].drop_nulls() if "total_steps" in last.columns else pl.Series([])
        total: Any = printed[-1] if len(printed) else self.config.get("total_steps")
        evaluated = _where(_where(self.evals, "phase", phase), "attempt", attempt)
        reached = [rows["step"].max() for rows in (last, evaluated)]
        steps: list[Any] = [step for step in reached if step is not None]
        if total is None or not steps or max(steps) > total:  # that of an epoch
            return None
        from_zero = of_phase["step"].min() == 0 or begins_where_resumed(of_phase, self.events)
        return float(max(steps)), float(total), from_zero


def _main_format(parser: Parser) -> str | None:
    """The name of the format that matched most lines; one that only evaluates goes behind those of records."""
    recording = {p.name.rpartition(".")[0] for p in parser.patterns if p.role in RECORD_ROLES}
    counts = sorted(parser.hits.items(), key=lambda item: (item[0] not in recording, -item[1], item[0]))
    return counts[0][0] if counts and counts[0][1] else None


def _learned(parser: Parser) -> str | None:
    """The inferred format as TOML, with the names of the shipped ones that read lines of the log beside it."""
    if parser.inferred is None:
        return None
    others = sorted(
        name for name, count in parser.hits.items() if count and name != parser.inferred.format.name
    )
    return (f"with = {others}\n" if others else "") + parser.inferred.text


def _understood(parser: Parser) -> str | None:
    if parser.inferred is None:
        return None
    hits = parser.hits[parser.inferred.format.name]
    return parser.inferred.understood(hits, hits + len(parser.rejects))


def telemetry_log(readings: tuple[str, Telemetry], name: str, source: str) -> Log:
    """Makes the log of a table of GPU readings: it has no records."""
    kind, telemetry = readings
    rejects = [Reject(line, kind, reason) for line, reason in telemetry.rejects]
    empty = _empty(name, source)
    return replace(empty, format=kind, lines=telemetry.lines, rejects=rejects, telemetry=telemetry)


def binary_log(kind: str, name: str, source: str) -> Log:
    """Makes the empty log of a file that is no text."""
    return replace(_empty(name, source), binary=kind)


def _empty(name: str, source: str) -> Log:
    empty = {name: pl.Series(name, [], dtype=dtype) for name, dtype in frames.TYPES.items()}
    records = pl.DataFrame([empty[n] for n in ("phase", "attempt", "step", "time", "line", "rank")])
    evals = pl.DataFrame([empty[column.name] for column in columns.EVALS])
    events = pl.DataFrame([empty[column.name] for column in columns.EVENTS])
    return Log(
        name=name,
        source=source,
        format=None,
        lines=0,
        config={},
        summary={},
        rejects=[],
        sources={},
        digits={},
        places=[],
        results=ReadyResults(records, evals, records, events, "unknown", None),
    )


def _places(assembler: Assembler) -> Places:
    """(number of the phase, attempt) -> (its name, attempt of that name), in the order of the file."""
    names = [stage or DEFAULT_PHASE for stage in assembler.stages.names]
    counts: dict[str, int] = {}
    places = {}
    for phase, attempt in sorted({*assembler.steps.places(), *assembler.evaluations.rows.places()}):
        counts[names[phase]] = counts.get(names[phase], 0) + 1
        places[phase, attempt] = (names[phase], counts[names[phase]])
    return places


def _last_line(records: pl.DataFrame) -> int:
    last: Any = records["line"].max()
    return int(last) if last is not None else 0


def _where(frame: pl.DataFrame, name: str, value: str | int) -> pl.DataFrame:
    """The rows of one phase or attempt; the frame itself where it has no others."""
    matches = frame[name] == value
    return frame if matches.all() else frame.filter(matches)
