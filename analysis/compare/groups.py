"""Runs that share a setting (such as seeds) -> one row per group in each table: mean and standard deviation.

The deviation is that of a sample (n - 1); a group of one run has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from gputel.analysis.compare.settings import shown
from gputel.telemetry.errors import GputelError

Members = Mapping[str, str]  # run -> its group


def by(setting: str, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the group of each run, such as `depth=16`; raises GputelError if a run lacks the setting."""
    lacking = [run for run, values in settings.items() if setting not in values]
    if lacking:
        common = set.intersection(*(set(values) for values in settings.values()))
        differing = sorted(
            name for name in common if len({shown(values[name]) for values in settings.values()}) > 1
        )
        hint = f"group by {' or '.join(differing)}" if differing else "record runs with --tag NAME=VALUE"
        raise GputelError(f"--group {setting}", f"{lacking[0]} does not have it", hint)
    return {run: f"{setting}={shown(values[setting])}" for run, values in settings.items()}


def stated(settings: Mapping[str, Mapping[str, Any]], members: Members) -> dict[str, dict[str, Any]]:
    """Returns the settings that all runs of a group share."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run, values in settings.items():
        groups.setdefault(members[run], []).append(values)
    return {
        group: {n: value for n, value in runs[0].items() if all(values.get(n) == value for values in runs)}
        for group, runs in groups.items()
    }


def banded(frame: pl.DataFrame, members: Members, keys: Sequence[str]) -> pl.DataFrame:
    """Averages a frame by group: the mean of its `value`, its `deviation`, and the number of `runs`."""
    grouped = _grouped(frame, members).group_by(*keys, "run", maintain_order=True)
    others = [
        pl.col(name).any() if kind == pl.Boolean else pl.col(name).mean()
        for name, kind in frame.schema.items()
        if name not in (*keys, "run", "value", "difference")
    ]
    return grouped.agg(
        pl.col("value").mean(), *others, deviation=pl.col("value").std(), runs=pl.col("value").count()
    )


def differences(frame: pl.DataFrame, keys: Sequence[str], first: str) -> pl.DataFrame:
    """Adds the difference from the first group's mean."""
    base = frame.filter(pl.col("run") == first).select(*keys, base="value")
    joined = frame.join(base, on=list(keys), how="left", maintain_order="left", nulls_equal=True)
    off = pl.when(pl.col("run") != first).then(pl.col("value") - pl.col("base"))
    return joined.with_columns(difference=off).drop("base")


def averaged(frame: pl.DataFrame, members: Members, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Averages numbers by group; text stays if all runs of a group agree."""
    cells = [
        pl.col(name).mean() if kind.is_numeric() else _same(name)
        for name, kind in frame.schema.items()
        if name not in ("run", *keys)
    ]
    runs = pl.len().alias("runs")
    grouped = _grouped(frame, members).group_by(*keys, "run", maintain_order=True).agg(*cells, runs)
    return grouped.select(*frame.columns, "runs")


def _grouped(frame: pl.DataFrame, members: Members) -> pl.DataFrame:
    return frame.with_columns(pl.col("run").replace_strict(dict(members), return_dtype=pl.String))


def _same(name: str) -> pl.Expr:
    return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first())
