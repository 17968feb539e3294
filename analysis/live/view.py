"""View: a run at one moment as plain values, for the terminal, the page and Prometheus alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gputel.analysis import text

if TYPE_CHECKING:
    from gputel.analysis.live.log_state import UpcomingEvent
    from gputel.analysis.live.series import Points

MOST_RANKS = 4  # whose steps are shown


@dataclass(frozen=True)
class Terms:
    """Price of a GPU hour, and the budget of the whole run."""

    price: float | None = None
    budget: float | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class RunCost:
    """Costs in the currency of the price. `at_end` is None if the run's end is unknown.

    Without a known number of GPUs it is the cost of one, the least that it can be, and `gpus` is None.
    """

    per_hour: float
    spent: float
    at_end: float | None
    budget: float | None
    gpus: int | None

    @property
    def caution(self) -> str | None:
        """A warning about the number of GPUs; None if the run names it."""
        return "for one GPU: the log names no number, give --gpus" if self.gpus is None else None

    @property
    def is_over(self) -> bool:
        return self.budget is not None and max(self.spent, self.at_end or 0) > self.budget


@dataclass(frozen=True)
class GpuView:
    """`last` is its last whole second; `strips` are its last minutes, a value per second, NaN if missing."""

    gpu: str
    node: str
    host: str | None
    uuid: str | None
    name: str | None
    at: datetime
    last: dict[str, float]
    strips: dict[str, list[float]]
    limits: dict[str, float]


@dataclass(frozen=True)
class GpuUserView:
    """A process on some GPUs."""

    gpus: str
    """Such as `0,1`."""
    name: str
    """The name of its program, or its number if no more is known."""
    rank: int | None
    role: str | None
    memory_mib: float | None
    share: float | None
    """Percent of the time of one GPU: up to 200 on two."""

    @property
    def words(self) -> str:
        """`GPU 0 python (rank 0) 4.0 GiB 95 %`; several GPUs have a mean share, and their memory together."""
        known = "" if self.role is None else f" ({self.role}{'' if self.rank is None else f' {self.rank}'})"
        figures = [
            *([] if self.memory_mib is None else [text.mebibytes(self.memory_mib)]),
            *([] if self.share is None else [f"{self.share / (1 + self.gpus.count(',')):.0f} %"]),
        ]
        return " ".join([f"GPU {self.gpus} {self.name}{known}", *figures])


@dataclass(frozen=True)
class MachineView:
    """`figures` has a row of a table's last second by table and subject, which is "" for the whole machine."""

    node: str
    at: datetime
    figures: dict[tuple[str, str], dict[str, float]]
    gpu_users: tuple[GpuUserView, ...] = ()

    @property
    def host(self) -> dict[str, float]:
        return self.figures.get(("host", ""), {})


@dataclass(frozen=True)
class StepPartsView:
    """The means of a rank's steps of the last minute, up to `ended`, as hooks in the training saw them.

    None of a part that was not seen; `gc_ms` is within the others.
    """

    node: str
    rank: int | None
    ended: datetime
    steps: int
    step_ms: float
    data_wait_ms: float | None
    data_share: float | None
    backward_ms: float | None
    optimizer_ms: float | None
    other_ms: float | None
    gc_ms: float | None

    @property
    def parts(self) -> list[str]:
        """`data wait 15.4 ms (20 %)`, `backward 14.0 ms`, `optimizer 29.3 ms`, `the rest 20.0 ms`."""
        share = "" if self.data_share is None else f" ({100 * self.data_share:.0f} %)"
        named = (
            ("data wait", self.data_wait_ms, share),
            ("backward", self.backward_ms, ""),
            ("optimizer", self.optimizer_ms, ""),
            ("the rest", self.other_ms, ""),
            ("garbage collection", self.gc_ms or None, ""),
        )
        return [f"{name} {text.duration(ms / 1000)}{more}" for name, ms, more in named if ms is not None]

    @property
    def whose(self) -> str:
        """`rank 3 on node 2`; "" of the only process."""
        rank = "" if self.rank is None else f"rank {self.rank}"
        return f"{rank} on node {self.node}".strip() if self.node else rank


def longest_waits(views: Sequence[StepPartsView], most: int = MOST_RANKS) -> list[StepPartsView]:
    """Those with the largest share of waits for data, in their own order."""
    if len(views) <= most:
        return list(views)
    ordered = sorted(views, key=lambda view: -(view.data_share or 0.0))[: max(most, 0)]
    return [view for view in views if view in ordered]


@dataclass(frozen=True)
class View:
    """A run at one moment. Times are UTC; None means unknown.

    `moments` are when its steps were done, in seconds since `first_at`, which is in seconds since 1970.
    """

    name: str
    source: str
    status: str
    cause: str | None
    caution: str | None
    phase: str | None
    attempt: int
    step: int | None
    total_steps: int | None
    epoch: float | None
    last: Mapping[str, float]
    curves: Mapping[str, Points]
    evals: Mapping[str, Points]
    moments: Points
    first_at: float | None
    tokens_per_step: float | None
    seconds_a_step: float | None
    seconds_a_record: float | None
    elapsed_s: float | None
    eta_s: float | None
    silent_s: float | None
    upcoming: Sequence[UpcomingEvent]
    cost: RunCost | None
    gpus: Sequence[GpuView]
    machines: Sequence[MachineView]
    step_parts: Sequence[StepPartsView]
    ranks: Mapping[str, tuple[int | None, float]]
    steps_of_nodes: Mapping[str, int]
    events: Sequence[Mapping[str, Any]]
    records: int
    config: Mapping[str, float | str]
