"""Tiers: a rate of sampling and its columns.

Every value is an integer of `1 / per_unit` of its unit, so that nothing is lost between driver and disk; None
means not measured.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any


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

    @property
    def gpus(self) -> list[str]:
        """Its GPUs, in the order of the columns."""
        return list(dict.fromkeys(column.gpu for column in self.columns))

    @property
    def readings(self) -> dict[str, GpuColumn]:
        """The column of each reading, of the first GPU that has it."""
        columns: dict[str, GpuColumn] = {}
        for column in self.columns:
            columns.setdefault(column.name, column)
        return columns

    def as_table(self) -> dict[str, object]:
        """The JSON in a Parquet file's metadata: GPUs in the order of their rows, and which of them has a reading.

        Names no GPUs for a reading that all of them have.
        """
        gpus, columns = self.gpus, []
        for name, column in self.readings.items():
            having = [other.gpu for other in self.columns if other.name == name]
            facts = {"name": name, "unit": column.unit, "per_unit": column.per_unit}
            columns.append(facts if having == gpus else {**facts, "gpus": having})
        return {"tier": self.name, "hz": self.hz, "gpus": gpus, "columns": columns}

    def only(self, readings: Collection[str] | None = None, gpu: str | None = None) -> Tier:
        """The tier with only the columns of these readings, or of this GPU."""
        named = [column for column in self.columns if readings is None or column.name in readings]
        return replace(self, columns=tuple(column for column in named if gpu in (None, column.gpu)))


def tier_from_json(facts: dict[str, object]) -> Tier:
    """The tier from its `as_json`."""
    columns = tuple(GpuColumn(**column) for column in facts["columns"])  # type: ignore[attr-defined]
    return Tier(str(facts["tier"]), _rate(facts["hz"]), columns)


def tier_from_table(facts: dict[str, Any]) -> Tier:
    """The tier from its `as_table`, its columns GPU by GPU."""
    columns = tuple(
        GpuColumn(str(column["name"]), column["unit"], int(column["per_unit"]), str(gpu))
        for gpu in facts["gpus"]
        for column in facts["columns"]
        if gpu in column.get("gpus", facts["gpus"])
    )
    return Tier(str(facts["tier"]), _rate(facts["hz"]), columns)


def _rate(hz: object) -> float:
    if isinstance(hz, (int, float)) and 0 < hz < 1e9:
        return float(hz)
    raise ValueError(f"{hz} is not a rate in Hz")
