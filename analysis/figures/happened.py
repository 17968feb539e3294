"""What happened in a run -> marks behind its curves: events of its log by step, spans of its recording by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.figures.panel import Mark

if TYPE_CHECKING:
    from gputel.analysis.comparing.axes import Track

SHOWN = ("checkpoint", "resume", "restart", "nan", "oom", "nccl", "traceback", "stop")
"""Events of a log; evaluations have panels of their own."""
MOST = 200  # of one kind: more would hide the curves


def in_log(track: Track, run: str) -> Iterator[Mark]:
    """Only of a log with one phase: an event does not say to which it belongs."""
    log = track.subject.log
    if len({phase for phase, _ in log.places}) > 1:
        return
    for kind in SHOWN:
        events = log.events.filter((pl.col("kind") == kind) & pl.col("step").is_not_null())
        for step, text in events.select("step", "text").head(MOST).iter_rows():
            yield Mark(kind, f"{run}, {kind} at step {step:,}: {text}"[:300], _places(track, step), run=run)


def _places(track: Track, step: int) -> dict[str, float]:
    done = np.array([step + track.from_zero], dtype=np.float64)
    places = {name: float(track.at(name, done)[0]) for name in track.costs}
    return {"step": float(step), **{name: x for name, x in places.items() if np.isfinite(x)}}
