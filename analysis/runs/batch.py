"""Tokens of a step, by every figure that a log prints of it, checked against each other.

The figures are the batch itself, the growth of a token count, micro-batch x sequence x ranks, and throughput x step
time. Scripts often divide a throughput by milliseconds, or print it per GPU: then it is off by a power of ten or of
two, which shows against the batch. `rate_scale` is the factor that makes the printed throughput fit. A batch that
is computed from rounded figures has their error, unless a single round batch lies within it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from gputel.analysis.doubts import Doubt
from gputel.analysis.logs.names import PER_GPU
from gputel.analysis.runs.batch_changes import EXACT, WHOLE, MeanBatch, changing_batch
from gputel.analysis.runs.record_gaps import DITHERED, half_digit, median_with_error, printed_median

if TYPE_CHECKING:
    from gputel.analysis.logs.patterns import Field

AGREE = 0.05  # relative difference between figures that agree: a printed rate may be a running mean
FAR = 2.0  # factor from which a difference that is no unit is a doubt
NEARLY = 2e-3  # relative error up to which the one round batch within it is the batch
MOST_ODD = 31  # a batch is this, or a smaller odd number, times a power of two
FEWEST_ROWS = 3
MANY = 2  # GPUs, from which on a rate may be of one of them


class PrintedFigures(Protocol):
    """The part of a Log that tells facts; a followed log has it before it is complete."""

    @property
    def config(self) -> dict[str, float | str]: ...

    @property
    def digits(self) -> dict[str, float]: ...

    @property
    def sources(self) -> Mapping[str, Field]: ...

    @property
    def records(self) -> pl.DataFrame: ...


@dataclass(frozen=True)
class StepTokens:
    """`tokens` is None if no figure gives it; `origin` says which did, `error` how far it may be off."""

    tokens: float | None
    origin: str
    error: float | None = None
    rate_scale: float = 1.0
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class BatchFigures:
    """Tokens of a step by each figure of a log, None where it has none."""

    config: dict[str, float | str]
    printed: float | None
    counted: float | None
    """The growth of the printed token count per step, within `counted_error`."""
    by_rate: float | None
    """Throughput x step time; `rounding` is its relative error where nothing else tells the batch."""
    rounding: float
    counted_error: float = 0.0
    rate: float | None = None
    """The median throughput, where no step time is printed."""
    per_gpu: bool = False
    """Whether the format of the log says that its throughput is one GPU's."""
    changing: MeanBatch | None = None
    """The mean over all steps, if the batch changes during the run."""


def batch_figures(log: PrintedFigures) -> BatchFigures:
    """Reads what a log says of the tokens of a step."""
    printed = _number(log.config.get("batch_tokens"))
    counted, counted_error = _counted(log)
    rounding = _rounding(log) if printed is None and counted is None else 0.0
    changing = changing_batch(log.records, printed)
    rate = None if "dt_ms" in log.records.columns else printed_median(log.records, "tok_per_sec", above=0.0)
    per_gpu = "tok_per_sec" in log.sources and log.sources["tok_per_sec"].unit == PER_GPU
    return BatchFigures(
        log.config, printed, counted, _by_rate(log), rounding, counted_error, rate, per_gpu, changing
    )


def step_tokens(
    figures: BatchFigures, gpus: int | None = None, step_s: Callable[[], float | None] = lambda: None
) -> StepTokens:
    """Returns the tokens of a step, and what the figures disagree on.

    `step_s` returns the seconds of a step by timestamps, which tell a rate per GPU where no step time is printed.
    """
    if figures.changing is not None:
        return StepTokens(*figures.changing)
    printed, counted, by_rate = figures.printed, figures.counted, figures.by_rate
    if printed is not None and counted is not None and not _agree(printed, counted):
        return StepTokens(
            counted, COUNTED, None, 1.0, (_other("batch", printed, "the token count grows by", counted),)
        )
    batch, origin = (printed, "printed") if printed is not None else (counted, COUNTED)
    error = figures.counted_error if printed is None else 0.0
    if batch is None and by_rate is None and figures.per_gpu:
        return StepTokens(None, "", None, *_of_gpus(figures, None, gpus, step_s))
    if batch is None:
        return _from_rate(by_rate, figures.rounding)
    doubts = [*_micro_batches(figures.config, batch, gpus)]
    scale = 1.0
    if by_rate is not None and not _agree(batch, by_rate):
        ratio = batch / by_rate
        factor = unit_factor(ratio)
        if factor is not None:
            scale = ratio
            doubts.append(_unit(batch, by_rate, factor, gpus))
        elif not 1 / FAR < ratio < FAR:
            doubts.append(_other("batch", batch, "tok/s x dt is", by_rate))
    elif by_rate is None:
        scale, more = _of_gpus(figures, batch, gpus, step_s)
        doubts += more
    return StepTokens(batch, origin, error or None, scale, tuple(doubts))


