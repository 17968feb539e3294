"""Facts that several figures share have one definition in the source, and the figures agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gputel.analysis

ROOMS = Path(gputel.analysis.__file__).resolve().parent

DEFINITIONS = {
    "joules": (r"coalesce\(\s*['\"]energy_counter_j", "align/join.py"),
}


def homes(pattern: str) -> list[str]:
    """The modules of the package's analysis in which the pattern occurs."""
    return [
        str(path.relative_to(ROOMS))
        for path in sorted(ROOMS.rglob("*.py"))
        if re.search(pattern, path.read_text())
    ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_stands_in_one_module(name: str) -> None:
    pattern, home = DEFINITIONS[name]
    assert homes(pattern) == [home]
