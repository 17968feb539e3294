"""What wakes a follower: a file, a descriptor, another thread."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis.live.wakeups import Wakeups
from tests.recordings import PATIENCE_S


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    opened = Wakeups()
    yield opened
    opened.close()


def test_wait_without_news_ends_at_its_timeout(wakeups: Wakeups) -> None:
    assert wakeups.wait(0) is False


def test_wake_ends_the_wait_of_another_thread_once(wakeups: Wakeups) -> None:
    thread = threading.Thread(target=wakeups.wake)
    thread.start()
    assert wakeups.wait(PATIENCE_S) is True
    thread.join()
    assert wakeups.wait(0) is False


def test_thousand_wakes_are_one(wakeups: Wakeups) -> None:
    for _ in range(100_000):  # more than a pipe holds: none may block
        wakeups.wake()
    assert wakeups.wait(0) is True


def test_readable_descriptor_wakes_until_it_is_left_out(wakeups: Wakeups) -> None:
    read, write = os.pipe()
    wakeups.descriptors([read])
    os.write(write, b"x")
    assert wakeups.wait(PATIENCE_S) is True
    assert wakeups.wait(PATIENCE_S) is True
    wakeups.descriptors([])
    assert wakeups.wait(0) is False
    os.close(read)
    os.close(write)


def test_watched_file_that_grows_wakes(wakeups: Wakeups, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    wakeups.files([log])
    log.write_text("step 1\n")
    assert wakeups.wait(PATIENCE_S) is True


def test_change_of_a_file_beside_does_not_wake(wakeups: Wakeups, tmp_path: Path) -> None:
    wakeups.files([tmp_path / "train.log"])
    wakeups.changed(str(tmp_path / "other.log"))
    assert wakeups.wait(0) is False
    wakeups.changed(str(tmp_path / "other.log"), str(tmp_path / "train.log"))
    assert wakeups.wait(0) is True


def test_paused_notifications_come_back(wakeups: Wakeups, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    wakeups.files([log])
    wakeups.pause()
    assert wakeups.paused
    wakeups.resume()
    while wakeups.wait(0):
        pass
    log.write_text("step 1\n")
    assert wakeups.wait(PATIENCE_S) is True
