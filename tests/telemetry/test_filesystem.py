"""Which filesystem a path is on."""

from pathlib import Path

import pytest

from gputel.telemetry import filesystem
from tests.sources import homes


def test_filesystem_of_a_folder_is_that_of_its_longest_mount() -> None:
    if not filesystem.MOUNTS.exists():
        pytest.skip("no /proc here")
    assert filesystem.kind(Path("/proc/self")) == "proc"


def test_filesystem_is_unknown_where_the_system_does_not_say_what_is_mounted(tmp_path: Path) -> None:
    assert filesystem.kind(tmp_path, tmp_path / "none") is None


def test_mounts_are_read_in_one_place() -> None:
    assert homes("/proc/self/mount") | homes("/etc/mtab") == {"telemetry/filesystem.py"}
