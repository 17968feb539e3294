"""The thread that syncs files to the disk."""

import os
from pathlib import Path

import pytest

from gputel.telemetry.store.part_writer import Syncer
from tests.recordings import until


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_sealed_file_is_synced_and_closed_before_its_callback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    descriptor = os.open(tmp_path / "journal", os.O_WRONLY | os.O_CREAT)
    seen: list[tuple[bool, bool]] = []
    syncer = Syncer(list, lambda *trouble: pytest.fail(str(trouble)))
    syncer.seal([descriptor], lambda: seen.append((descriptor in synced, is_open(descriptor))))
    until(lambda: seen, "the callback")
    assert syncer.close(60)
    assert seen == [(True, False)]


def test_close_finishes_what_was_sealed_just_before(tmp_path: Path) -> None:
    sealed: list[int] = []
    syncer = Syncer(list, lambda *trouble: pytest.fail(str(trouble)))
    for number in range(20):
        descriptor = os.open(tmp_path / str(number), os.O_WRONLY | os.O_CREAT)
        syncer.seal([descriptor], lambda number=number: sealed.append(number))  # type: ignore[misc]
    assert syncer.close(60)
    assert sealed == list(range(20))


def test_disk_error_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    troubles: list[tuple[str, str]] = []
    syncer = Syncer(list, lambda *trouble: troubles.append(trouble))
    files = [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in "ab"]
    syncer.seal(files, lambda: None)
    assert syncer.close(60)
    assert troubles == [("disk_error", "telemetry may not survive a power failure: Input/output error")]
    assert not any(is_open(descriptor) for descriptor in files)
