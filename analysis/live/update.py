"""An update of one run: new rows of one of its logs, seconds of its GPUs, or events of its recorder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.live.view import MachineView, StepPartsView
    from gputel.analysis.logs.incremental import Increment
    from gputel.analysis.logs.outcome import LogEvent
    from gputel.analysis.logs.patterns import Field
    from gputel.telemetry.store.live_seconds import LiveSecond

API = "api"
"""The stream of given rows; of a later segment or a node it stands behind the name of that."""


def stream_of(segment: str) -> str:
    return f"{segment}/{API}" if segment else API


def segment_of(stream: str) -> str | None:
    """The segment beside whose output the rows of a stream were given; None of printed ones."""
    segment, _, last = stream.rpartition("/")
    return segment if last == API else None


class ReadSoFar(Protocol):
    """Facts of a log or a store beside its rows."""

    @property
    def config(self) -> dict[str, float | str]: ...
    @property
    def sources(self) -> Mapping[str, Field]: ...
    @property
    def cause(self) -> LogEvent | None: ...
    @property
    def caught(self) -> LogEvent | None: ...
    @property
    def began(self) -> int | None: ...
    @property
    def completed(self) -> bool: ...
    @property
    def is_settled(self) -> bool: ...


@dataclass(frozen=True)
class Update:
    """`stream` names the log: "" if there is only one, else a rank or a segment.

    `live` is False for content that was there before following began. `shown` is True for rows that an earlier
    follower has shown: they update the run's state and are not printed again.
    """

    run: str
    source: str
    stream: str = ""
    increment: Increment | None = None
    log: ReadSoFar | None = None  # the parser of the increment, or the store
    written: float | None = None  # time of the last write to the log, in seconds since 1970
    gpu: pl.DataFrame | None = None
    gpu_seconds: Sequence[LiveSecond] = ()  # instead of `gpu`, if the run is not viewed
    machine: MachineView | None = None
    step_parts: tuple[StepPartsView, ...] = ()
    recorder_events: list[dict[str, Any]] = field(default_factory=list)
    live: bool = True
    shown: bool = False
