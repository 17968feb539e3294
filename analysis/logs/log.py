"""What was read from one log: frames of steps, evaluations and events, and how the run ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast, overload

from gputel.analysis import columns
from gputel.analysis.logs.outcome import LogEvent, Status
from gputel.analysis.logs.patterns import Field, Reject

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.gpu_tables import Telemetry

DEFAULT_PHASE = "train"
T = TypeVar("T")


class Later(Generic[T]):
    """A field that may be given as a function, which is called when the field is first asked for."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    @overload
    def __get__(self, log: None, owner: type) -> NoReturn: ...
    @overload
    def __get__(self, log: object, owner: type) -> T: ...
    def __get__(self, log: object | None, owner: type) -> T:
        if log is None:
            raise AttributeError(self._name)  # so that the field has no default
        held = vars(log)[self._name]
        if callable(held):
            held = vars(log)[self._name] = held()
        return cast("T", held)

    def __set__(self, log: object, value: T | Callable[[], T]) -> None:
        vars(log)[self._name] = value


@dataclass(frozen=True)
class Log:
    """One run. `records` has a row per line that reported a step; `steps` one per step, later attempts first."""

    name: str
    source: str
    format: str | None
    lines: int
    config: dict[str, float | str]
    summary: dict[str, float | str]
    rejects: list[Reject]
    sources: dict[str, Field]
    places: list[tuple[str, int]]  # phase and attempt, in the order of the file
    records: Later[pl.DataFrame] = Later()
    evals: Later[pl.DataFrame] = Later()
    partials: Later[pl.DataFrame] = Later()
    events: Later[pl.DataFrame] = Later()
    status: Later[Status] = Later()
    cause: Later[LogEvent | None] = Later()
    telemetry: Telemetry | None = None
    inferred: str | None = None  # what an unknown format was understood as, in one line
    learned: str | None = None  # the same as a format's TOML
    composed: bool = False  # the log says that no program which trained has printed it
    fault: str | None = None  # why the file could not be read to its end
    started: int | None = None
    ended: int | None = None
    formats: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<log {self.name!r}: {self.format}, {self.records.height} records, {self.status}>"

    @cached_property
    def steps(self) -> pl.DataFrame:
        """A row per step of each phase: of several attempts the last, the mean over ranks where they differ."""
        import polars as pl

        if self._is_straight():
            return self.records
        rows = self.records.filter(pl.col("step").is_not_null())
        place = ["phase", "epoch", "step"] if self._counts_within_epochs() else ["phase", "step"]
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

    def _counts_within_epochs(self) -> bool:
        """Whether a step is one of its epoch only, and comes again in the next: `Epoch 2 Batch 100`."""
        import polars as pl

        if "epoch" not in self.records.columns:
            return False
        falls = (pl.col("step") < pl.col("step").shift(1)) & (pl.col("epoch") > pl.col("epoch").shift(1))
        return bool(self.records.select(falls.over("phase", "attempt", "rank").any()).item())

    def _is_straight(self) -> bool:
        """Whether one phase went from step to step without looking back, as most do."""
        steps = self.records["step"]
        rises = not steps.null_count() and steps.is_sorted() and not (steps == steps.shift(1)).any()
        return len(self.places) <= 1 and rises

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was read (no record, evaluation, event or reading of a GPU)."""
        return not (
            self.places or self.events.height or (self.telemetry is not None and self.telemetry.rows.height)
        )

    def metrics(self) -> list[str]:
        """The columns of `records` that hold measurements, in the order of columns.py."""
        known = {column.name for column in columns.PLACE} | {"step", "total_steps", "time"}
        return [name for name in self.records.columns if name not in known]
