"""Recordings made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gputel.analysis.runs import RunData, read_run
from gputel.telemetry import run_folder
from tests.recordings.printed import Segments, clock, fill


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., RunData]:
    """`recorded([(begin, end, [(second, line), ...]), ...])`: a segment each, of one node or of `nodes`."""

    def recorded(segments: Segments, nodes: Sequence[str | None] = (None,)) -> RunData:
        path = tmp_path / "run"
        made: list[str | None] = []
        for (begin, end, lines), node in zip(segments, [*nodes, *[nodes[-1]] * len(segments)], strict=False):
            facts = {"run": "d12", "started": clock(begin), "ended": None if end is None else clock(end)}
            add = run_folder.add_segment if node in made else run_folder.create
            segment = add(path, facts, node=node)
            made.append(node)
            fill(segment, lines)
        return read_run(path)

    return recorded


def evaluated_every_20(steps: int, saved: Callable[[int], bool], rate: bool = False) -> str:
    """A log whose steps behind evaluations take nine times as long; checkpoints stand before steps `saved`."""
    lines = []
    for number in range(steps):
        dt_ms = 1000
        if number and number % 20 == 0:
            lines.append("validation loss: 3.0")
            dt_ms = 9000
        if number and saved(number):
            lines.append(f"Saved checkpoint to out/step_{number:06d}.pt")
        line = f"step {number} | loss: 3.0 | dt: {dt_ms:.2f}ms"
        lines.append(f"{line} | tok/sec: {524288 / dt_ms:.2f}" if rate else line)
    return "\n".join(lines) + "\n"