def _of_gpus(
    figures: BatchFigures, batch: float | None, gpus: int | None, step_s: Callable[[], float | None]
) -> tuple[float, tuple[Doubt, ...]]:
    """Returns the factor from the printed throughput to that of all GPUs: by timestamps, else by the format."""
    if figures.rate is None or gpus is None or gpus < MANY:
        return 1.0, ()
    seconds = step_s()
    if batch is None or not seconds:
        return float(gpus) if figures.per_gpu else 1.0, ()
    ratio = batch / (figures.rate * seconds)
    return (float(gpus), (_unit(batch, batch / ratio, gpus, gpus),)) if _agree(ratio, gpus) else (1.0, ())


COUNTED = "computed from printed tokens and steps"
COMPUTED = "computed as throughput x step time"


def unit_factor(ratio: float) -> float | None:
    """Returns the power of ten or of two, other than one, that a ratio is; None if it is neither."""
    for base in (10.0, 2.0):
        power = round(math.log(ratio, base))
        if power and abs(ratio / base**power - 1) < AGREE:
            return base**power
    return None


def _from_rate(by_rate: float | None, rounding: float) -> StepTokens:
    """Takes throughput x step time; a fraction that becomes a whole batch in thousands was printed in thousands.

    `rounding` is the relative error of the product.
    """
    if by_rate is None:
        return StepTokens(None, "")
    thousands = _as_batch(1000 * by_rate)
    if thousands is not None and abs(round(by_rate) / by_rate - 1) > EXACT:
        doubt = _unit(thousands, by_rate, 1000.0, None)
        return StepTokens(thousands, f"{COMPUTED}, in thousands", None, 1000.0, (doubt,))
    batch = _as_batch(by_rate, rounding) if rounding <= NEARLY else None
    if batch is not None:
        return StepTokens(batch, COMPUTED)
    return StepTokens(round(by_rate), COMPUTED, rounding * by_rate)


def _as_batch(tokens: float, error: float = EXACT) -> int | None:
    """Returns the nearest small odd number times a power of two, if that is near enough for rounded digits."""
    if tokens < 1:
        return None
    twos = 2.0 ** (math.floor(math.log2(tokens)) - 5)
    near = round(tokens / twos) * int(max(twos, 1))
    odd = near // (near & -near) if near else 0
    return near if odd and odd <= MOST_ODD and abs(near / tokens - 1) <= error else None


def _rounding(log: PrintedFigures) -> float:
    """Returns the relative error of throughput x step time that their rounding leaves."""
    records = log.records
    if not {"tok_per_sec", "dt_ms"} <= set(records.columns):
        return 0.0
    rows = records.select("tok_per_sec", "dt_ms").drop_nulls()
    rows = rows.filter(rows["dt_ms"].is_finite() & rows["tok_per_sec"].is_finite() & (rows["dt_ms"] > 0))
    if rows.is_empty():
        return 0.0
    halves = [
        half_digit(rows[name], log.digits.get(name, 0.0)) / max(_median(rows[name]), 1e-12)
        for name in ("dt_ms", "tok_per_sec")
    ]
    if rows["dt_ms"].n_unique() < DITHERED:
        return sum(halves)
    products = (rows["tok_per_sec"] * rows["dt_ms"]).to_numpy()
    middle, error = median_with_error(products)
    return min(sum(halves), error / middle + sum(halves) / 10) if middle else sum(halves)


