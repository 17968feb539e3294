"""What a run's telemetry says of it: the joules that were used when each record was printed, power, memory.

Joules count from the first step's beginning; evaluations, checkpoints and gaps after it are in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import align
from gputel.analysis.align import readings, steps
from gputel.analysis.align.join import JOULES

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject

Numbers: TypeAlias = npt.NDArray[np.float64]
NOTHING = "no GPU was measured beside it"
TIMELESS = "its records could not be placed in time"
FEW = 600_000  # ticks of GPUs, which are read as they are: of longer runs whole seconds say the same
COVERED = 0.9  # of the time, for the energy to be the run's


@dataclass(frozen=True)
class Measured:
    """`spans` of one phase, with what they cost; `why` there are no joules, where there are none."""

    spans: pl.DataFrame | None
    why: str | None = None

    def by_record(self, rows: pl.DataFrame) -> Numbers | str:
        """Joules so far, for each of the records in `rows`; NaN where a record could not be placed."""
        if self.spans is None or self.why:
            return self.why or NOTHING
        told = self.spans.filter((pl.col("kind") == "train") & (pl.col("steps") > 0))
        ends = told.group_by("attempt", "step").agg(pl.col("end").max())
        placed = rows.select("attempt", "step").join(
            ends, on=["attempt", "step"], how="left", maintain_order="left"
        )
        at = placed["end"].dt.epoch("ns").fill_null(-1).to_numpy()
        before = np.searchsorted(self.spans["end"].dt.epoch("ns").to_numpy(), at, side="right")
        sums = np.insert(np.cumsum(_joules(self.spans).fill_null(0.0).to_numpy()), 0, 0.0)
        return np.where(at < 0, np.nan, sums[before]) if (at >= 0).any() else TIMELESS

    def figures(self, tokens_per_step: float | None) -> dict[str, float | None]:
        """While it trained: watts of all GPUs, memory, and joules a token of the steps that were measured."""
        if self.spans is None:
            return {}
        train = self.spans.filter(pl.col("kind") == "train")
        if train.is_empty():
            return {}
        row: dict[str, Any] = align.totals(train).row(0, named=True)
        each = steps.of_spans(train)
        told = each.filter((pl.col("measured") >= steps.WHOLE) & _joules(each).is_not_null())
        tokens = (tokens_per_step or 0) * float(told["steps"].sum())
        joules = float((_joules(told) * told["steps"]).sum())
        return {
            "j_per_token": joules / tokens if tokens and not self.why else None,
            **{name: row[name] for name in ("power_mean_w", "power_peak_w", "mem_peak_mib")},
        }


def of(subject: Subject, phase: str) -> Measured:
    gpu = readings.of(subject, FEW)
    if gpu is None:
        return Measured(None, NOTHING)
    held = align.spans(subject)
    first = held.filter((pl.col("phase") == phase) & (pl.col("kind") == "train"))["start"].min()
    if first is None:
        return Measured(None, TIMELESS)
    last = held.filter(pl.col("phase") == phase)["end"].max()
    spans = align.measured(held, gpu).filter(pl.col("start") >= first, pl.col("end") <= last).sort("end")
    covered = spans.select((pl.col("measured").fill_null(0) * pl.col("duration_s")).sum()).item()
    whole = float(spans["duration_s"].sum())
    if covered < COVERED * whole:
        percent = f"{100 * covered / whole:.0f} %"
        return Measured(spans, f"its GPUs were measured for only {percent} of the time")
    return Measured(spans)


def _joules(frame: pl.DataFrame) -> pl.Series:
    return frame.select(JOULES).to_series()
