"""What happened in a run -> markers on its panels: events of its log by step, spans of its recording by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.document import Marker
from gputel.analysis.text import event

if TYPE_CHECKING:
    from gputel.analysis.compare.curves import RunPhase

SHOWN = ("checkpoint", "resume", "restart", "nan", "oom", "nccl", "traceback", "stop")
"""Events of a log; evaluations have panels of their own."""
MOST = 200  # of one kind: more would hide the curves
MOST_SPANS = 2000


def in_log(track: RunPhase, run: str) -> Iterator[Marker]:
    """Marks for the events of a log with one phase; of several, an event does not say to which it belongs."""
    log = track.subject.log
    if len({phase for phase, _ in log.places}) > 1:
        return
    for kind in SHOWN:
        events = log.events.filter((pl.col("kind") == kind) & pl.col("step").is_not_null())
        for step, text in events.select("step", "text").head(MOST).iter_rows():
            yield Marker(
                kind, f"{run}, {event(kind)} at step {step:,}: {text}"[:300], _places(track, step), run=run
            )


def in_time(spans: pl.DataFrame, start_ns: int) -> Iterator[Marker]:
    """Markers for spans other than training; of many the longest."""
    others = spans.filter(pl.col("kind") != "train")
    length = pl.col("end") - pl.col("start")
    shown = others.sort(length, descending=True).head(MOST_SPANS).sort("start", maintain_order=True)
    for kind, start, end, step, text in shown.select(
        "kind", pl.col("start", "end").dt.epoch("ns"), "step", "text"
    ).iter_rows():
        at, until = (start - start_ns) / 1e9, (end - start_ns) / 1e9
        words = [event(kind), "" if step is None else f"at step {step:,}", f"{until - at:.3f} s", text or ""]
        yield Marker(kind, ", ".join(word for word in words if word)[:300], {"time": at}, {"time": until})


def at_moments(events: pl.DataFrame, start_ns: int) -> Iterator[Marker]:
    """Events of a log or a recorder: `time`, `kind`, `text`. Evaluations and checkpoints are spans."""
    moments = events.filter(
        pl.col("time").is_not_null() & ~pl.col("kind").is_in(["eval", "checkpoint", "epoch"])
    )
    for kind in moments["kind"].unique(maintain_order=True):
        of_kind = moments.filter(pl.col("kind") == kind).head(MOST)
        for moment, text in of_kind.select(pl.col("time").dt.epoch("ns"), "text").iter_rows():
            yield Marker(
                str(kind), f"{event(str(kind))}: {text or ''}"[:300], {"time": (moment - start_ns) / 1e9}
            )


def _places(track: RunPhase, step: int) -> dict[str, float]:
    done = np.array([step + track.from_zero], dtype=np.float64)
    places = {name: float(track.at(name, done)[0]) for name in track.costs}
    return {"step": float(step), **{name: x for name, x in places.items() if np.isfinite(x)}}
