"""Whether a log has a writer: by real processes that hold it open, or do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis.live import runs
from gputel.analysis.live.runs import WriterCheck

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc says who writes a file")


class Scene:
    """A log that was written at 1000, a look at it, and a clock that shows ten minutes later."""

    def __init__(self, path: Path) -> None:
        self.path, self.now = path, 1600.0
        self.grow(1000.0)
        self.written = WriterCheck(path, lambda: self.now)

    def grow(self, moment: float) -> None:
        with self.path.open("a") as log:
            log.write("step 1 | loss: 3.0\n")
        os.utime(self.path, (moment, moment))

    def look(self) -> bool | None:
        return self.written.look(self.path.stat().st_mtime)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    # what was seen some seconds ago does not count
    monkeypatch.setattr("gputel.analysis.logs.open_files.FEW_S", 1e-9)
    return Scene(tmp_path / "train.log")


@pytest.fixture
def writer(scene: Scene) -> Iterator[subprocess.Popen[bytes]]:
    with scene.path.open("ab") as log:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
    with process:
        yield process


def test_log_that_a_process_holds_open_is_written_until_it_ends(
    scene: Scene, writer: subprocess.Popen[bytes]
) -> None:
    assert scene.look() is True
    writer.communicate()
    assert [scene.look(), scene.look()] == [False, False]


def test_old_log_has_no_writer(scene: Scene) -> None:
    assert scene.look() is False


def test_log_that_was_written_a_moment_ago_may_have_a_writer(scene: Scene) -> None:
    scene.now = 1000.0 + runs.FRESH_S - 1
    assert scene.look() is None
    scene.now += 1
    assert scene.look() is False


def test_log_that_grows_without_a_visible_writer_may_have_one(scene: Scene) -> None:
    assert scene.look() is False
    scene.grow(1590.0)
    assert scene.look() is None
    scene.now += 10 * runs.FRESH_S
    assert scene.look() is None


def test_writer_that_comes_later_is_seen(scene: Scene) -> None:
    assert scene.look() is False
    with scene.path.open("a"):
        scene.grow(1590.0)
        assert scene.look() is True
    assert scene.look() is False


def test_log_on_a_shared_filesystem_may_have_a_writer_elsewhere(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputel.telemetry.filesystem.kind", lambda _: "nfs4")
    assert scene.look() is None
