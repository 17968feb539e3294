"""Rows of the catalogue -> one row per group: how many runs, and mean and deviation of every figure."""

from __future__ import annotations

import math
import re
import statistics
import struct
from collections.abc import Mapping, Sequence
from typing import Any

SEEDS = re.compile(
    r"(?:^|[._])(?:seed|name|run_name|run_id|out|out_dir|output|output_dir|logdir|log_dir|save_dir|dir|date|time"
    r"|timestamp|port|master_port|host|hostname|rank|local_rank|id|uuid)$",
    re.IGNORECASE,
)
"""Settings in which seeds of one experiment may differ."""


FLOAT = struct.Struct("<f")
MOST_IN_32_BITS = 3e38


def experiment(settings: Mapping[str, float | str]) -> str:
    """The settings that seeds of one experiment share: all but those of a single run."""
    kept = sorted((key, value) for key, value in settings.items() if not SEEDS.search(key))
    return ", ".join(f"{key.partition('.')[2]}={_shown(value)}" for key, value in kept) or "no settings"


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def grouped(
    keys: Sequence[str], figures: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Groups rows, whose first cells are the keys and whose others are figures.

    Returns the columns (keys, `runs`, then of every figure its mean and its deviation) and a row per group.
    Fractions that are equal in 32 bits are one: event files hold 0.0003 as 0.00030000001424923540.
    """
    groups: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(map(_rounded, row[: len(keys)])), []).append(row)
    answer = []
    for first, *more in groups.values():
        members = [row[len(keys) :] for row in (first, *more)]
        cells: list[Any] = [*first[: len(keys)], len(members)]
        for place in range(len(figures)):
            cells += _mean_and_deviation([member[place] for member in members])
        answer.append(tuple(cells))
    names = [*keys, "runs"]
    for figure in figures:
        names += [figure, f"{figure} ±"]
    return names, answer


def _rounded(key: Any) -> Any:
    is_fraction = isinstance(key, float) and abs(key) < MOST_IN_32_BITS and not key.is_integer()
    return FLOAT.unpack(FLOAT.pack(key))[0] if is_fraction else key


def _mean_and_deviation(values: Sequence[Any]) -> tuple[float | None, float | None]:
    """Mean, and standard deviation (n - 1), of the known numbers; no deviation of a single one."""
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and math.isfinite(v)]
    if not numbers:
        return None, None
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None
