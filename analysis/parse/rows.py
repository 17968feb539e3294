"""Rows that grow one by one or column by column, and end as one frame.

A column is numbers with a mask: null (not printed) and NaN (printed) are different things to the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

Numbers = npt.NDArray[np.float64]
Column = npt.NDArray[Any]  # of float64, or of int64 where the name is in WHOLE
Row = dict[str, "float | str | None"]
TEXTS = ("rank", "name")
SMALLEST, LARGEST = 1 << 12, 1 << 20  # rows of a part of a column
MOST = 2**63  # what a whole number must stay below; a step that does not is none
WHOLE = ("phase", "attempt", "line", "step", "total_steps", "time")


@dataclass(frozen=True)
class Block:
    """`size` rows that all have the same columns. Those in `same` have one value for all of the rows."""

    size: int
    columns: Mapping[str, Column]
    same: Mapping[str, float | str | None]


class Rows:
    """Rows that came one by one, and columns that blocks of rows are added to; each knows where it stands."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._at: list[int] = []
        self._columns: dict[str, _Column] = {}
        self._same: list[tuple[int, int, Mapping[str, float | str | None]]] = []
        self._met: dict[str, int] = {}  # where a name stood first
        self.count = 0

    def append(self, row: Row) -> None:
        self._rows.append(row)
        self._at.append(self.count)
        for name in row:
            self._met.setdefault(name, self.count)
        self.count += 1

    def extend(self, block: Block) -> None:
        self._same.append((self.count, block.size, block.same))
        for name in (*block.same, *block.columns):
            self._met.setdefault(name, self.count)
        for name, values in block.columns.items():
            if name not in self._columns:
                self._columns[name] = _Column(np.int64 if name in WHOLE else np.float64)
            self._columns[name].extend(self.count, values)
        self.count += block.size

    def frame(self, first: tuple[str, ...]) -> pl.DataFrame:
        """All rows in the order of their lines; `first` are there even where no row has them.

        Each column is given away as the frame gets it, so that not all of them are held twice.
        """
        import polars as pl

        names = [*first, *(name for name in self._met if name not in first)]
        frame = pl.DataFrame([self._series(name) for name in names])
        return frame if frame["line"].is_sorted() else frame.sort("line", maintain_order=True)

    def _series(self, name: str) -> pl.Series:
        import polars as pl

        kind = pl.String if name in TEXTS else pl.Int64 if name in WHOLE else pl.Float64
        if not self._is_there(name):
            return constant(name, None, kind, self.count)
        return self._texts(name) if name in TEXTS else self._numbers(name)

    def _is_there(self, name: str) -> bool:
        return (
            name in self._columns
            or any(same.get(name) is not None for _, _, same in self._same)
            or any(row.get(name) is not None for row in self._rows)
        )

    def _numbers(self, name: str) -> pl.Series:
        import polars as pl

        kind = np.int64 if name in WHOLE else np.float64
        numbers: Column = np.zeros(self.count, dtype=kind)
        present = np.zeros(self.count, dtype=np.bool_)
        for at, size, same in self._same:
            value = same.get(name)
            if isinstance(value, (int, float)):
                numbers[at : at + size], present[at : at + size] = value, True
        if name in self._columns:
            self._columns.pop(name).fill(numbers, present)
        values = [row.get(name) for row in self._rows]
        if name in WHOLE:
            values = [
                value if isinstance(value, (int, float)) and abs(value) < MOST else None for value in values
            ]
        present[self._at] = [value is not None for value in values]
        numbers[self._at] = [0 if value is None else value for value in values]
        series = pl.Series(name, numbers)
        return series if present.all() else series.set(pl.Series(~present), None)

    def _texts(self, name: str) -> pl.Series:
        import polars as pl

        texts: list[str | None] = [None] * self.count
        for at, size, same in self._same:
            text = same.get(name)
            texts[at : at + size] = [text if isinstance(text, str) else None] * size
        for at, row in zip(self._at, self._rows, strict=True):
            text = row.get(name)
            texts[at] = text if isinstance(text, str) else None
        return pl.Series(name, texts, dtype=pl.String)


def constant(
    name: str, value: str | int | None, kind: pl.DataType | type[pl.DataType], size: int
) -> pl.Series:
    column: pl.Series = _cell(name, value, kind).new_from_index(0, size)
    return column


@lru_cache(maxsize=64)
def _cell(name: str, value: str | int | None, kind: pl.DataType | type[pl.DataType]) -> pl.Series:
    import polars as pl

    return pl.Series(name, [value], dtype=kind)


class _Column:
    """Grows by parts that are large enough to be given back to the system whole; small ones would leave holes."""

    def __init__(self, kind: type[np.float64 | np.int64]) -> None:
        self._kind = kind
        self._spans: list[
            tuple[int, int]
        ] = []  # where in the frame what was added belongs, and how much it was
        self._parts: list[Column] = []
        self._filled = 0  # of the last part

    def extend(self, at: int, values: Column) -> None:
        self._spans.append((at, len(values)))
        while len(values):
            if not self._parts or self._filled == len(self._parts[-1]):
                self._parts.append(np.empty(min(LARGEST, SMALLEST << 2 * len(self._parts)), dtype=self._kind))
                self._filled = 0
            taken = min(len(values), len(self._parts[-1]) - self._filled)
            self._parts[-1][self._filled : self._filled + taken] = values[:taken]
            self._filled += taken
            values = values[taken:]

    def fill(self, numbers: Column, present: npt.NDArray[np.bool_]) -> None:
        held = np.concatenate(self._parts)
        begin = 0
        for at, size in self._spans:
            numbers[at : at + size], present[at : at + size] = held[begin : begin + size], True
            begin += size
