"""Real ranks that hang in a known way: the verdict names the rank and its line, ten times for each kind of hang.

A rank that works while the others wait is named in none of the ways to work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import why

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[why.Server]:
    with why.server() as started:
        yield started


PLANTS = [
    *why.plants(19, 10, (2, 3, 4), (*why.KINDS, why.HEALTHY[0])),
    *why.plants(20, 4, (2, 3), why.HEALTHY[1:]),
]


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_planted_hang_is_named(server: why.Server, plant: why.Plant) -> None:
    judged = server.judge(plant)
    assert judged.rank_right, judged
    assert judged.line_right is not False, judged


def test_what_was_judged_is_kept_for_the_next_start(tmp_path: Path) -> None:
    planted = why.plants(19, 1, (2,), ("lock", "healthy"))
    judged = [why.Judged(planted[0], "rank 1 stands", True, True), why.Judged(planted[1], None, True, None)]
    for each in judged:
        why.keep(tmp_path / "kept" / "19.jsonl", 1.5, each)
    assert why.kept(tmp_path / "kept" / "19.jsonl", planted) == [(1.5, each) for each in judged]
    with pytest.raises(RuntimeError, match="of other plants"):
        why.kept(tmp_path / "kept" / "19.jsonl", planted[::-1])


def test_results_keep_what_was_written_by_hand() -> None:
    page = why.RESULT.read_text()
    written = why.with_table(page, ["2026-11-23, seed 1", "", "| planted |", "|---|"])
    kept = [page.partition(why.BEGIN)[0], page.partition(why.END)[2]]
    assert [written.partition(why.BEGIN)[0], written.partition(why.END)[2]] == kept
    assert "## With the default limits" in kept[1]
    assert "seed 1\n\n| planted |\n|---|\n" in written
    assert why.with_table(written, ["again"]) == why.with_table(page, ["again"])
