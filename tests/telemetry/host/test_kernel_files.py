from __future__ import annotations

from pathlib import Path

from gputel.telemetry.host import kernel_files
from gputel.telemetry.host.kernel_files import KernelFile


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_file_is_read_from_its_start_each_time(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("1")
    file = KernelFile(path)
    assert file.read() == b"1"
    path.write_text("22")
    assert file.read() == b"22"
    file.close()


def test_file_longer_than_its_buffer_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_bytes(b"x" * 1000)
    file = KernelFile(path, size=64)
    assert file.read() == b"x" * 1000


def test_missing_file_is_null_says_why_and_is_tried_again_later(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    file = KernelFile(path)
    assert file.read() is None
    assert file.why() == f"{path}: no such file or directory"
    path.write_text("1")
    assert file.read() is None  # a minute has not passed
    file._retry_at -= kernel_files.TRY_AGAIN_S
    assert file.read() == b"1"
    assert file.why() is None


def test_failed_read_closes_the_descriptor(tmp_path: Path) -> None:
    """A folder can be opened, and reading it fails, as that of pressure files does where they are switched off."""
    before = descriptors()
    file = KernelFile(tmp_path)
    assert file.read() is None
    assert file.why() == f"{tmp_path}: is a directory"
    assert descriptors() == before
