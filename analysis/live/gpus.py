"""Keeps the last second and the last ten minutes of each GPU of a followed run."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from gputel.analysis.live.run_folder import PAST_S
from gputel.analysis.live.view import GpuView

if TYPE_CHECKING:
    import polars as pl

STRIPS = ("power_w_mean", "temp_c_max", "util_mean", "mem_used_mib_max", "sm_mhz_mean")


@dataclass
class _Card:
    host: str | None = None
    uuid: str | None = None
    name: str | None = None
    limits: dict[str, float] = field(default_factory=dict)
    at: datetime | None = None
    last: dict[str, float] = field(default_factory=dict)
    strips: dict[str, deque[float]] = field(default_factory=dict)

    def take(self, row: dict[str, Any]) -> None:
        """Adds a second, or the readings of another tier of the last second."""
        readings = {
            name: float(value)
            for name, value in row.items()
            if value is not None and isinstance(value, (int, float)) and name != "ticks"
        }
        is_same_second = self.at == row["time"]
        missed = int((row["time"] - self.at).total_seconds()) - 1 if self.at else 0
        self.last = {**self.last, **readings} if is_same_second else readings
        self.at = row["time"]
        for name in STRIPS:
            strip = self.strips.setdefault(name, deque(maxlen=PAST_S))
            if is_same_second and strip:
                strip.pop()
            strip.extend([math.nan] * min(missed, PAST_S))
            strip.append(self.last.get(name, math.nan))


class GpuHistory:
    """The GPUs of one run, by node and index. `describe` and `take` feed it; `view` returns those sampled."""

    def __init__(self) -> None:
        self._cards: dict[tuple[str, str], _Card] = {}

    def describe(self, fact: dict[str, Any]) -> None:
        """Takes names and limits from a segment's run.json."""
        rank = fact.get("node_rank")
        node = "" if rank is None else str(rank)
        for gpu in fact.get("gpus") or []:
            card = self._cards.setdefault((node, str(gpu["gpu"])), _Card())
            card.name, card.limits = gpu.get("name"), gpu.get("limits") or {}
            card.uuid, card.host = gpu.get("uuid"), (fact.get("host") or {}).get("name")
            if gpu.get("memory_total_mib"):
                card.limits = {**card.limits, "memory_total_mib": gpu["memory_total_mib"]}

    def take(self, seconds: pl.DataFrame, stream: str) -> None:
        """Adds new seconds; `stream` says on which node."""
        node = node_of(stream)
        for row in seconds.iter_rows(named=True):
            self._cards.setdefault((node, row["gpu"]), _Card()).take(row)

    def memory_mib(self, gpu: str, stream: str) -> float | None:
        """Total memory of a GPU; None if run.json does not say."""
        card = self._cards.get((node_of(stream), gpu))
        return card.limits.get("memory_total_mib") if card else None

    def view(self) -> list[GpuView]:
        """Every GPU that was sampled, with plain values."""
        return [
            GpuView(
                gpu,
                node,
                card.host,
                card.uuid,
                card.name,
                card.at,
                dict(card.last),
                _strips(card),
                card.limits,
            )
            for (node, gpu), card in self._cards.items()
            if card.at
        ]


def _strips(card: _Card) -> dict[str, list[float]]:
    strips = {name: list(strip) for name, strip in card.strips.items()}
    return {name: strip for name, strip in strips.items() if not np.isnan(strip).all()}


def node_of(stream: str) -> str:
    """The node of a segment such as `nodes/3/segments/2`; "" of a run that has one machine."""
    return stream.split("/")[1] if stream.startswith("nodes/") else ""
