"""What the checks look at: the parts of a log that its reading gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import polars as pl

if TYPE_CHECKING:
    from gputel.analysis.logs.patterns import Field, Reject
    from gputel.analysis.logs.read_lines import Taken
    from gputel.analysis.logs.unread_lines import Unread


class ParsedRows(Protocol):
    """The parts of a `Log` that are looked at."""

    @property
    def records(self) -> pl.DataFrame: ...
    @property
    def evals(self) -> pl.DataFrame: ...
    @property
    def partials(self) -> pl.DataFrame: ...
    @property
    def events(self) -> pl.DataFrame: ...
    @property
    def config(self) -> dict[str, float | str]: ...
    @property
    def rejects(self) -> list[Reject]: ...
    @property
    def sources(self) -> dict[str, Field]: ...
    @property
    def continues(self) -> bool: ...
    @property
    def unread(self) -> Unread: ...
    @property
    def summary(self) -> dict[str, float | str]: ...
    @property
    def cut_at(self) -> int | None: ...
    @property
    def has_ambiguous_dates(self) -> bool: ...
    def metrics(self) -> list[str]: ...


def are_in(taken: Sequence[Taken], rows: pl.DataFrame) -> pl.Series:
    """For each line that a pattern took, whether one of the rows is of it."""
    numbers = pl.Series([line.number for line in taken], dtype=pl.Int64)
    return numbers.is_in(rows["line"].cast(pl.Int64).implode())
