"""The child process that compacts."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import compact, frames
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings import PATIENCE_S

FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))


SLOW = Tier("slow", 1.0, (TierColumn("fan", "%", 1, "0"),))


Compose = Callable[..., None]


@pytest.fixture(autouse=True)
def _children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each test alone: a test that fails leaves its own."""
    monkeypatch.setattr(compact, "_children", [])


def record(folder: Path, compose: Compose, seconds: int = 12) -> None:
    ticks = [(0, n * SECOND // 10, [n, None if n % 7 == 0 else -n]) for n in range(seconds * 10)]
    ticks += [(1, n * SECOND, [n]) for n in range(seconds)]
    compose(folder, [FAST, SLOW], sorted(ticks, key=lambda tick: tick[1]), seal_after_s=2)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_child_does_it_at_low_priority_and_without_the_user_s_folder(
    tmp_path: Path, compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "gpu", compose, seconds=3)
    (tmp_path / "polars.py").write_text("raise SystemExit('this is the user’s own polars.py')")
    monkeypatch.chdir(tmp_path)
    compact.start(tmp_path / "gpu")
    child = compact._children.pop()
    assert os.getsid(child.pid) == child.pid
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    assert child.communicate()[1] == b""
    assert child.returncode == 0
    assert "fast-000001.parquet" in names(tmp_path / "gpu")


def test_writer_starts_the_child_at_each_seal_and_goes_on(tmp_path: Path, compose: Compose) -> None:
    ticks = [(0, n * SECOND // 10, [n, n]) for n in range(50)]
    compose(tmp_path, [FAST], ticks, seal_after_s=2, compactor=compact.start)
    for child in compact._children:
        assert child.wait(PATIENCE_S) == 0
    compact.start(tmp_path)
    compact._children.pop().communicate()
    assert names(tmp_path) == [
        "fast-000001.parquet",
        "fast-000002.parquet",
        "fast-000003.gtb",
        "seconds-000001.parquet",
        "seconds-000002.parquet",
    ]
    assert frames.ticks(tmp_path).filter(gpu="1")["power_w"].to_list() == [n / 1000 for n in range(50)]


def test_failed_compaction_is_said_at_the_next_seal_and_costs_no_tick(
    tmp_path: Path, compose: Compose
) -> None:
    """The lock of the folder cannot be opened here, as it is a folder itself."""
    (tmp_path / ".compact.lock").mkdir()
    said: list[tuple[str, str]] = []

    def start(folder: Path) -> None:
        compact.start(folder)
        for child in compact._children:
            child.wait(PATIENCE_S)

    ticks = [(0, n * SECOND // 10, [n, n]) for n in range(50)]
    compose(
        tmp_path,
        [FAST],
        ticks,
        seal_after_s=2,
        compactor=start,
        on_trouble=lambda *trouble: said.append(trouble),
    )
    assert [kind for kind, _ in said] == ["compaction"]
    assert said[0][1].startswith("compaction ended with 1: ")
    assert frames.ticks(tmp_path).filter(gpu="1")["power_w"].to_list() == [n / 1000 for n in range(50)]


def test_child_that_fails_is_heard_at_the_next_start(tmp_path: Path) -> None:
    compact.start(tmp_path / "nowhere")
    compact._children[0].wait(PATIENCE_S)
    with pytest.raises(RuntimeError, match=r"compaction ended with 1: FileNotFoundError"):
        compact.start(tmp_path)
    assert not compact._children
