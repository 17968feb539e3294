"""Room on the disk that is reserved for a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputel.telemetry import reserve
from gputel.telemetry.reserve import Reserve


@pytest.fixture
def room(tmp_path: Path) -> Reserve:
    (tmp_path / "run.json").write_bytes(b"old")
    taken = Reserve(tmp_path / "run.json")
    taken.take()
    return taken


def test_content_replaces_the_file_and_room_is_reserved_again(room: Reserve, tmp_path: Path) -> None:
    old = room.path.stat().st_ino
    room.write(b"new")
    assert (tmp_path / "run.json").read_bytes() == b"new"
    assert (tmp_path / "run.json").stat().st_ino == old
    assert room.path.stat().st_size == reserve.SIZES[0]
    room.release()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_room_is_lent_by_halves_down_to_the_least(room: Reserve) -> None:
    sizes = []
    for _ in range(4):
        room.lend()
        sizes.append(room.path.stat().st_size)
    assert sizes == [16384, 8192, 8192, 8192]


def test_room_is_enough_for_the_file_and_a_few_digits_more(room: Reserve, tmp_path: Path) -> None:
    os.truncate(tmp_path / "run.json", reserve.SIZES[0] - reserve.SPARE_BYTES)
    assert room.is_enough()
    os.truncate(tmp_path / "run.json", reserve.SIZES[0] - reserve.SPARE_BYTES + 1)
    assert not room.is_enough()
    room.release()
    assert not room.is_enough()
