"""A parser that has read to the end -> a `Log`: phases named, moments put on the calendar, events in order.

Columns are handled one by one and not in expressions: a query costs what parsing a hundred lines does, and of a
folder of small logs it would be most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.parse import outcome
from gputel.analysis.parse.log import DEFAULT_PHASE, Log
from gputel.analysis.parse.outcome import Event, Outcome, Status
from gputel.analysis.parse.patterns import Reject
from gputel.analysis.parse.rows import Rows, constant

if TYPE_CHECKING:
    from gputel.analysis.parse.parser import Parser
    from gputel.analysis.parse.records import Assembler
    from gputel.analysis.telemetry_logs import Telemetry

ROWS = ("phase", "attempt", "line", "step", "time", "rank")
EVALS = ("phase", "attempt", "step", "name", "value", "line", "time", "rank")
DATED = 10**18  # September 2001: moments before it are still counted in years or days of the log's own
_UTC = pl.Datetime("ns", "UTC")
_EMPTY: dict[str, type[pl.DataType] | pl.DataType] = {
    **dict.fromkeys(("phase", "name", "rank", "kind", "text"), pl.String),
    **dict.fromkeys(("attempt", "step", "line"), pl.Int64),
    "value": pl.Float64,
    "time": _UTC,
}


def conclude(
    parser: Parser,
    name: str,
    source: str,
    latest: datetime | None = None,
    *,
    live: bool = False,
    fault: str | None = None,
) -> Log:
    """`latest` is a moment that the log was not written after; `live` says that somebody still writes it."""
    held = parser.records
    places = _places(held)
    whole = _Conclusion(
        held,
        held.hand_over(),
        parser.outcome,
        places,
        parser.config,
        latest or datetime.now(timezone.utc),
        live,
    )
    return Log(
        name=name,
        source=source,
        format=_main_format(parser),
        lines=parser.lines,
        records=lambda: whole.records,
        evals=lambda: whole.evals,
        partials=lambda: whole.partials,
        events=whole.events,
        config=parser.config,
        summary=parser.summary,
        status=whole.status,
        cause=lambda: whole.cause,
        rejects=sorted(parser.rejects, key=lambda reject: reject.line),
        sources=held.sources,
        places=list(dict.fromkeys(places.values())),
        formats=dict(parser.hits),
        fault=fault,
        inferred=_understood(parser),
        learned=parser.inferred.text if parser.inferred else None,
        composed="composed" in parser.config,
    )


@dataclass(eq=False)
class _Conclusion:
    """What a `Log` is asked for and what takes its time, once it is asked: frames, and all that is seen in them."""

    held: Assembler
    rows: tuple[Rows, Rows, Rows]
    outcome: Outcome
    places: dict[tuple[int, int], tuple[str, int]]
    config: dict[str, float | str]
    latest: datetime
    live: bool

    @cached_property
    def records(self) -> pl.DataFrame:
        return self._frame(self.rows[0], ROWS, columns.in_order)

    @cached_property
    def evals(self) -> pl.DataFrame:
        return self._frame(self.rows[1], EVALS)

    @cached_property
    def partials(self) -> pl.DataFrame:
        return self._frame(self.rows[2], ROWS)

    def _frame(
        self, rows: Rows, first: tuple[str, ...], order: Callable[[list[str]], list[str]] = list
    ) -> pl.DataFrame:
        if len(self.places) > 1:
            return readable(rows.frame(first, order=order), self.places, self.shift)
        phase, attempt = next(iter(self.places.values()), (DEFAULT_PHASE, 1))
        return _dated(rows.frame(first, {"phase": phase, "attempt": attempt}, order), self.shift)

    @cached_property
    def shift(self) -> int:
        return self.held.stamps.shift(self.latest)

    def events(self) -> pl.DataFrame:
        happened = _events(self.outcome, self.held, self.records)
        return event_frame(
            happened, _steps_before([event.line for event in happened], self.records), self.shift
        )

    @cached_property
    def cause(self) -> Event | None:
        return outcome.cause(self.outcome.events, _last_line(self.records))

    def status(self) -> Status:
        done = self.outcome.completed is not None or self._reached_its_end()
        return outcome.status(self.cause, done, self.live)

    def _reached_its_end(self) -> bool:
        """Whether the last phase came to the last step of a total that was printed."""
        records = self.records
        if self.held.at_last_step:
            return True
        if not records.height or self.held.broken_off:
            return False
        if "total_steps" not in records.columns and "total_steps" not in self.config:
            return False
        phase, attempt = records["phase"][-1], records["attempt"][-1]
        of_phase = _of(records, "phase", phase)
        last = _of(of_phase, "attempt", attempt)
        printed = _printed(last["total_steps"]) if "total_steps" in last.columns else pl.Series([])
        total: Any = printed[-1] if len(printed) else self.config.get("total_steps")
        reached = [steps.max() for steps in (last["step"], _of(self.evals, "phase", phase)["step"])]
        steps: list[Any] = [step for step in reached if step is not None]
        if total is None or not steps:
            return False
        first: Any = of_phase["step"].min()
        return bool(max(steps) >= float(total) - (1 if first == 0 else 0))


def _main_format(parser: Parser) -> str | None:
    """Of several formats in one log that of most lines."""
    counts = sorted(parser.hits.items(), key=lambda item: (-item[1], item[0]))
    return counts[0][0] if counts and counts[0][1] else None


def _understood(parser: Parser) -> str | None:
    if parser.inferred is None:
        return None
    hits = parser.hits[parser.inferred.format.name]
    return parser.inferred.understood(hits, hits + len(parser.rejects))


def of_telemetry(read: tuple[str, Telemetry], name: str, source: str) -> Log:
    """Readings of GPUs, and no training."""
    kind, telemetry = read
    empty = {name: pl.Series(name, [], dtype=dtype) for name, dtype in _EMPTY.items()}
    records = pl.DataFrame([empty[n] for n in ("phase", "attempt", "step", "time", "line", "rank")])
    evals = pl.DataFrame([empty[column.name] for column in columns.EVALS])
    events = pl.DataFrame([empty[column.name] for column in columns.EVENTS])
    rejects = [Reject(line, kind, reason) for line, reason in telemetry.rejects]
    return Log(
        name=name,
        source=source,
        format=kind,
        lines=telemetry.lines,
        records=records,
        evals=evals,
        partials=records,
        events=events,
        config={},
        summary={},
        status="unknown",
        cause=None,
        rejects=rejects,
        sources={},
        places=[],
        telemetry=telemetry,
    )


def _places(held: Assembler) -> dict[tuple[int, int], tuple[str, int]]:
    """(number of the phase, attempt) -> (its name, attempt of that name), in the order of the file."""
    names = [stage or DEFAULT_PHASE for stage in held.stages.names]
    counts: dict[str, int] = {}
    places = {}
    for phase, attempt in sorted({*held.steps.places(), *held.evaluations.rows.places()}):
        counts[names[phase]] = counts.get(names[phase], 0) + 1
        places[phase, attempt] = (names[phase], counts[names[phase]])
    return places


def begun(frame: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """(number of the phase, attempt) of each row that differs from the one before."""
    phases, attempts = frame["phase"].to_numpy(), frame["attempt"].to_numpy()
    changed = (phases[1:] != phases[:-1]) | (attempts[1:] != attempts[:-1])
    for row in [0, *(np.flatnonzero(changed) + 1).tolist()] if len(phases) else []:
        yield int(phases[row]), int(attempts[row])


def readable(frame: pl.DataFrame, places: dict[tuple[int, int], tuple[str, int]], shift: int) -> pl.DataFrame:
    """Phases by name, moments as moments."""
    if len(places) <= 1:
        phase, attempt = next(iter(places.values()), (DEFAULT_PHASE, 1))
        named = _replaced(frame, constant("phase", phase, pl.String, frame.height))
        named = _replaced(named, constant("attempt", attempt, pl.Int64, frame.height))
    else:
        keys = pl.DataFrame(
            [(*key, *place) for key, place in places.items()],
            schema={"phase": pl.Int64, "attempt": pl.Int64, "_phase": pl.String, "_attempt": pl.Int64},
            orient="row",
        )
        joined = frame.join(keys, on=["phase", "attempt"], how="left", maintain_order="left")
        named = joined.with_columns(phase="_phase", attempt="_attempt").drop("_phase", "_attempt")
    return _dated(named, shift)


def _dated(named: pl.DataFrame, shift: int) -> pl.DataFrame:
    if named["time"].null_count() == named.height:
        return _replaced(named, constant("time", None, _UTC, named.height))
    moment = pl.col("time") + pl.when(pl.col("time") < DATED).then(shift).otherwise(0)
    return named.with_columns(moment.cast(pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _replaced(frame: pl.DataFrame, column: pl.Series) -> pl.DataFrame:
    """In place: the frame is ours until it is given away."""
    return frame.replace_column(frame.columns.index(column.name), column)


def _events(said: Outcome, held: Assembler, records: pl.DataFrame) -> list[Event]:
    """What lines said, and what rows show: evaluations, NaN losses, steps that begin again."""
    happened = [event for event in said.events if event.kind]
    happened += [Event("eval", line.number, "", line.time, line.rank) for line in held.evaluations.lines]
    happened += [Event("eval", number, "") for number in held.evaluations.numbers]
    happened += [Event("epoch", line.number, "", line.time, line.rank) for line in held.epoch_lines]
    happened += [Event("nan", line, "the loss is no finite number") for line in _not_finite(records)]
    happened += _restarts(happened, records)
    errors = [event for event in said.events if event.fatal]
    for i, event in enumerate(happened):
        if event.kind == "traceback":
            text = next((error.text for error in errors if error.line > event.line), "")
            happened[i] = Event("traceback", event.line, text, event.time, event.rank)
    return sorted(happened, key=lambda event: event.line)


def _not_finite(records: pl.DataFrame) -> list[int]:
    """Where a loss stops being a number; not every line on which it still is none."""
    if "loss" not in records.columns or np.isfinite(_printed(records["loss"]).to_numpy()).all():
        return []
    bad = records.filter(pl.col("loss").is_not_null()).with_columns(bad=~pl.col("loss").is_finite())
    onset = bad.filter(pl.col("bad") & ~pl.col("bad").shift(1, fill_value=False))
    return onset["line"].to_list()


def _restarts(happened: list[Event], records: pl.DataFrame) -> list[Event]:
    """Steps that begin again, where no line has said why."""
    if not records.height or cast("int", records["attempt"].max()) <= 1:
        return []
    begun = records.group_by("phase", "attempt", maintain_order=True).agg(
        pl.col("line").first(), last=pl.col("line").last()
    )
    told = [event.line for event in happened if event.kind in ("resume", "restart")]
    found, before = [], 0
    for _, attempt, line, last in begun.iter_rows():
        if attempt > 1 and not any(before < said < line for said in told):
            found.append(Event("restart", line, "steps begin again"))
        before = last
    return found


def event_frame(happened: list[Event], steps: list[int | None], shift: int) -> pl.DataFrame:
    times = [e.time if e.time is None or e.time >= DATED else e.time + shift for e in happened]
    found: dict[str, list[Any]] = {
        "kind": [e.kind for e in happened],
        "line": [e.line for e in happened],
        "step": steps,
        "rank": [e.rank for e in happened],
        "text": [e.text for e in happened],
    }
    series = {name: pl.Series(name, values, dtype=_EMPTY[name]) for name, values in found.items()}
    series["time"] = pl.Series("time", times, dtype=pl.Int64).cast(_UTC)
    return pl.DataFrame([series[column.name] for column in columns.EVENTS])


def _steps_before(lines: list[int], records: pl.DataFrame) -> list[int | None]:
    """The last step that was printed on a line or before it."""
    known, steps = records["line"], records["step"]
    if steps.null_count():
        known, steps = known.filter(steps.is_not_null()), _printed(steps)
    rows = np.searchsorted(known.to_numpy(), np.array(lines, dtype=np.int64), side="right") - 1
    return [int(steps[row]) if row >= 0 else None for row in rows.tolist()]


def _printed(column: pl.Series) -> pl.Series:
    return column.drop_nulls() if column.null_count() else column


def _last_line(records: pl.DataFrame) -> int:
    last: Any = records["line"].max()
    return int(last) if last is not None else 0


def _of(frame: pl.DataFrame, name: str, value: str | int) -> pl.DataFrame:
    """The rows of one phase or attempt; most logs have no other."""
    is_so = frame[name] == value
    return frame if is_so.all() else frame.filter(is_so)
