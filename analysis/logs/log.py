"""Log: the frames read from one log (records, evaluations, events) and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs.date_order import DAY
from gputel.analysis.logs.outcome import LogEvent, SaveEnd, Status
from gputel.analysis.logs.patterns import Field, Reject
from gputel.analysis.logs.unread_lines import Alike, Unread

if TYPE_CHECKING:
    from gputel.analysis.doubts import Doubt
    from gputel.analysis.logs.clock_jumps import ClockJump
    from gputel.analysis.logs.first_lines import FirstLine, ReadKind
    from gputel.analysis.logs.gpu_tables import Telemetry

DEFAULT_PHASE = "train"


class Results(Protocol):
    """The parts of a log that take time to make. An implementation may make each when it is first asked for."""

    @property
    def records(self) -> pl.DataFrame: ...
    @property
    def evals(self) -> pl.DataFrame: ...
    @property
    def partials(self) -> pl.DataFrame: ...
    @property
    def events(self) -> pl.DataFrame: ...
    @property
    def status(self) -> Status: ...
    @property
    def cause(self) -> LogEvent | None: ...
    @property
    def jump(self) -> ClockJump | None: ...


@dataclass(frozen=True)
class ReadyResults:
    """Results that have been made already."""

    records: pl.DataFrame
    evals: pl.DataFrame
    partials: pl.DataFrame
    events: pl.DataFrame
    status: Status
    cause: LogEvent | None
    jump: ClockJump | None = None


@dataclass(frozen=True)
class Provenance:
    """Where and how a run ran, as a tool noted it beside the metrics; None is unknown."""

    host: str | None = None
    command: tuple[str, ...] = ()
    commit: str | None = None
    gpu: str | None = None


@dataclass(frozen=True)
class Log:
    """One run. `records` has a row per line that reported a step; `steps` one per step, later attempts first."""

    name: str
    source: str
    format: str | None
    lines: int | None  # None of a store, which has none
    config: dict[str, float | str]
    summary: dict[str, float | str]
    rejects: list[Reject]
    sources: dict[str, Field]
    digits: dict[str, float]  # what the last printed digit of a column stands for; 0 if that is not known
    places: list[tuple[str, int]]  # phase and attempt, in the order of the file
    results: Results
    telemetry: Telemetry | None = None
    inferred: str | None = None  # what an unknown format was understood as, in one line
    learned: str | None = None  # the same as a format's TOML
    composed: bool = False  # the log itself says that no training program printed it
    fault: str | None = None  # why the file could not be read to its end
    began: int | None = None  # the timestamp of its first line that has one
    last_save: SaveEnd | None = None  # when it ended
    dated_by: str | None = None  # what dates its timestamps, where they have no date
    continues: bool = False  # whether its first lines speak of weights that were trained before
    unread: Unread = field(default_factory=Unread)  # what lines print that no pattern has read
    first_lines: tuple[tuple[FirstLine, int], ...] = ()  # of each kind that was read, and how many there are
    cut_at: int | None = None  # the column at which a terminal cut its lines
    has_ambiguous_dates: bool = False  # whether their day and month may stand in either order
    binary: str | None = None  # the kind of a file that is no text, such as a checkpoint
    started: int | None = None
    ended: int | None = None
    formats: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was counted and left aside
    provenance: Provenance | None = None

    def __repr__(self) -> str:
        return f"<log {self.name!r}: {self.format}, {self.records.height} records, {self.status}>"

    @property
    def stamped(self) -> bool:
        """Whether lines of records have timestamps."""
        times = self.records["time"]
        return times.null_count() < len(times)

    @property
    def records(self) -> pl.DataFrame:
        return self.results.records

    @property
    def evals(self) -> pl.DataFrame:
        return self.results.evals

    @property
    def partials(self) -> pl.DataFrame:
        return self.results.partials

    @property
    def events(self) -> pl.DataFrame:
        return self.results.events

    @property
    def status(self) -> Status:
        return self.results.status

    @property
    def cause(self) -> LogEvent | None:
        return self.results.cause

    def with_results(self, **changes: Any) -> Log:
        """Copies the log with some of its results replaced; the others are made now."""
        made = self.results
        ready = ReadyResults(
            made.records, made.evals, made.partials, made.events, made.status, made.cause, made.jump
        )
        return replace(self, results=replace(ready, **changes))

    def days_later(self, days: int, dated_by: str) -> Log:
        """Moves all times by whole days, as something other than its file dates them."""
        later, shift = pl.col("time") + pl.duration(days=days), days * DAY
        tables = ("records", "evals", "events")
        moved = self.with_results(**{name: getattr(self, name).with_columns(later) for name in tables})
        return replace(
            moved,
            began=None if self.began is None else self.began + shift,
            last_save=self.last_save and self.last_save.later(shift),
            dated_by=dated_by,
        )

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step of each phase, from its last attempt; the mean where several ranks print it."""
        if self._is_straight():
            return self.records
        rows = self.records.filter(pl.col("step").is_not_null())
        place = ["phase", "epoch", "step"] if self.counts_within_epochs else ["phase", "step"]
        last = rows.filter(pl.col("attempt") == pl.col("attempt").max().over(place))
        if last.select(place).is_duplicated().any():
            metrics = [n for n, kind in last.schema.items() if kind == pl.Float64 and n not in place]
            others = [n for n in last.columns if n not in (*metrics, *place)]
            last = last.group_by(place, maintain_order=True).agg(
                [pl.col(others).first(), pl.col(metrics).mean()]
            )
        unnumbered = self.records.filter(pl.col("step").is_null())
        whole = pl.concat([last.select(self.records.columns), unnumbered], how="vertical")
        order = {name: i for i, (name, _) in reversed(list(enumerate(self.places)))}
        keyed = whole.with_columns(
            pl.col("phase").replace_strict(order, return_dtype=pl.Int64).alias("_phase")
        )
        place[0] = "_phase"
        return keyed.sort(*place, "line", nulls_last=True, maintain_order=True).drop("_phase")

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons why this reading is doubtful; empty if the log was understood."""
        from gputel.analysis.logs import doubts

        return doubts.doubts(self)

    @cached_property
    def unread_kinds(self) -> tuple[Alike, ...]:
        """Lines whose figures were not read, by kind."""
        from gputel.analysis.logs import unread_doubts

        return unread_doubts.not_read(self)

    @cached_property
    def read_kinds(self) -> tuple[ReadKind, ...]:
        """Lines that were read, by kind, each with what one of them became."""
        from gputel.analysis.logs import first_lines

        return first_lines.kinds(self, self.first_lines)

    @cached_property
    def counts_within_epochs(self) -> bool:
        """Whether the step count starts again in every epoch: `Epoch 2 Batch 100`."""
        if "epoch" not in self.records.columns:
            return False
        falls = (pl.col("step") < pl.col("step").shift(1)) & (pl.col("epoch") > pl.col("epoch").shift(1))
        return bool(self.records.select(falls.over("phase", "attempt", "rank").any()).item())

    def _is_straight(self) -> bool:
        """Whether the log has one phase whose steps only rise, as most do."""
        steps = self.records["step"]
        rises = not steps.null_count() and steps.is_sorted() and not (steps == steps.shift(1)).any()
        return len(self.places) <= 1 and rises

    @property
    def is_empty(self) -> bool:
        """Whether the log gave no record, evaluation, event or GPU reading."""
        has_readings = self.telemetry is not None and self.telemetry.rows.height > 0
        return not (self.places or self.events.height or has_readings)

    @cached_property
    def measured(self) -> pl.DataFrame:
        """`records` and, of a store, the values at other steps; partial rows of a log are redraws of bars."""
        import polars as pl

        if self.lines is not None or self.partials.is_empty():
            return self.records
        both = pl.concat([self.records, self.partials], how="diagonal").sort("line", maintain_order=True)
        return both.select(columns.in_order(both.columns))

    def metrics(self) -> list[str]:
        """The columns of `records` that hold measurements, in the order of columns.py."""
        return self.metrics_in(self.records)

    @staticmethod
    def metrics_in(rows: pl.DataFrame) -> list[str]:
        known = {column.name for column in columns.PLACE} | {"step", "total_steps", "time"}
        return [name for name in rows.columns if name not in known]
