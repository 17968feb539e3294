"""One phase of a run -> the cost of its steps so far on every axis: tokens, time, FLOPs, energy, dollars.

Time, energy and dollars include work that a restart discarded; tokens and FLOPs do not, as it is not in the model.
Time and energy count from the beginning of the first step, with evaluations, checkpoints and gaps after it; what
compilation adds to that step belongs to the start, as in `gputel report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align import join, per_step
from gputel.analysis.align.join import JOULES
from gputel.analysis.align.marks import steps_of_first
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import SCHEMA, cut_spans
from gputel.analysis.logs.saved_steps import resumed_at
from gputel.analysis.runs.facts import estimated_flops
from gputel.analysis.runs.printed_times import LONG, seconds_by_dt, usual_dt
from gputel.analysis.text import JOULES_PER_KWH

if TYPE_CHECKING:
    from gputel.analysis.align.samples import Readings
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Fact

Cost: TypeAlias = "Numbers | str"
"""Cost so far at each record, or why it is unknown."""

Numbers: TypeAlias = npt.NDArray[np.float64]
CLOCKS = {
    "stamps": "from timestamps since the first step began, evaluations and gaps included",
    "clock": "the log's own total time, which may leave out first steps and evaluations",
    "dt": "the sum of the printed step times",
}
"""The clocks, most reliable first."""
COLUMNS = {"stamps": "time", "clock": "total_time_min", "dt": "dt_ms"}

NOTHING = "no GPU was measured"
TIMELESS = "its records could not be placed in time"
TIME = pl.Datetime("ns", "UTC")
FEW = 600_000  # ticks; longer recordings are read by whole seconds, with the same result
COVERED = join.WHOLE  # least measured share of the time for an energy of the run


@dataclass(frozen=True)
class Axis:
    """An axis; `column` is its name in tables, with its unit; `word` its name in text."""

    name: str
    column: str
    word: str


AXES: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("step", "step", "steps"),
        Axis("tokens", "tokens", "tokens"),
        Axis("time", "time_s", "time"),
        Axis("flops", "flops", "FLOPs"),
        Axis("energy", "energy_j", "energy"),
        Axis("cost", "cost", "cost"),
    )
}


@dataclass(frozen=True)
class Prices:
    """Dollars per GPU hour and per kWh."""

    hour: float | None = None
    kwh: float | None = None

    @property
    def known(self) -> bool:
        return self.hour is not None or self.kwh is not None


@dataclass(frozen=True)
class Records:
    """Each record of an attempt once, in file order; `done` is the number of steps completed by then."""

    rows: pl.DataFrame
    done: Numbers
    attempt: Numbers
    numbered: bool  # no steps are printed, so records were counted


def costs(
    subject: RunData, records: Records, clock: str | None, measured: PhaseEnergy, prices: Prices
) -> dict[str, Cost]:
    """Returns the cost so far by axis, all axes but steps."""
    tokens = _tokens(subject, records)
    seconds = elapsed_seconds(subject.log, records, clock)
    time = "it has no timestamps, no total time and no step times" if seconds is None else seconds
    energy = measured.by_record(records.rows)
    cost = _cost(subject, time, energy, prices)
    return {
        "tokens": tokens,
        "time": time,
        "flops": _flops(subject, tokens),
        "energy": energy,
        "cost": cost,
    }


def amount(fact: Fact | None) -> float | None:
    return None if fact is None else float(fact.value)


def available_clocks(rows: pl.DataFrame) -> list[str]:
    """Returns the clocks that these records have; a single timestamp is not enough."""
    return [
        name
        for name, column in COLUMNS.items()
        if column in rows.columns and rows.height - rows[column].null_count() > (name == "stamps")
    ]


def shared(tables: Sequence[pl.DataFrame]) -> str | None:
    """Returns the best clock that all runs have; None if they share none."""
    have = [available_clocks(rows) for rows in tables]
    return next((name for name in CLOCKS if all(name in clocks for clocks in have)), None)


def chosen(rows: pl.DataFrame, wanted: str | None) -> str | None:
    """Returns the wanted clock if the run has it, else its best."""
    have = available_clocks(rows)
    return wanted if wanted in have else next(iter(have), None)


def elapsed_seconds(log: Log, records: Records, clock: str | None) -> Numbers | None:
    """Returns seconds since the first step began, at each record; discarded records count too."""
    if clock is None:
        return None
    rows = records.rows
    column = rows[COLUMNS[clock]]
    if clock == "stamps":
        stamps = floats(column.dt.epoch("ns")) / 1e9
        return stamps - np.nanmin(stamps) + _of_first(log, records)
    if clock == "clock":
        return _counted_on(floats(column) * 60)
    known = _without_compilation(log, rows.with_columns(dt_ms=_finite_dt()))
    seconds = seconds_by_dt(known, log, pl.Series(gaps(records, log.events)))
    return None if seconds is None else np.cumsum(floats(seconds))


def gaps(records: Records, events: pl.DataFrame) -> Numbers:
    """Returns how many steps each record covers: those since the last; an attempt's first as in its span."""
    since = np.diff(records.done, prepend=0.0)
    begins = np.diff(records.attempt, prepend=records.attempt[:1] - 1) != 0
    usual = pl.lit(stride(records.done))
    first = records.rows.select(steps_of_first(usual, resumed_at(records.rows, events)).alias("steps"))
    return np.where(begins, floats(first["steps"]), since)


