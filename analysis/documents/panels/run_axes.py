"""A run -> the x axes of its panels beside time: step, epoch, tokens, FLOPs of a record; energy and cost so far.

Energy and cost go on between records, so they belong to moments: a page converts the time of any panel to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.align.join import JOULES, WHOLE
from gputel.analysis.compare.axes import amount, flops_per_token
from gputel.analysis.document import Conversion, Numbers, PlotAxis
from gputel.analysis.logs.summary import counts_from_zero
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report
    from gputel.analysis.runs import RunData

TOKENS, FLOPS = PlotAxis("tokens", "tokens"), PlotAxis("flops", "FLOPs")
ENERGY, COST = PlotAxis("energy", "energy", "J"), PlotAxis("cost", "cost", "$")
STEP, EPOCH = PlotAxis("step", "step"), PlotAxis("epoch", "epoch")
MOST_PLACES = 4000  # of a conversion: finer than any screen
HOUR_S = 3600


@dataclass(frozen=True)
class Epochs:
    """Where each printed epoch began; both ascend."""

    step: Numbers
    epoch: Numbers

    def at(self, step: Numbers) -> Numbers:
        return np.interp(step, self.step, self.epoch)


def epochs(rows: pl.DataFrame) -> Epochs | None:
    """Counts on through each epoch; the last one is as long as the one before. None unless two were printed."""
    if "epoch" not in rows.columns:
        return None
    known = rows.filter(pl.col("step").is_not_null() & pl.col("epoch").is_finite()).sort("step")
    step, epoch = (known[name].cast(float).to_numpy() for name in ("step", "epoch"))
    begins = np.flatnonzero(np.diff(epoch, prepend=-np.inf))
    if len(begins) < 2 or (np.diff(epoch) < 0).any() or (np.diff(step[begins]) <= 0).any():
        return None
    before, last = begins[-2:]
    length, rise = step[last] - step[before], epoch[last] - epoch[before]
    ahead = epoch[last] + rise * min((step[-1] - step[last]) / length, 1.0)
    return Epochs(np.append(step[begins], step[-1]), np.append(epoch[begins], ahead))


@dataclass(frozen=True)
class StepAxes:
    """Axes that follow from the number of a step; None is unknown."""

    from_zero: bool = False
    tokens_per_step: float | None = None
    flops_per_token: float | None = None
    epochs: Epochs | None = None

    def places(self, step: Numbers, *, evaluated: bool) -> dict[str, Numbers]:
        """The places by axis; nothing where the steps go back, as in a run that began again, or are unknown."""
        if not (np.isfinite(step).all() and (np.diff(step) >= 0).all()):
            return {}
        places = {STEP.name: step}
        if self.epochs is not None:
            places[EPOCH.name] = self.epochs.at(step)
        if self.tokens_per_step is not None:
            done = step + (self.from_zero and not evaluated)
            places[TOKENS.name] = done * self.tokens_per_step
            if self.flops_per_token is not None:
                places[FLOPS.name] = places[TOKENS.name] * self.flops_per_token
        return places


def step_axes(subject: RunData, records: pl.DataFrame) -> StepAxes:
    numbered = records.filter(pl.col("step").is_not_null())
    if numbered.is_empty():
        return StepAxes()
    tokens_per_step = amount(subject.facts.tokens_per_step)
    return StepAxes(
        counts_from_zero(numbered, subject.log.events),
        tokens_per_step,
        flops_per_token(subject),
        epochs(numbered),
    )


def conversions(report: Report, time: PlotAxis, link: str, price: float | None) -> Iterator[Conversion]:
    """Energy where the GPUs were measured nearly all of the time, cost where a price was given."""
    if report.spans.is_empty() or time.start_ns is None:
        return
    spans = report.spans.sort("end", maintain_order=True)
    first = (int(spans["start"].dt.epoch("ns").min()) - time.start_ns) / SECOND  # type: ignore[arg-type]
    ends = (spans["end"].dt.epoch("ns").to_numpy() - time.start_ns) / SECOND
    if _covered(spans):
        joules = spans.select(JOULES.fill_null(0.0).alias("joules"))["joules"].to_numpy()
        seconds, values = np.insert(ends, 0, first), np.insert(np.cumsum(joules), 0, 0.0)
        chosen = np.unique(np.linspace(0, len(values) - 1, MOST_PLACES).astype(np.int64))
        yield Conversion(link, ENERGY, np.round(seconds[chosen], 3), np.round(values[chosen], 1))
    gpus = amount(report.subject.facts.gpus)
    if price is not None and gpus is not None:
        began, last = min(_recorded_from(report, time.start_ns, first), ends[-1]), ends[-1]
        dollars = (last - began) / HOUR_S * gpus * price
        yield Conversion(link, COST, np.array([began, last]), np.array([0.0, dollars]))


def _covered(spans: pl.DataFrame) -> bool:
    """Whether nearly all of the time has readings of power."""
    if spans.select(JOULES.is_not_null().any()).item() is not True:
        return False
    measured = spans.select((pl.col("measured").fill_null(0.0) * pl.col("duration_s")).sum()).item()
    return bool(measured >= WHOLE * float(spans["duration_s"].sum()))


def _recorded_from(report: Report, start_ns: int, first: float) -> float:
    """When the recording began; without one, its first span."""
    recording = report.subject.recording
    descriptions = recording.descriptions if recording else []
    wall_ns = run_folder.wall_ns(descriptions[0], "started") if descriptions else None
    return first if wall_ns is None else (wall_ns - start_ns) / SECOND
