"""Several runs -> Comparison: one metric along one axis, with a frame for every table and curve.

A run that lacks something is left out of that table only, and a sentence in `notes` says why.

select          which runs, phase and metric can be compared; names that distinguish the runs
axes            steps, tokens, time, FLOPs, energy and cost of each record
curves          one metric of one run along an axis
summary         a row per run; milestones, validations, values at equal cost, targets
uncertainty     the errors of that row
settings        settings that differ; caveats
source_changes  which files of the recorded source differ, and where
groups          runs that share a setting -> mean and deviation
scaling         the scaling law across sizes, and the next size
power_law       the fit of that law
gate            whether a run is worse than its baseline by more than noise
answer          the JSON of `gputel compare`
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
from gputel.analysis.compare import curves, groups, scaling, select, settings, source_changes, summary
from gputel.analysis.compare.axes import AXES, Prices
from gputel.analysis.compare.curves import MetricCurve
from gputel.analysis.compare.scaling import fit_scaling
from gputel.analysis.compare.select import Selection, depends_on_tokenizer
from gputel.analysis.compare.settings import caveats, run_settings
from gputel.analysis.compare.summary import milestone_table, summarize_runs
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import RunData, as_run, paths, read_run
from gputel.analysis.runs.log_doubts import log_doubts
from gputel.analysis.runs.recording import Recording
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.compare.scaling import Scaling
    from gputel.analysis.doubts import Doubt

Comparable: TypeAlias = "str | Path | RunData | Recording | Log"
GRID = 1000


@dataclass(frozen=True)
class Comparison:
    """Runs compared by `metric` along the axis `by`, in `phase`; `window` is the smoothing in steps, if any.

    `better` is the better direction of the metric, None if unknown. `milestones`: `x, run, value, difference,
    interpolated`. `summary`: a row per run. `validations`, `equal`, `targets`, `settings`: a row per run and name,
    axis, target or setting. `scaling`: the law across sizes, or why there is none. With groups, `run` is a group,
    and tables also have `deviation` and `runs`.
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
    doubts: dict[str, tuple[Doubt, ...]]  # of the runs that have any

    @property
    def runs(self) -> list[str]:
        """The compared runs, or groups of runs, in the order given."""
        return self.summary["run"].to_list()

    @property
    def axes(self) -> list[str]:
        """The axes that every run has."""
        return curves.shared_axes(self.lines)

    @cached_property
    def code_changes(self) -> list[str]:
        """The lines in which the recorded source of two runs differs; empty for more runs."""
        return source_changes.pieces({curve.track.name: curve.track.subject for curve in self.lines})

    @cached_property
    def curves(self) -> pl.DataFrame:
        """Every printed point: `run`, its place on each axis, `y`, and `smoothed` over `smoothing` steps."""
        parts = []
        for curve in self.lines:
            places = {
                AXES[name].column: pl.Series(curve.x(name), dtype=pl.Float64)
                for name in curves.shared_axes([curve])
            }
            frame = pl.DataFrame(
                {
                    **places,
                    "y": curve.y,
                    "smoothed": curve.smoothed(self.smoothing),
                }
            )
            parts.append(frame.select(pl.lit(curve.track.name).alias("run"), pl.all()))
        whole = pl.concat(parts, how="diagonal").with_columns(pl.selectors.float().fill_nan(None))
        columns = ["run", *(axis.column for axis in AXES.values() if axis.column in whole.columns)]
        return whole.select(*columns, "y", "smoothed")

    @property
    def smoothing(self) -> float:
        """The smoothing of `curves` and `common` in steps: as asked, else 1 % of the longest run."""
        return self.window or max(1.0, max(round(np.ptp(c.step) / 100) for c in self.lines if len(c.step)))

    @cached_property
    def frontier(self) -> pl.DataFrame:
        """The best value that any run reached with a given compute: `flops`, `value`, `run`."""
        return scaling.frontier(self.lines, self.smoothing, self.better)

    @cached_property
    def common(self) -> pl.DataFrame:
        """Smoothed curves on a common grid: `x`, `run`, `value`, `difference`; with groups also `deviation`."""
        xs = [curve.x(self.by) for curve in self.lines]
        start = max(np.nanmin(x) for x in xs)
        grid = np.linspace(start, max(start, summary.common_end(xs)), GRID)
        values = [
            curves.interpolated(x, curve.smoothed(self.smoothing), grid)
            for x, curve in zip(xs, self.lines, strict=True)
        ]
        frame = pl.concat(
            pl.DataFrame(
                {"x": grid, "run": [curve.track.name] * GRID, "value": y, "difference": y - values[0]}
            )
            for curve, y in zip(self.lines, values, strict=True)
        )
        if self.by not in curves.comparable_axes(self.lines):
            frame = frame.clear()
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
    """Compares runs by what `gputel.compare` is asked; a path may be a folder of runs.

    Raises GputelError if fewer than two runs have something in common, or if the better direction of a target is
    unknown.
    """
    asked = columns.directions(lower, higher)
    for name in target or {}:
        columns.better_or_refuse(name, asked)
    prices = _prices(by, price, kwh)
    given = [runs] if isinstance(runs, (str, Path)) or not isinstance(runs, Sequence) else runs
    subjects = [subject for run in given for subject in _subjects(run)]
    chosen = select.select(subjects, by, metric, phase, prices)
    return _tabled(chosen, by, prices, smooth, target or {}, group, asked)


