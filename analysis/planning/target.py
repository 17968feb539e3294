"""A rate that somebody hopes for: tokens a second in, the share of the peak that it means out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputel.analysis.planning.machine import Machine
from gputel.analysis.planning.rows import Row


@dataclass(frozen=True)
class Target:
    """`mfu` in percent; more than 100 is impossible on these GPUs."""

    name: str
    tok_per_sec: float
    mfu: float
    most_tok_per_sec: float
    expected_tok_per_sec: float

    @property
    def possible(self) -> bool:
        return self.mfu <= 100

    @property
    def words(self) -> str:
        return (
            f"{self.name}: {self.tok_per_sec:,.0f} tok/s is {self.mfu:.0f}% MFU; {self.most_tok_per_sec:,.0f} "
            f"would be 100%, {self.expected_tok_per_sec:,.0f} is to be expected"
        )


def targets(rows: Iterable[Row], machine: Machine, tok_per_sec: float) -> list[Target]:
    return [_target(row, machine, tok_per_sec) for row in rows]


def _target(row: Row, machine: Machine, tok_per_sec: float) -> Target:
    most = machine.peak_flops / row.size.flops_per_token
    return Target(row.name, tok_per_sec, 100 * tok_per_sec / most, most, row.figures["tok_per_sec"].value)
