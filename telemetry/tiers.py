"""What one tick of the sampler holds: a tier is a rate and its columns.

Every value is an integer of `1 / per_unit` of its unit, so that nothing is lost between driver and disk;
None where it was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One reading of one GPU."""

    name: str
    unit: str | None
    per_unit: int
    gpu: str


@dataclass(frozen=True)
class Tier:
    name: str
    hz: float
    columns: tuple[Column, ...]

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.hz)
