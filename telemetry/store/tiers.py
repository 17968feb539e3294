"""Tiers: a rate of sampling and its columns.

Every value is an integer of `1 / per_unit` of its unit, so that nothing is lost between driver and disk; None
means not measured.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class GpuColumn:
    """One reading of one GPU."""

    name: str
    unit: str | None
    per_unit: int
    gpu: str


@dataclass(frozen=True)
class Tier:
    """The columns sampled at one rate."""

    name: str
    hz: float
    columns: tuple[GpuColumn, ...]

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.hz)

    def as_json(self) -> dict[str, object]:
        return {
            "tier": self.name,
            "hz": self.hz,
            "period_ns": self.period_ns,
            "columns": [asdict(column) for column in self.columns],
        }

    def only(self, readings: Collection[str] | None = None, gpu: str | None = None) -> Tier:
        """The tier with only the columns of these readings, or of this GPU."""
        named = [column for column in self.columns if readings is None or column.name in readings]
        return replace(self, columns=tuple(column for column in named if gpu in (None, column.gpu)))


def tier_from_json(facts: dict[str, object]) -> Tier:
    """The tier from its `as_json`."""
    columns = tuple(GpuColumn(**column) for column in facts["columns"])  # type: ignore[attr-defined]
    return Tier(str(facts["tier"]), float(facts["hz"]), columns)  # type: ignore[arg-type]
