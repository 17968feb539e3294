"""GPU readings, one GPU at a time."""

from __future__ import annotations

import polars as pl

from gputel.analysis.align.samples import of_table
from gputel.telemetry.clock import SECOND


def table(gpus: list[str]) -> pl.DataFrame:
    """A row per GPU and second, each GPU with its own power."""
    rows = [(second * SECOND, gpu, 100.0 * (int(gpu) + 1)) for second in range(5) for gpu in gpus]
    schema = {"time": pl.Int64, "gpu": pl.String, "power_w": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(pl.col("time").cast(pl.Datetime("ns", "UTC")))


def test_each_gpu_has_its_own_rows_whether_they_alternate_or_not() -> None:
    alternating = table(["0", "1"])
    for frame in (alternating, alternating.sort("gpu", "time"), alternating.slice(1)):
        readings = of_table(frame)
        assert sorted(readings.gpus) == [(None, "0"), (None, "1")]
        assert set(readings.read((None, "1"), ["power_w"])["power_w"]) == {200.0}


def test_edges_are_the_first_and_the_last_sample() -> None:
    assert of_table(table(["0"])).edges == (0, 4 * SECOND)


def test_reading_that_was_not_sampled_is_nan() -> None:
    ticks = of_table(table(["0"])).ticks((None, "0"))
    assert ticks is not None
    assert not ticks.has("util")
    assert bool(pl.Series(ticks.get("util")).is_nan().all())
