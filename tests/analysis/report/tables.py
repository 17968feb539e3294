"""Measured steps and GPUs made by hand; they are measured throughout; a measure that is not given is null."""

from __future__ import annotations

from typing import Any

import polars as pl

from gputel.analysis.align.join import MEASURES


def rows(**columns: Any) -> pl.DataFrame:
    """Steps of a second each; a list is a column, a number the same in all."""
    count = 20
    values = {name: value if isinstance(value, list) else [value] * count for name, value in columns.items()}
    frame = pl.DataFrame({"step": range(count), "steps": 1, "duration_s": 1.0, "measured": 1.0} | values)
    lacking = [name for name in MEASURES if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)


def gpus(*each: dict[str, Any]) -> pl.DataFrame:
    frame = pl.DataFrame([{"gpu": str(n), "duration_s": 100.0, **one} for n, one in enumerate(each)])
    lacking = [name for name in MEASURES if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)
