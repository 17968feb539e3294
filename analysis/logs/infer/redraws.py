"""Redraws of a bar that stand on one line, as in a file without its carriage returns: the last one counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.dialects import LEFT
from gputel.analysis.logs.infer.named import Slot


def last_redraw(row: Sequence[Slot]) -> list[Slot]:
    """Takes the names from the values of earlier redraws: those of `loss` and of the time left, printed again.

    Where no time is left to be printed, two values of one name may be of two models, or of two sets.
    """
    keys = [(slot.key or "").lower() for slot in row]
    again = [at for at, key in enumerate(keys) if key and key in keys[:at]]
    measured = [keys[at] for at in again if keys[at] not in LEFT]
    if not measured or LEFT.isdisjoint(keys[: again[0]]):
        return list(row)
    begins = len(keys) - 1 - keys[::-1].index(measured[0])
    earlier = {*measured, *LEFT}
    return [
        replace(slot, key=None, column="aside") if at < begins and key in earlier else slot
        for at, (slot, key) in enumerate(zip(row, keys, strict=True))
    ]
