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