def _median(values: pl.Series) -> float:
    middle: Any = values.median()
    return float(middle)


def _micro_batches(config: dict[str, float | str], batch: float, gpus: int | None) -> list[Doubt]:
    """Checks that a step is a whole number of micro-batches on every rank."""
    device, seq = _number(config.get("device_batch")), _number(config.get("seq"))
    ranks = _number(config.get("world_size")) or gpus
    if device is None or seq is None or ranks is None:
        return []
    at_once = device * seq * ranks
    if batch % at_once == 0:
        return []
    return [
        Doubt(
            "run",
            "batch",
            f"a step is {batch:,.0f} tokens, and micro-batches of {device:,.0f} x {seq:,.0f} tokens on "
            f"{ranks:,.0f} ranks are {at_once:,.0f}",
            "one of batch, micro-batch, sequence and ranks is not this run's",
            {"tokens_per_step": batch, "tokens_at_once": at_once},
        )
    ]


def _by_rate(log: PrintedFigures) -> float | None:
    """Returns the median of throughput x step time, of records with both; None of too few."""
    records = log.records
    if not {"tok_per_sec", "dt_ms"} <= set(records.columns):
        return None
    product = (records["tok_per_sec"] * records["dt_ms"] / 1000).drop_nulls()
    product = product.filter(product.is_finite() & (product > 0))
    median: Any = product.median() if len(product) else None
    return None if median is None else float(median)


def _counted(log: PrintedFigures) -> tuple[float | None, float]:
    """Returns the median growth of the printed token count, and its error.

    Of a count that is rounded, such as `31.5M`, it is the growth over all records, or the one round batch near it.
    """
    records = log.records
    if not {"tokens", "step"} <= set(records.columns):
        return None, 0.0
    grown, steps = pl.col("tokens").diff(), pl.col("step").diff().cast(pl.Float64)
    rows = records.select(grown=grown, steps=steps, each=grown / steps)
    rows = rows.filter(rows["each"].is_finite() & (rows["each"] > 0))
    half = half_digit(records["tokens"].drop_nulls().cast(pl.Float64)) if rows.height else 0.0
    if half <= WHOLE or rows.height < FEWEST_ROWS:
        return (None, 0.0) if rows.is_empty() else (round(_median(rows["each"])), 0.0)
    covered = float(rows["steps"].sum())
    each, error = float(rows["grown"].sum()) / covered, 2 * half / covered
    exact = _as_batch(each, error / each)
    return (round(each), error) if exact is None else (exact, 0.0)


def _unit(batch: float, by_rate: float, factor: float, gpus: int | None) -> Doubt:
    if factor in (1000.0, 1e6):
        unit = "thousands" if factor == 1000.0 else "millions"
        likely = f"it is printed in {unit}, or was divided by milliseconds"
    elif factor == gpus:
        likely = "it is printed per GPU"
    elif math.log2(factor).is_integer():
        likely = "it counts one micro-batch or one GPU, or dt is that of several"
    else:
        likely = "its unit is another"
    share = f"1/{factor:,.0f}" if factor > 1 else f"{1 / factor:,.0f} times"
    return Doubt(
        "run",
        "tok-per-sec",
        f"tok/s as printed is {share} of tokens / dt: {by_rate:,.4g} tokens a step, not {batch:,.0f}",
        likely,
        {"tokens_per_step": batch, "tok_per_sec_x_dt": by_rate, "factor": factor},
    )


def _other(what: str, batch: float, words: str, other: float) -> Doubt:
    return Doubt(
        "run",
        what,
        f"the log prints {batch:,.0f} tokens a step, and {words} {other:,.0f}",
        "batch or throughput count something else, such as sequences, or the tokens of one rank",
        {"tokens_per_step": batch, "other": other},
    )


def _agree(one: float, other: float) -> bool:
    return abs(one / other - 1) < AGREE if other else False


def _number(value: float | str | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value > 0 else None
