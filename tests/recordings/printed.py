"""Recordings made by hand: lines with the moments at which they were printed, and the spans that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

from gputel.telemetry import run_folder
from gputel.telemetry.process import output_index

START = 1_772_359_200_000_000_000  # 1 March 2026, 10:00:00
SECOND = 1_000_000_000

Lines: TypeAlias = Sequence[tuple[float, str]]
Segments: TypeAlias = Sequence[tuple[float, float | None, Lines]]


def step(number: int, loss: float = 3.0, dt_ms: float | None = None, head: str = "") -> str:
    """As nanochat prints it; without its time where a log has none."""
    dt = "" if dt_ms is None else f" | dt: {dt_ms:.2f}ms"
    return f"{head}step {number:05d}/09999 (1.00%) | loss: {loss:.6f} | lrm: 1.00{dt}"


def validation(number: int, loss: float = 3.0) -> str:
    return f"Step {number:05d} | Validation loss: {loss:.4f}"


def saved(number: int) -> str:
    return f"Saved model file to: out/checkpoints/step_{number:06d}"


def clock(second: float) -> dict[str, int]:
    return {"wall_ns": START + round(second * SECOND)}


def fill(segment: run_folder.Segment, lines: Lines) -> None:
    texts = [f"{line}\n" for _, line in lines]
    ends = [sum(len(text) for text in texts[: i + 1]) for i in range(len(texts))]
    segment.output.write_text("".join(texts))
    reads = [
        output_index.pack(START + round(second * SECOND), end)
        for (second, _), end in zip(lines, ends, strict=True)
    ]
    segment.index.write_bytes(b"".join(reads))


def kinds_and_seconds(spans: pl.DataFrame) -> list[tuple[str, float, float]]:
    """Kind, begin and end in seconds, of each span."""
    seconds = [
        ((pl.col(name).dt.epoch("ns") - START) / 1e9).round(3).alias(name) for name in ("start", "end")
    ]
    return spans.select("kind", *seconds).rows()
