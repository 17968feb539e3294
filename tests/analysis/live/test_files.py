"""A file of another program: every byte is read once, whatever is done to the file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputel.analysis.live import files
from gputel.analysis.live.files import GrowingFile
from gputel.telemetry import filesystem


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rest(file: GrowingFile, most: int = 1 << 20) -> str:
    """What is new; not what an earlier one has read."""
    return b"".join(data for data in iter(lambda: file.read(most), b"") if not file.repeated).decode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def test_file_that_does_not_exist_yet_is_waited_for(log: Path) -> None:
    file = GrowingFile(log)
    assert rest(file) == ""
    assert file.trouble == "does not exist yet"
    write(log, "step 1\n")
    assert rest(file) == "step 1\n"
    assert file.trouble is None


def test_half_a_line_comes_as_it_is_and_the_rest_later(log: Path) -> None:
    write(log, "step 1\nst")
    file = GrowingFile(log)
    assert rest(file) == "step 1\nst"
    write(log, "ep 2\n")
    assert rest(file) == "ep 2\n"


def test_rest_of_a_renamed_file_comes_before_the_new_one(log: Path) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    assert rest(file) == "one\n"
    write(log, "two\n")
    log.rename(log.with_name("train.log.1"))
    write(log, "three\n")
    assert rest(file) == "two\nthree\n"


def test_renamed_file_is_read_on_until_there_is_something_in_the_new_one(log: Path) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    log.rename(log.with_name("train.log.1"))
    log.touch()
    write(log.with_name("train.log.1"), "two\n")
    assert rest(file) == "one\ntwo\n"
    write(log, "three\n")
    assert rest(file) == "three\n"


def test_files_that_were_rotated_twice_between_two_reads_come_in_their_order(log: Path) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    assert rest(file) == "one\n"
    for number, text in ((1, "two\n"), (2, "three\n"), (3, "four\n")):
        log.rename(log.with_name(f"train.log-2026112{number}"))
        write(log, text)
        os.utime(log, ns=(10**18 * 2 + number, 10**18 * 2 + number))
    assert rest(file) == "two\nthree\nfour\n"


def test_file_that_was_cut_is_read_from_its_beginning(log: Path) -> None:
    write(log, "one\ntwo\n")
    file = GrowingFile(log)
    assert rest(file) == "one\ntwo\n"
    os.truncate(log, 0)
    write(log, "new\n")
    assert rest(file) == "new\n"
    assert file.turns == 1


def test_file_that_was_cut_and_has_grown_beyond_where_it_was_is_known_by_its_beginning(log: Path) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    assert rest(file) == "one\n"
    os.truncate(log, 0)
    write(log, "another, and longer\n")
    assert rest(file) == "another, and longer\n"


def test_bytes_copied_before_the_cut_are_read_from_the_copy(log: Path) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    assert rest(file) == "one\n"
    write(log, "two\n")
    shutil.copy(log, log.with_name("train.log.1"))
    os.truncate(log, 0)
    write(log, "three\n")
    assert rest(file) == "two\nthree\n"


def test_line_that_lost_its_end_is_ended(log: Path) -> None:
    write(log, "one\ntw")
    file = GrowingFile(log)
    assert rest(file) == "one\ntw"
    os.truncate(log, 0)
    write(log, "three\n")
    assert rest(file) == "\nthree\n"


def test_deleted_file_is_read_to_its_end_and_the_one_that_is_made_later_from_its_beginning(
    log: Path,
) -> None:
    write(log, "one\n")
    file = GrowingFile(log)
    assert rest(file) == "one\n"
    with log.open("a") as writer:
        log.unlink()
        writer.write("two\n")
    assert rest(file) == "two\n"
    write(log, "three\n")
    assert rest(file) == "three\n"


def test_hundred_megabytes_at_once_come_in_pieces(log: Path) -> None:
    log.touch()
    file = GrowingFile(log)
    with log.open("wb") as writer:
        writer.truncate(100_000_000)
    sizes = [len(piece) for piece in iter(lambda: file.read(4 << 20), b"")]
    assert sum(sizes) == 100_000_000
    assert max(sizes) <= 4 << 20


def test_longer_copy_in_its_place_is_the_same_log(log: Path) -> None:
    write(log, "one\ntwo\n")
    file = GrowingFile(log)
    assert rest(file) == "one\ntwo\n"
    write(log.with_name("draft"), "one\ntwo\nthree\n")
    log.with_name("draft").replace(log)
    assert rest(file) == "three\n"


def test_unreadable_file_is_named(log: Path) -> None:
    log.symlink_to(log)
    file = GrowingFile(log)
    assert rest(file) == ""
    assert file.trouble == "cannot be read: Too many levels of symbolic links"


def test_another_follower_goes_on_where_the_first_was(log: Path) -> None:
    write(log, "one\ntwo\n")
    first = GrowingFile(log)
    first.read(5)
    second = GrowingFile(log, first.place)
    assert (second.read(4), second.repeats, second.place) == (b"one\n", 1, first.place)
    assert rest(second) == "wo\n"


def test_pipe_where_a_file_was_is_named_and_holds_nothing_up(log: Path) -> None:
    log.write_bytes(b"a\n")
    first = GrowingFile(log)
    first.read()
    log.unlink()
    os.mkfifo(log)
    second = GrowingFile(log, first.place)
    assert second.read() == b""
    assert second.trouble == "cannot be read: not a regular file"


def test_another_follower_finds_what_was_rotated_away_meanwhile(log: Path) -> None:
    write(log, "one\n")
    first = GrowingFile(log)
    assert rest(first) == "one\n"
    write(log, "two\n")
    for number, text in ((2, "three\n"), (1, "four\n")):
        log.rename(log.with_name(f"train.log.{number}"))
        write(log, text)
    assert rest(GrowingFile(log, first.place)) == "two\nthree\nfour\n"


def test_another_follower_begins_again_where_nothing_is_left_of_the_file(log: Path) -> None:
    write(log, "one\ntw")
    first = GrowingFile(log)
    assert rest(first) == "one\ntw"
    log.unlink()
    write(log, "other\n")
    assert rest(GrowingFile(log, first.place)) == "other\n"


def test_another_follower_reads_a_file_that_was_cut_and_then_rotated(log: Path) -> None:
    write(log, "one\n")
    first = GrowingFile(log)
    assert rest(first) == "one\n"
    os.truncate(log, 0)
    write(log, "two\n")
    log.rename(log.with_name("train.log.1"))
    write(log, "three\n")
    assert rest(GrowingFile(log, first.place)) == "two\nthree\n"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.sampled_from(["write", "half", "rotate", "read", "some", "again"]), max_size=40))
def test_every_byte_comes_once_and_in_order_however_often_the_file_is_rotated(
    tmp_path: Path, deeds: list[str]
) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    log = folder / "train.log"
    log.touch()
    file, written, read, turns = GrowingFile(log), "", "", 0
    for number, deed in enumerate(deeds):
        text = {"write": f"step {number}\n", "half": f"half {number}"}.get(deed, "")
        write(log, text)
        written += text
        if deed == "rotate":
            turns += 1
            log.rename(log.with_name(f"train.log.{1000 - turns}"))
            log.touch()
        elif deed == "read":
            read += rest(file, 3)
        elif deed == "some":
            data = file.read(2).decode()
            read += "" if file.repeated else data
        elif deed == "again":
            place = file.place
            file.close()
            file = GrowingFile(log, place)
    write(log, "end\n")
    read += rest(file, 5)
    file.close()
    assert read == written + "end\n"


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /mnt/shared\\040logs rw - nfs4 server:/logs rw
31 22 0:31 / /var/lib rw - overlay overlay rw
32 22 0:32 / /mnt/windows rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "note"),
    [
        ("/home/me/train.log", "ext4", None),
        (
            "/mnt/shared logs/a.log",
            "nfs4",
            "/mnt/shared logs/a.log is on nfs4: read every second, since changes by other machines "
            "are not notified",
        ),
        (
            "/mnt/windows/a.log",
            "cifs",
            "/mnt/windows/a.log is on cifs: read every second, since changes by other machines are not notified",
        ),
        (
            "/var/lib/a.log",
            "overlay",
            "/var/lib/a.log is on overlay: writes to a lower layer are seen within a second",
        ),
    ],
)
def test_filesystem_of_a_log_is_recognized(tmp_path: Path, path: str, kind: str, note: str | None) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert filesystem.kind(Path(path), table) == kind
    assert files.filesystem_note(Path(path), kind) == note
    assert files.notifies(kind) == (kind in ("ext4", "overlay"))
