"""Recordings made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gputel.analysis import subjects
from gputel.analysis.subjects import Subject
from gputel.telemetry import run
from tests.recordings.printed import Segments, clock, fill


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Subject]:
    """`recorded([(begin, end, [(second, line), ...]), ...])`: a segment each, of one node or of `nodes`."""

    def recorded(segments: Segments, nodes: Sequence[str | None] = (None,)) -> Subject:
        path = tmp_path / "run"
        made: list[str | None] = []
        for (begin, end, lines), node in zip(segments, [*nodes, *[nodes[-1]] * len(segments)], strict=False):
            facts = {"run": "d12", "started": clock(begin), "ended": None if end is None else clock(end)}
            add = run.add_segment if node in made else run.create
            segment = add(path, facts, node=node)
            made.append(node)
            fill(segment, lines)
        return subjects.of(path)

    return recorded
