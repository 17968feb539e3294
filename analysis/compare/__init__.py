"""Runs go in, what they share and where they differ comes out: one `Comparison`, with a frame for every table.

What cannot be compared is not: a sentence in `notes` says which run was left out of what, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.columns import Direction
from gputel.analysis.compare import curves, groups, scaling, select, settings, summary
from gputel.analysis.compare.axes import AXES, Prices
from gputel.analysis.compare.curves import MetricCurve
from gputel.analysis.compare.scaling import fit_scaling
from gputel.analysis.compare.select import Selection, depends_on_tokeniser
from gputel.analysis.compare.settings import caveats, run_settings
from gputel.analysis.compare.summary import milestone_table, summarize_runs
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import RunData, paths, read_run
from gputel.analysis.runs.recording import Recording
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.compare.scaling import Scaling

Comparable: TypeAlias = "str | Path | RunData | Recording | Log"
GRID = 1000


@dataclass(frozen=True)
class Comparison:
    """`by` is the axis and `metric` what is compared on it, in `phase`; `window` smooths, in steps, where given.
    `better` is which way of the metric is, None where that is not known.

    `milestones`: `x, run, value, difference, interpolated`. `summary`: a row a run. `validations`, `equal`,
    `targets` and `settings`: a row a run and name, axis, target or setting. `scaling`: the law across sizes, or
    why there is none. With groups the runs are groups, and `deviation` and `runs` stand beside each mean.
    """

    by: str
    metric: str
    better: Direction | None
    phase: str
    phases: list[str]  # all that could have been chosen
    window: float | None
    lines: list[MetricCurve]
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
        return scaling.frontier(self.lines, self.smoothing, self.better)

    @cached_property
    def common(self) -> pl.DataFrame:
        """On one axis: `x`, `run`, `value` (smoothed, interpolated), `difference`; of groups also `deviation`."""
        xs = [curve.x(self.by) for curve in self.lines]
        start = max(np.nanmin(x) for x in xs)
        at = np.linspace(start, max(start, summary.common_end(xs)), GRID)
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
    runs: Comparable | Sequence[Comparable],
    *,
    by: str = "step",
    metric: str | None = None,
    phase: str | None = None,
    price: float | None = None,
    kwh: float | None = None,
    smooth: float | None = None,
    target: Mapping[str, float] | None = None,
    group: str | None = None,
    lower: Collection[str] = (),
    higher: Collection[str] = (),
) -> Comparison:
    """`price`: dollars for a GPU hour; `kwh`: for a kWh; `smooth`: a window in steps; `group`: what seeds share.

    `lower` and `higher`: metrics whose names do not say which way is better. A path may be a folder of runs. Two
    runs with nothing in common are a GputelError, and so is a target whose better side is not known.
    """
    asked = columns.directions(lower, higher)
    for name in target or {}:
        columns.better_or_refuse(name, asked)
    prices = _prices(by, price, kwh)
    given = [runs] if isinstance(runs, (str, Path)) or not isinstance(runs, Sequence) else runs
    found = [subject for run in given for subject in _subjects(run)]
    chosen = select.select(found, by, metric, phase, prices)
    return _tabled(chosen, by, prices, smooth, target or {}, group, asked)


def _prices(by: str, price: float | None, kwh: float | None) -> Prices:
    if by not in AXES:
        raise GputelError(f"by={by!r}", "is no axis", f"one of {', '.join(AXES)}", exit_code=2)
    prices = Prices(price, kwh)
    if by == "cost" and not prices.known:
        mend = "add --price 4 for a GPU hour, or --kwh 0.3"
        raise GputelError("--by cost", "no price was given", mend, exit_code=2)
    return prices


def _subjects(run: Comparable) -> Iterator[RunData]:
    if isinstance(run, RunData):
        yield run
    elif isinstance(run, Recording):
        yield RunData(run.log, run)
    elif isinstance(run, Log):
        yield RunData(run)
    else:
        yield from map(read_run, paths.walk(Path(run)))


def _tabled(
    chosen: Selection,
    by: str,
    prices: Prices,
    window: float | None,
    targets: Mapping[str, float],
    group: str | None,
    asked: Mapping[str, Direction],
) -> Comparison:
    """Every table of what was chosen; where seeds are grouped, of groups."""
    lines, tracks = chosen.curves, [curve.track for curve in chosen.curves]
    better = columns.better(chosen.metric, asked)
    if chosen.tokenisers:
        targets = {name: value for name, value in targets.items() if not depends_on_tokeniser(name)}
    told = summarize_runs(tracks)
    evaluated = summary.validations(tracks, chosen.metric, asked)
    stated = {track.name: run_settings(track.subject) for track in tracks}
    members = groups.by(group, stated) if group else None
    return Comparison(
        by=by,
        metric=chosen.metric,
        better=better,
        phase=chosen.phase,
        phases=chosen.phases,
        window=window,
        lines=lines,
        groups=members,
        milestones=_grouped(milestone_table(lines, by), members, ["x"]),
        summary=_averaged(told, members),
        validations=_averaged(evaluated, members, ["name"]),
        equal=_grouped(summary.equal(lines, window), members, ["axis", "x"]),
        targets=_averaged(summary.targets(tracks, targets, window, asked), members, ["metric", "target"]),
        settings=settings.differing(groups.stated(stated, members) if members else stated),
        scaling=fit_scaling(lines, told, prices, better),
        notes=[
            *chosen.notes,
            *caveats(tracks, prices, grouped=members is not None),
            *settings.without_best(evaluated),
        ],
        cautions={track.name: said for track in tracks if (said := track.subject.caution)},
    )


def _grouped(frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str]) -> pl.DataFrame:
    if members is None:
        return frame
    first = next(iter(members.values()))
    return groups.differences(groups.banded(frame, members, keys, "value"), keys, first)


def _averaged(
    frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str] | None = None
) -> pl.DataFrame:
    return frame if members is None else groups.averaged(frame, members, keys or [])
