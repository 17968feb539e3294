"""Runs go in, what they share and where they differ comes out: one `Comparison`, with a frame for every table.

What cannot be compared is not: a sentence in `notes` says which run was left out of what, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from gputel.analysis import scaling, subjects
from gputel.analysis.comparing import (
    choices,
    clocks,
    curves,
    groups,
    milestones,
    selecting,
    settings,
    summary,
    wording,
)
from gputel.analysis.comparing.axes import AXES, Prices
from gputel.analysis.comparing.curves import Curve
from gputel.analysis.comparing.tracks import Track
from gputel.analysis.facts import PRINTED, RECORDED
from gputel.analysis.parse.log import Log
from gputel.analysis.runs import Recording
from gputel.analysis.subjects import Subject
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.scaling import Scaling

Comparable: TypeAlias = "str | Path | Subject | Recording | Log"
GRID = 1000


@dataclass(frozen=True)
class Comparison:
    """`by` is the axis and `metric` what is compared on it, in `phase`; `window` smooths, in steps, where given.

    `milestones`: `x, run, value, difference, interpolated`. `summary`: a row a run. `validations`, `equal`,
    `targets` and `settings`: a row a run and name, axis, target or setting. `scaling`: the law across sizes, or
    why there is none. With groups the runs are groups, and `deviation` and `runs` stand beside each mean.
    """

    by: str
    metric: str
    phase: str
    phases: list[str]  # all that could have been chosen
    window: float | None
    lines: list[Curve]
    groups: dict[str, str] | None
    milestones: pl.DataFrame
    summary: pl.DataFrame
    validations: pl.DataFrame
    equal: pl.DataFrame
    targets: pl.DataFrame
    settings: pl.DataFrame
    scaling: Scaling
    notes: list[str]
    cautions: dict[str, str]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from gputel.analysis.comparing import notebook

        return notebook.html(self)

    @property
    def runs(self) -> list[str]:
        """What is compared, in the order given: runs, or groups of them."""
        return self.summary["run"].to_list()

    @property
    def axes(self) -> list[str]:
        """Those that every run has."""
        return [name for name in AXES if name == "step" or all(name in c.track.costs for c in self.lines)]

    @cached_property
    def curves(self) -> pl.DataFrame:
        """Every point that was printed: `run`, its place on each axis, `y`, `smoothed` over `smoothing` steps."""
        parts = []
        for curve in self.lines:
            places = {
                axis.column: curve.x(axis.name) if axis.name in ("step", *curve.track.costs) else None
                for axis in AXES.values()
            }
            part = pl.DataFrame(
                {
                    **{name: pl.Series(name, x, pl.Float64) for name, x in places.items() if x is not None},
                    "y": curve.y,
                    "smoothed": curve.smoothed(self.smoothing),
                }
            )
            parts.append(part.select(pl.lit(curve.track.name).alias("run"), pl.all()))
        whole = pl.concat(parts, how="diagonal").with_columns(pl.selectors.float().fill_nan(None))
        columns = ["run", *(axis.column for axis in AXES.values() if axis.column in whole.columns)]
        return whole.select(*columns, "y", "smoothed")

    @property
    def smoothing(self) -> float:
        """The window in steps of `curves` and `common`: as asked, else a hundredth of the longest run."""
        return self.window or max(1.0, max(round(np.ptp(c.step) / 100) for c in self.lines if len(c.step)))

    @cached_property
    def frontier(self) -> pl.DataFrame:
        """The best that any run had reached with so much compute: `flops`, `value`, `run`."""
        return scaling.frontier(self.lines, self.smoothing)

    @cached_property
    def common(self) -> pl.DataFrame:
        """On one axis: `x`, `run`, `value` (smoothed, interpolated), `difference`; of groups also `deviation`."""
        xs = [curve.x(self.by) for curve in self.lines]
        start = max(np.nanmin(x) for x in xs)
        at = np.linspace(start, max(start, milestones.common_end(xs)), GRID)
        values = [
            curves.interpolated(x, curve.smoothed(self.smoothing), at)
            for x, curve in zip(xs, self.lines, strict=True)
        ]
        frame = pl.concat(
            pl.DataFrame(
                {"x": at, "run": [curve.track.name] * GRID, "value": own, "difference": own - values[0]}
            )
            for curve, own in zip(self.lines, values, strict=True)
        )
        return _grouped(frame.fill_nan(None), self.groups, ["x"])


def compare(
    runs: Sequence[Comparable],
    *,
    by: str = "step",
    metric: str | None = None,
    phase: str | None = None,
    price: float | None = None,
    kwh: float | None = None,
    smooth: float | None = None,
    target: Mapping[str, float] | None = None,
    group: str | None = None,
) -> Comparison:
    """`price`: dollars for a GPU hour; `kwh`: for a kWh; `smooth`: a window in steps; `group`: what seeds share.

    Two runs with nothing in common are a GputelError.
    """
    if by not in AXES:
        raise GputelError(f"by={by!r}", "is no axis", f"one of {', '.join(AXES)}", exit_code=2)
    prices = Prices(price, kwh)
    if by == "cost" and not prices.known:
        raise GputelError(
            "--by cost", "no price was given", "add --price 4 for a GPU hour, or --kwh 0.3", exit_code=2
        )
    chosen = selecting.select([subject_of(run) for run in runs], by, metric, phase, prices)
    lines = chosen.curves
    tracks = [curve.track for curve in lines]
    told = summary.of(tracks)
    wanted = target or {}
    if chosen.tokenisers:
        wanted = {name: value for name, value in wanted.items() if not choices.depends_on_tokeniser(name)}
    stated = {track.name: settings.of(track.subject) for track in tracks}
    members = groups.by(group, stated) if group else None
    return Comparison(
        by=by,
        metric=chosen.metric,
        phase=chosen.phase,
        phases=chosen.phases,
        window=smooth,
        lines=lines,
        groups=members,
        milestones=_grouped(milestones.of(lines, by), members, ["x"]),
        summary=_averaged(told, members),
        validations=_averaged(summary.validations(tracks, chosen.metric), members, ["name"]),
        equal=_grouped(summary.equal(lines, smooth), members, ["axis", "x"]),
        targets=_averaged(summary.targets(tracks, wanted, smooth), members, ["metric", "target"]),
        settings=settings.differing(groups.stated(stated, members) if members else stated),
        scaling=scaling.of(lines, told, prices),
        notes=chosen.notes + _about(tracks, members, prices),
        cautions={track.name: said for track in tracks if (said := track.subject.caution)},
    )


def subject_of(run: Comparable) -> Subject:
    if isinstance(run, Subject):
        return run
    if isinstance(run, Recording):
        return Subject(run.log, run)
    return Subject(run) if isinstance(run, Log) else subjects.of(Path(run))


def _about(tracks: Sequence[Track], members: Mapping[str, str] | None, prices: Prices) -> list[str]:
    """What a reader must know to trust the figures."""
    notes = [*_of_time(tracks)]
    numbered = [track.name for track in tracks if track.numbered]
    if numbered:
        notes.append(f"{wording.names(numbered)}: no steps are printed, so records are counted")
    rough = [t.name for t in tracks if "flops" in t.costs and not t.subject.facts.flops_per_token]
    if rough:
        notes.append(f"FLOPs of {wording.names(rough)}: 6 x parameters x tokens, attention left out")
    counted = {track.name: track.subject.facts.gpus for track in tracks if prices.hour is not None}
    for origin in dict.fromkeys(fact.origin for fact in counted.values() if fact):
        if origin not in (PRINTED, RECORDED):
            runs = (name for name, fact in counted.items() if fact and fact.origin == origin)
            notes.append(f"GPUs of {wording.names(runs)}: {origin}")
    if members:
        notes.append("a group's value is the mean of its runs, ± one standard deviation (n - 1)")
    return notes


def _of_time(tracks: Sequence[Track]) -> Iterator[str]:
    told = {track.name: track.clock for track in tracks if track.clock}
    for clock in dict.fromkeys(told.values()):
        runs = wording.names(name for name, own in told.items() if own == clock)
        of = f" of {runs}" if len(set(told.values())) > 1 else ""
        yield f"time{of} is {clocks.CLOCKS[clock]}"


def _grouped(frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str]) -> pl.DataFrame:
    if members is None:
        return frame
    first = next(iter(members.values()))
    return groups.differences(groups.banded(frame, members, keys, "value"), keys, first)


def _averaged(
    frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str] | None = None
) -> pl.DataFrame:
    return frame if members is None else groups.averaged(frame, members, keys or [])