def _prices(by: str, price: float | None, kwh: float | None) -> Prices:
    if by not in AXES:
        raise GputelError(f"by={by!r}", "is not an axis", f"one of {', '.join(AXES)}", exit_code=2)
    prices = Prices(price, kwh)
    if by == "cost" and not prices.known:
        hint = "add --price 4 for a GPU hour, or --kwh 0.3"
        raise GputelError("--by cost", "no price was given", hint, exit_code=2)
    return prices


def _subjects(run: Comparable) -> Iterator[RunData]:
    if isinstance(run, (str, Path)):
        yield from map(read_run, paths.walk(Path(run)))
    else:
        yield as_run(run)


def _tabled(
    chosen: Selection,
    by: str,
    prices: Prices,
    window: float | None,
    targets: Mapping[str, float],
    group: str | None,
    asked: Mapping[str, Direction],
) -> Comparison:
    """Builds every table of the selection, of groups if seeds are grouped."""
    lines, tracks = chosen.curves, [curve.track for curve in chosen.curves]
    better = columns.better(chosen.metric, asked)
    if chosen.tokenizers:
        targets = {name: value for name, value in targets.items() if not depends_on_tokenizer(name)}
    rows = summarize_runs(tracks)
    evaluated = summary.validations(tracks, chosen.metric, asked)
    code = source_changes.differing({track.name: track.subject for track in tracks})
    stated = {track.name: run_settings(track.subject) | code.get(track.name, {}) for track in tracks}
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
        summary=_averaged(rows, members),
        validations=_averaged(evaluated, members, ["name"]),
        equal=_grouped(summary.equal(lines, window), members, ["axis", "x"]),
        targets=_averaged(summary.targets(tracks, targets, window, asked), members, ["metric", "target"]),
        settings=settings.differing(groups.stated(stated, members) if members else stated),
        scaling=fit_scaling(lines, rows, prices, better),
        notes=[
            *chosen.notes,
            *caveats(tracks, prices, grouped=members is not None),
            *settings.without_best(evaluated),
        ],
        cautions={track.name: caution for track in tracks if (caution := track.subject.caution)},
        doubts={track.name: doubts for track in tracks if (doubts := log_doubts(track.subject))},
    )


def _grouped(frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str]) -> pl.DataFrame:
    if members is None:
        return frame
    first = next(iter(members.values()))
    return groups.differences(groups.banded(frame, members, keys), keys, first)


def _averaged(
    frame: pl.DataFrame, members: dict[str, str] | None, keys: list[str] | None = None
) -> pl.DataFrame:
    return frame if members is None else groups.averaged(frame, members, keys or [])
