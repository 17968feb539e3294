"""Questions about the users' runs, and rows that answer them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.plan.inputs import Size, machine, of_depth
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row, row
from gputel.analysis.runs import RunData, read_run
from tests.analysis.plan.scenes import BANNER, STEP, Write

Ask = Callable[..., Question]
Plan = Callable[..., Row]
RECIPE = ("optimizer", "dtype", "shard", "loss", "recompute", "compiled", "flash")


@pytest.fixture
def ask() -> Ask:
    """`ask("2xH100", device_batch=8, shard="zero1")`: what belongs to the recipe goes there."""

    def ask(on: str, *, nodes: int = 1, link: float | None = None, **asked: Any) -> Question:
        recipe = Recipe(1, **{name: asked.pop(name) for name in RECIPE if name in asked})
        return Question(machine(on, nodes=nodes, link_bytes_s=link), recipe, **asked)

    return ask


@pytest.fixture
def plan(ask: Ask) -> Plan:
    """`plan(16, "2xH100", device_batch=8)`: the row of a depth, or of a size."""

    def plan(size: int | Size, on: str, *, vocab: int = 65_536, **asked: Any) -> Row:
        return row(ask(on, **asked), of_depth(size, vocab=vocab) if isinstance(size, int) else size)

    return plan


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A run of depth 12 on eight GPUs; `dt_ms` is the time of each step."""

    def write(dt_ms: float = 180.0, steps: int = 60, banner: str = BANNER, end: str = "") -> RunData:
        lines = [STEP.format(n, dt_ms, 524_288e3 / dt_ms, n * dt_ms / 6e4) for n in range(steps)]
        path = tmp_path / "d12.log"
        path.write_text(banner + "".join(lines) + end)
        return read_run(path)

    return write
