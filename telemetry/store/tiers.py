"""Tiers: a rate of sampling and its columns.

Every value is an integer of `1 / per_unit` of its unit, so that nothing is lost between driver and disk; None
means not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

GPU, HOST, PROCESS = "gpu", "host", "process"
WITHOUT_SUBJECT = (HOST, PROCESS)
"""The whole machine is one subject; a row of a process has its number among the readings."""
ROWS_OF_PROCESSES = 2048
MEAN_PARTS = 100  # a mean is rounded to hundredths of the driver's integer


@dataclass(frozen=True)
class TierColumn:
    """One reading of one GPU, or of another subject such as a disk."""

    name: str
    unit: str | None
    per_unit: int
    subject: str = ""
    """Which GPU or disk; empty in the table of the whole machine."""


@dataclass(frozen=True)
class Tier:
    """The columns sampled at one rate."""

    name: str
    hz: float
    columns: tuple[TierColumn, ...]
    table: str = GPU
    """The folder that its files are in, which names the column of its subjects."""

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.hz)

    @property
    def subject_name(self) -> str | None:
        """The name of the column of its subjects; None in a table whose rows need none."""
        return None if self.table in WITHOUT_SUBJECT else self.table

    @property
    def capacity(self) -> int:
        """The most rows of one block."""
        return ROWS_OF_PROCESSES if self.table == PROCESS else int(self.hz) + 8

    def as_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "tier": self.name,
            "hz": self.hz,
            "period_ns": self.period_ns,
            "columns": [self._column_as_json(column) for column in self.columns],
        }

    def _column_as_json(self, column: TierColumn) -> dict[str, object]:
        facts = asdict(column)
        subject = facts.pop("subject")
        return facts if self.subject_name is None else {**facts, self.subject_name: subject}

    @property
    def subjects(self) -> list[str]:
        """Its GPUs or disks, in the order of the columns."""
        return list(dict.fromkeys(column.subject for column in self.columns))

    @property
    def readings(self) -> dict[str, TierColumn]:
        """The column of each reading, of the first GPU that has it."""
        columns: dict[str, TierColumn] = {}
        for column in self.columns:
            columns.setdefault(column.name, column)
        return columns

    def as_table(self) -> dict[str, object]:
        """The JSON in a Parquet file's metadata: subjects in the order of their rows, and which has a reading.

        Names no subjects for a reading that all of them have.
        """
        subjects, columns = self.subjects, []
        for name, column in self.readings.items():
            having = [other.subject for other in self.columns if other.name == name]
            facts = {"name": name, "unit": column.unit, "per_unit": column.per_unit}
            columns.append(facts if having == subjects else {**facts, _plural(self.table): having})
        whole = {"table": self.table, "tier": self.name, "hz": self.hz}
        named = {} if self.subject_name is None else {_plural(self.table): subjects}
        return {**whole, **named, "columns": columns}

    def only(self, readings: Collection[str] | None = None, subject: str | None = None) -> Tier:
        """The tier with only the columns of these readings, or of this subject."""
        named = [column for column in self.columns if readings is None or column.name in readings]
        return replace(self, columns=tuple(column for column in named if subject in (None, column.subject)))


def tier_from_json(facts: dict[str, object]) -> Tier:
    """The tier from its `as_json`."""
    table = str(facts.get("table", GPU))
    columns = tuple(
        TierColumn(column["name"], column["unit"], column["per_unit"], str(column.get(table, "")))
        for column in facts["columns"]  # type: ignore[attr-defined]
    )
    return Tier(str(facts["tier"]), _rate(facts["hz"]), columns, table)


def tier_from_table(facts: dict[str, Any]) -> Tier:
    """The tier from its `as_table`, its columns subject by subject."""
    table = str(facts.get("table", GPU))
    subjects = [""] if table in WITHOUT_SUBJECT else facts[_plural(table)]
    columns = tuple(
        TierColumn(str(column["name"]), column["unit"], int(column["per_unit"]), str(subject))
        for subject in subjects
        for column in facts["columns"]
        if subject in column.get(_plural(table), subjects)
    )
    return Tier(str(facts["tier"]), _rate(facts["hz"]), columns, table)


def _plural(table: str) -> str:
    return f"{table}s"


def _rate(hz: object) -> float:
    if isinstance(hz, (int, float)) and 0 < hz < 1e9:
        return float(hz)
    raise ValueError(f"{hz} is not a rate in Hz")


def count_by_table(ticks: Counter[Tier]) -> str:
    """Formats ticks of several tiers: `44 ticks (40 of gpu/fast, 4 of gpu/slow)`."""
    counts = Counter[str]()
    for tier, count in ticks.items():
        counts[f"{tier.table}/{tier.name}"] += count
    parts = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return f"{counts.total()} ticks" + (f" ({parts})" if parts else "")
