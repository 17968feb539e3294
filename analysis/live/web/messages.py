"""What stands and what stood -> a message for the page: all of it, or what has changed, as a server-sent event.

A message is a list of parts: `[run, kind, name, value]`, null where it is gone, or, of what grows,
`[run, kind, name, drop, keep, more]`: of what the page has, `drop` are left away at the beginning, as many are kept
as `keep` says, and `more` comes behind them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.live.web.parts import Columns, Parts

DIGITS = 9  # of a number: more than any log prints
MOST_DROPPED = 16  # what moves on by more is sent whole


def whole(parts: Parts, identity: str) -> bytes:
    return _event("whole", identity, changes({}, parts))


def news(before: Parts, after: Parts, identity: str) -> bytes:
    return _event("news", identity, changes(before, after))


def changes(before: Parts, after: Parts) -> list[list[Any]]:
    """Applied to `before`, they make `after` of it."""
    found: list[list[Any]] = [[*key, None] for key in before if key not in after]
    for key, value in after.items():
        if isinstance(value, np.ndarray):
            found += [[*key, *grown] for grown in _grown(before.get(key), value)]
        elif key not in before or before[key] != value:
            found.append([*key, value])
    return found


def _grown(before: Columns | None, after: Columns) -> list[tuple[int, int, list[Any]]]:
    """Nothing where nothing has changed."""
    drop, keep = (0, 0) if before is None else _kept(before, after)
    if before is not None and drop == 0 and keep == before.shape[1] == after.shape[1]:
        return []
    return [(drop, keep, _numbers(after[:, keep:]))]


def _kept(before: Columns, after: Columns) -> tuple[int, int]:
    """How many of the first are gone, and how many are the same from there on."""
    for drop in range(min(MOST_DROPPED, before.shape[1])):
        size = min(before.shape[1] - drop, after.shape[1])
        differ = _differ(before[:, drop : drop + size], after[:, :size])
        keep = int(differ.argmax()) if differ.any() else size
        if size and keep >= max(size - 1, size // 2):
            return drop, keep
    return 0, 0


def _differ(one: Columns, other: Columns) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = ((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=0)
    return found


def _numbers(columns: Columns) -> list[list[float | None]]:
    """NaN and infinity are holes."""
    with np.errstate(all="ignore"):
        powers = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(columns))))
        short = np.round(columns * powers) / powers
    short = np.where(np.isfinite(short), short, columns)
    return [[value if known else None for value, known in zip(row, finite, strict=True)]
            for row, finite in zip(short.tolist(), np.isfinite(columns).tolist(), strict=True)]  # fmt: skip


def _event(kind: str, identity: str, told: list[list[Any]]) -> bytes:
    data = json.dumps(told, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f"id: {identity}\nevent: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")