def stride(done: Numbers) -> float:
    """Returns the median number of steps between two records."""
    grown = np.diff(done)
    grown = grown[grown > 0]
    return float(np.median(grown)) if len(grown) else 1.0


def floats(column: pl.Series) -> Numbers:
    """Converts a column to floats; null becomes NaN."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


@dataclass(frozen=True)
class PhaseEnergy:
    """Measured `spans` of one phase; `why` says why the energy is unknown, if it is."""

    spans: pl.DataFrame | None
    why: str | None = None

    def by_record(self, rows: pl.DataFrame) -> Numbers | str:
        """Returns joules so far at each record of `rows`; NaN for a record without a time."""
        if self.spans is None or self.why:
            return self.why or NOTHING
        records = self.spans.filter((pl.col("kind") == "train") & (pl.col("steps") > 0))
        ends = records.group_by("attempt", "step").agg(pl.col("end").max())
        placed = rows.select("attempt", "step").join(
            ends, on=["attempt", "step"], how="left", maintain_order="left"
        )
        times = placed["end"].dt.epoch("ns").fill_null(-1).to_numpy()
        before = np.searchsorted(self.spans["end"].dt.epoch("ns").to_numpy(), times, side="right")
        sums = np.insert(np.cumsum(_joules(self.spans).fill_null(0.0).to_numpy()), 0, 0.0)
        return np.where(times < 0, np.nan, sums[before]) if (times >= 0).any() else TIMELESS

    def figures(self, tokens_per_step: float | None) -> dict[str, float | None]:
        """Returns power of all GPUs and memory during training, and joules per token of fully measured steps."""
        if self.spans is None:
            return {}
        train = self.spans.filter(pl.col("kind") == "train")
        if train.is_empty():
            return {}
        row: dict[str, Any] = per_step.totals(train).row(0, named=True)
        each = per_step.of_spans(train)
        complete = each.filter((pl.col("measured") >= join.WHOLE) & _joules(each).is_not_null())
        tokens = (tokens_per_step or 0) * float(complete["steps"].sum())
        joules = float((_joules(complete) * complete["steps"]).sum())
        return {
            "j_per_token": joules / tokens if tokens and not self.why else None,
            **{name: row[name] for name in ("power_mean_w", "power_peak_w", "mem_peak_mib")},
        }


def phase_energy(subject: RunData, phase: str) -> PhaseEnergy:
    """Measures the spans of a phase, from its first step to its last line."""
    gpu = gpu_samples(subject, FEW)
    if gpu is None:
        return PhaseEnergy(None, NOTHING)
    cut = cut_spans(subject)
    first = cut.filter((pl.col("phase") == phase) & (pl.col("kind") == "train"))["start"].min()
    if first is None:
        return PhaseEnergy(None, TIMELESS)
    last = cut.filter(pl.col("phase") == phase)["end"].max()
    spans = join.measured(cut, gpu).filter(pl.col("start") >= first, pl.col("end") <= last).sort("end")
    covered = spans.select((pl.col("measured").fill_null(0) * pl.col("duration_s")).sum()).item()
    whole = float(spans["duration_s"].sum())
    if covered < COVERED * whole:
        if (counted := _with_gaps(spans, gpu)) is not None:
            return PhaseEnergy(counted)
        percent = f"{100 * covered / whole:.0f} %"
        return PhaseEnergy(spans, f"its GPUs were measured for only {percent} of the time")
    return PhaseEnergy(spans)


def _with_gaps(spans: pl.DataFrame, gpu: Readings) -> pl.DataFrame | None:
    """Adds what the energy counter grew by while nothing was sampled; None without a counter of all GPUs.

    It is shared out by the time without samples.
    """
    if "node" in spans.columns:
        return None
    whole = spans.select(pl.col(name).first() for name in SCHEMA).with_columns(
        start=pl.lit(spans["start"].min(), TIME), end=pl.lit(spans["end"].max(), TIME)
    )
    counted = join.measured(whole, gpu)["energy_counter_j"][0]
    if counted is None:
        return None
    silent_s = pl.col("duration_s") * (1 - pl.col("measured").fill_null(0))
    missing = counted - JOULES.fill_null(0).sum()
    return spans.with_columns(energy_counter_j=JOULES.fill_null(0) + missing * silent_s / silent_s.sum())


def _tokens(subject: RunData, records: Records) -> Cost:
    """Tokens as printed, where that is a count so far; else by steps."""
    rows, batch = records.rows, amount(subject.facts.tokens_per_step)
    if "tokens" in rows.columns and len(rows) > 1 and not rows["tokens"].null_count():
        tokens = floats(rows["tokens"])
        if np.all(np.diff(tokens) > 0):
            return tokens
    if batch is None or records.numbered:
        return "it tells neither its tokens, nor its steps and their batch"
    return records.done * batch


def flops_per_token(subject: RunData) -> float | None:
    """Returns what the log says of a token; else six for each parameter, which leaves attention out."""
    each, parameters = amount(subject.facts.flops_per_token), amount(subject.facts.parameters)
    return estimated_flops(parameters) if each is None and parameters is not None else each


def _flops(subject: RunData, tokens: Cost) -> Cost:
    each = flops_per_token(subject)
    if each is None:
        return "it says neither FLOPs per token nor parameters"
    return tokens if isinstance(tokens, str) else tokens * each


def _cost(subject: RunData, time: Cost, energy: Cost, prices: Prices) -> Cost:
    if not prices.known:
        return "no price was given: --price 4 for a GPU hour, --kwh 0.3 for a kWh"
    total: Numbers = np.zeros(1)
    if prices.hour is not None:
        gpus = amount(subject.facts.gpus)
        if isinstance(time, str) or gpus is None:
            return time if isinstance(time, str) else "it does not say how many GPUs it had"
        total = total + time / 3600 * gpus * prices.hour
    if prices.kwh is not None:
        if isinstance(energy, str):
            return energy
        total = total + energy / JOULES_PER_KWH * prices.kwh
    return total


def start_ns(log: Log, records: Records, clock: str | None) -> int | None:
    """Returns the moment from which `elapsed_seconds` counts; None unless it counts by timestamps."""
    if clock != "stamps":
        return None
    return int(records.rows["time"].dt.epoch("ns").min() - 1e9 * _of_first(log, records))  # type: ignore[operator]


def _counted_on(clock: Numbers) -> Numbers:
    """Continues a clock that a restart set back."""
    finite = np.isfinite(clock)
    grown = np.diff(clock[finite], prepend=0.0)
    total = np.full(len(clock), np.nan)
    total[finite] = np.cumsum(np.where(grown < 0, clock[finite], grown))
    return total


def _of_first(log: Log, records: Records) -> float:
    """Returns the seconds of the first record, which has no timestamp before it."""
    rows = records.rows
    first = _without_compilation(log, rows)["dt_ms"][0] if "dt_ms" in rows.columns else None
    return 0.0 if first is None else float(first) / 1000 * float(gaps(records, log.events)[0])


def _without_compilation(log: Log, rows: pl.DataFrame) -> pl.DataFrame:
    """Gives the first record the usual step time where its own is far longer: the rest was the start."""
    usual = usual_dt(rows.with_columns(dt_ms=_finite_dt()), log)
    settled = pl.when(pl.col("dt_ms") > LONG * pl.lit(usual)).then(pl.lit(usual)).otherwise("dt_ms")
    is_first = pl.int_range(pl.len()) == 0
    return rows.with_columns(dt_ms=pl.when(is_first).then(settled).otherwise("dt_ms"))


def _finite_dt() -> pl.Expr:
    """Returns the printed step times, the median in place of those that are unknown."""
    finite = pl.when(pl.col("dt_ms").is_finite()).then("dt_ms")
    return finite.fill_null(finite.median())


def _joules(frame: pl.DataFrame) -> pl.Series:
    return frame.select(JOULES).to_series()
