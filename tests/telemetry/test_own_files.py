"""What lies in place of a run folder's files."""

import os
from pathlib import Path

import pytest

from gputel.telemetry import events, recorder_lock, run_folder
from gputel.telemetry.errors import DamagedFile, GputelError
from gputel.telemetry.own_files import ForeignFileError, is_foreign, read_own


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd", "/etc", "pipe", "nothing", "file", "circle"])
def test_foreign_file_is_a_link_out_a_pipe_a_device_or_a_folder(tmp_path: Path, target: str) -> None:
    path = tmp_path / "run" / "file"
    path.parent.mkdir()
    if target == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name if target == "circle" else target if target != "file" else "../file")
    (tmp_path / "file").touch()
    assert is_foreign(path)
    with pytest.raises(ForeignFileError):
        read_own(path)


def test_own_file_may_be_missing_and_may_be_a_link_within_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("a")
    assert not any(is_foreign(tmp_path / name) for name in ("a", "b", "missing"))
    assert is_foreign(tmp_path / "a", folder=True)
    assert is_foreign(tmp_path)
    assert not is_foreign(tmp_path, folder=True)


def test_file_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = run_folder.create(tmp_path / "run", {"run": "a"}).path
    for name in (events.NAME, run_folder.DESCRIPTION):
        with (segment / name).open("wb") as file:
            file.truncate(1 << 40)
    monkeypatch.setattr(events, "LARGEST", 1 << 20)
    with pytest.warns(DamagedFile, match="larger than 1 MiB"):
        assert not list(events.read(segment))
    with pytest.raises(GputelError, match="larger than 64 MiB"):
        run_folder.describe(segment)


def test_nothing_is_written_through_a_link_in_a_run_folder(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "run", {"run": "a"}).path
    target = tmp_path / "bashrc"
    target.write_text("mine")
    for name in (events.NAME, recorder_lock.NAME, run_folder.LOCK):
        (segment / name).symlink_to(target)
    for write in (
        lambda: events.append(segment, 0, "mark", "here"),
        lambda: recorder_lock.hold(segment),
        lambda: run_folder.update(segment, run="b"),
    ):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            write()
    assert recorder_lock.recorder_of(segment) is None
    assert target.read_text() == "mine"
