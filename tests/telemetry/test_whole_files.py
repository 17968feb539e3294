"""A file is the old one or the new one, whatever happens to its writer."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import whole_files
from gputel.telemetry.whole_files import Reserve, write_whole

KILLED = """
import os, signal, sys
from pathlib import Path
from gputel.telemetry.whole_files import write_whole

def content(part):
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(Path(sys.argv[1]), content)
"""


def test_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_whole(path, b"new")
    assert path.read_text() == "new"


def test_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="File too large"):
            write_whole(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"a.csv": "old"}


def test_new_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["é" * 127, "a" * 255])
def test_longest_names_can_be_drafted(name: str, tmp_path: Path) -> None:
    write_whole(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


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
    assert room.path.stat().st_size == whole_files.RESERVE_SIZES[0]
    room.release()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_room_is_lent_by_halves_down_to_the_least(room: Reserve) -> None:
    sizes = []
    for _ in range(4):
        room.lend()
        sizes.append(room.path.stat().st_size)
    assert sizes == [16384, 8192, 8192, 8192]


def test_room_is_enough_for_the_file_and_a_few_digits_more(room: Reserve, tmp_path: Path) -> None:
    os.truncate(tmp_path / "run.json", whole_files.RESERVE_SIZES[0] - whole_files.SPARE_BYTES)
    assert room.is_enough()
    os.truncate(tmp_path / "run.json", whole_files.RESERVE_SIZES[0] - whole_files.SPARE_BYTES + 1)
    assert not room.is_enough()
    room.release()
    assert not room.is_enough()
