"""Runs that share a setting (seeds of one) -> one line of each table: their mean, and a band of one deviation.

The deviation is the sample's (n - 1); a group of one run has none.

Runs beside each other: subjects go in, tables of what they share and where they differ come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from gputel.analysis.compare.settings import shown
from gputel.telemetry.errors import GputelError

Members = Mapping[str, str]  # run -> its group


def by(setting: str, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The group of each run, `depth=16`; a run that does not say the setting is a GputelError."""
    silent = [run for run, own in settings.items() if setting not in own]
    if silent:
        common = set.intersection(*(set(own) for own in settings.values()))
        apart = sorted(name for name in common if len({shown(own[name]) for own in settings.values()}) > 1)
        mend = f"group by {' or '.join(apart)}" if apart else "record runs with --tag NAME=VALUE"
        raise GputelError(f"--group {setting}", f"{silent[0]} does not say it", mend)
    return {run: f"{setting}={shown(own[setting])}" for run, own in settings.items()}


def stated(settings: Mapping[str, Mapping[str, Any]], members: Members) -> dict[str, dict[str, Any]]:
    """What all runs of a group say alike."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run, own in settings.items():
        groups.setdefault(members[run], []).append(own)
    return {
        group: {n: value for n, value in runs[0].items() if all(own.get(n) == value for own in runs)}
        for group, runs in groups.items()
    }


def banded(frame: pl.DataFrame, members: Members, keys: Sequence[str], value: str) -> pl.DataFrame:
    """`frame` with a `run` column -> the same per group: the mean of `value`, its `deviation`, `runs` counted."""
    grouped = _grouped(frame, members).group_by(*keys, "run", maintain_order=True)
    others = [
        pl.col(name).any() if kind == pl.Boolean else pl.col(name).mean()
        for name, kind in frame.schema.items()
        if name not in (*keys, "run", value, "difference")
    ]
    return grouped.agg(
        pl.col(value).mean(), *others, deviation=pl.col(value).std(), runs=pl.col(value).count()
    )


def differences(frame: pl.DataFrame, keys: Sequence[str], first: str) -> pl.DataFrame:
    """From the first group's mean."""
    base = frame.filter(pl.col("run") == first).select(*keys, base="value")
    joined = frame.join(base, on=list(keys), how="left", maintain_order="left", nulls_equal=True)
    off = pl.when(pl.col("run") != first).then(pl.col("value") - pl.col("base"))
    return joined.with_columns(difference=off).drop("base")


def averaged(frame: pl.DataFrame, members: Members, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Numbers become means; words stay where all runs of a group say the same."""
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
