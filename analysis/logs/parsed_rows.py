"""What the checks look at: the parts of a log that its reading gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.patterns import Field, Reject


class ParsedRows(Protocol):
    """The parts of a `Log` that are looked at."""

    @property
    def records(self) -> pl.DataFrame: ...
    @property
    def evals(self) -> pl.DataFrame: ...
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
    def unread(self) -> tuple[str, int, int] | None: ...
    @property
    def has_ambiguous_dates(self) -> bool: ...
    def metrics(self) -> list[str]: ...
