"""Which clock tells how long a run took, and the seconds since its first step began, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

Numbers: TypeAlias = npt.NDArray[np.float64]

CLOCKS = {
    "stamps": "told by the stamps of the lines since the first step began, evaluations and gaps included",
    "clock": "what the log itself counts, which may leave out first steps and evaluations",
    "dt": "the sum of the step times that were printed",
}
"""In the order in which they can be trusted."""
COLUMNS = {"stamps": "time", "clock": "total_time_min", "dt": "dt_ms"}


def of(rows: pl.DataFrame) -> list[str]:
    """The clocks that these records have; one stamp alone tells no time."""
    return [
        name
        for name, column in COLUMNS.items()
        if column in rows.columns and rows.height - rows[column].null_count() > (name == "stamps")
    ]


def shared(tables: Sequence[pl.DataFrame]) -> str | None:
    """The clock that all runs have; None if they share none."""
    have = [of(rows) for rows in tables]
    return next((name for name in CLOCKS if all(name in own for own in have)), None)


def chosen(rows: pl.DataFrame, wanted: str | None) -> str | None:
    """The one that is wanted, else the best there is."""
    have = of(rows)
    return wanted if wanted in have else next(iter(have), None)


def seconds(rows: pl.DataFrame, done: Numbers, attempt: Numbers, clock: str | None) -> Numbers | None:
    """Records of restarts count: that time was spent."""
    if clock is None:
        return None
    told = rows[COLUMNS[clock]]
    if clock == "stamps":
        stamps = floats(told.dt.epoch("ns")) / 1e9
        return stamps - np.nanmin(stamps) + _of_first(rows, done)
    if clock == "clock":
        return _counted_on(floats(told) * 60)
    each = floats(told)
    return np.cumsum(np.where(np.isfinite(each), each, np.nanmedian(each)) / 1000 * gaps(done, attempt))


def gaps(done: Numbers, attempt: Numbers) -> Numbers:
    """For how many steps each record stands: those since the last; an attempt's first for as many as usual."""
    since = np.diff(done, prepend=0.0)
    begins = np.diff(attempt, prepend=attempt[:1] - 1) != 0
    since[begins] = np.minimum(np.maximum(done[begins], 1), stride(done))
    return since


def stride(done: Numbers) -> float:
    """How many steps usually lie between two records."""
    grown = np.diff(done)
    grown = grown[grown > 0]
    return float(np.median(grown)) if len(grown) else 1.0


def _counted_on(clock: Numbers) -> Numbers:
    """A clock that a restart set back goes on where it was."""
    known = np.isfinite(clock)
    grown = np.diff(clock[known], prepend=0.0)
    total = np.full(len(clock), np.nan)
    total[known] = np.cumsum(np.where(grown < 0, clock[known], grown))
    return total


def _of_first(rows: pl.DataFrame, done: Numbers) -> float:
    """The seconds of the first record, which no stamp before it shows."""
    first = rows["dt_ms"][0] if "dt_ms" in rows.columns else None
    return 0.0 if first is None else float(first) / 1000 * min(done[0], stride(done))


def floats(column: pl.Series) -> Numbers:
    """Null is NaN."""
    return np.asarray(column.to_numpy(), dtype=np.float64)
