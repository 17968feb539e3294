"""What is new of one run: rows of one of its logs, seconds of its GPUs, or events that the recorder wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.incremental import Increment, Increments


@dataclass(frozen=True)
class Update:
    """Names its run and `source`; `stream` is the log: "" if there is only one, else a rank or a segment.

    `live` is false for what was there before the following began; `shown` is true for what an earlier follower has
    shown, which is needed to know where the run stands, and not to be shown once more.
    """

    run: str
    source: str
    stream: str = ""
    increment: Increment | None = None
    log: Increments | None = None  # what the increment came of
    written: float | None = None  # when the log was last written to, in seconds since 1970
    gpu: pl.DataFrame | None = None
    happened: list[dict[str, Any]] = field(default_factory=list)
    live: bool = True
    shown: bool = False
