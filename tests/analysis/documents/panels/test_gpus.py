"""Readings of GPUs as panels over time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import polars as pl

from gputel.analysis.document import Curves, Heat, Level
from gputel.analysis.documents.panels import gpus

START = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def ticks(seconds: list[float], gpus: int = 1, **readings: list[float | None]) -> pl.DataFrame:
    rows = [
        {
            "time": START + timedelta(seconds=at),
            "gpu": str(gpu),
            **{name: own[i] for name, own in readings.items()},
        }
        for i, at in enumerate(seconds)
        for gpu in range(gpus)
    ]
    return pl.DataFrame(rows).with_columns(pl.col("time").cast(pl.Datetime("ns", "UTC")))


def drawn(readings: pl.DataFrame, levels: dict[str, Level] | None = None) -> list[Curves]:
    return [panel for panel in gpus.panels(readings, levels=levels) if isinstance(panel, Curves)]


def named(panels: list[Curves]) -> dict[str, Curves]:
    return {panel.name: panel for panel in panels}


def test_reading_is_a_panel_and_a_gpu_a_curve_with_its_unit() -> None:
    power = named(drawn(ticks([0, 1], gpus=2, power_w=[400.0, 500.0])))["power"]
    assert [series.name for series in power.series] == ["GPU 0", "GPU 1"]
    assert power.series[1].y.tolist() == [400.0, 500.0]
    assert (power.y.unit, power.axes[0].unit) == ("W", "s")
    assert power.axes[0].start_ns == int(START.timestamp()) * 10**9


def test_reading_that_was_never_measured_has_no_panel() -> None:
    assert list(named(drawn(ticks([0, 1], power_w=[1.0, 2.0], temp_c=[None, None])))) == ["power"]


def test_curve_breaks_where_nothing_was_measured_for_a_while() -> None:
    seconds = [0.0, 0.5, 1.0, 1.5, 60.0, 60.5]
    (panel,) = drawn(ticks(seconds, power_w=[1.0] * 6))
    (series,) = panel.series
    assert np.isnan(series.y).tolist() == [False] * 4 + [True] + [False] * 2


def test_extremes_of_whole_seconds_stand_beside_the_mean() -> None:
    seconds = ticks([0, 1], power_w_mean=[400.0, 410.0], power_w_min=[80.0, 90.0], power_w_max=[915.0, 700.0])
    seconds = seconds.with_columns(ticks=pl.lit(100))
    (panel,) = drawn(seconds)
    (series,) = panel.series
    assert (
        series.low is not None and series.low.tolist(),
        series.high is not None and series.high.tolist(),
    ) == (
        [80.0, 90.0],
        [915.0, 700.0],
    )
    assert series.count == 200


def test_several_readings_of_a_panel_differ_by_name_and_line() -> None:
    (panel,) = drawn(ticks([0, 1], temp_c=[50.0, 51.0], temp_mem_c=[60.0, 61.0]))
    assert [(series.name, series.style, series.tint) for series in panel.series] == [
        ("GPU 0", "line", 0),
        ("GPU 0 memory", "dashed", 0),
    ]


def test_limit_is_drawn_where_it_belongs() -> None:
    limit = Level(700.0, "limit 700 W")
    panels = named(drawn(ticks([0, 1], power_w=[1.0, 2.0], util=[1.0, 2.0]), levels={"power": limit}))
    assert (panels["power"].levels, panels["utilization"].levels) == ((limit,), ())


def test_more_gpus_than_colors_are_one_curve_between_the_lowest_and_the_highest() -> None:
    rows = ticks([0, 1], gpus=32, power_w=[400.0, 500.0])
    rows = rows.with_columns(power_w=pl.col("power_w") + pl.col("gpu").cast(pl.Float64))
    (panel,) = drawn(rows)
    (series,) = panel.series
    assert series.name == "mean of 32 GPUs"
    assert series.low is not None
    assert series.high is not None
    assert (series.low.tolist(), series.high.tolist()) == ([400.0, 500.0], [431.0, 531.0])
    assert series.y.tolist() == [415.5, 515.5]


def test_eight_gpus_are_a_mean_with_a_band_and_a_heat_map_and_each_when_asked_for() -> None:
    rows = ticks([0, 1], gpus=8, power_w=[400.0, 500.0])
    rows = rows.with_columns(power_w=pl.col("power_w") + pl.col("gpu").cast(pl.Float64))
    curves, heat = gpus.panels(rows)
    assert isinstance(curves, Curves)
    assert isinstance(heat, Heat)
    mean, *each = curves.series
    assert mean.low is not None
    assert mean.high is not None
    assert (mean.name, mean.shown, mean.y.tolist()) == ("mean of 8 GPUs", True, [403.5, 503.5])
    assert (mean.low.tolist(), mean.high.tolist()) == ([400.0, 500.0], [407.0, 507.0])
    assert [(gpu.name, gpu.shown) for gpu in each] == [(f"GPU {n}", False) for n in range(8)]
    assert (heat.name, heat.names[0], heat.names[-1]) == ("power-by-gpu", "GPU 7", "GPU 0")
    assert (heat.values[0, 0], heat.values[-1, -1]) == (407.0, 500.0)
    assert np.isfinite(heat.values).sum() == 16
