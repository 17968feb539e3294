"""Whether a process still writes a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.logs import open_files

OPEN = "import sys; f = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"


@pytest.mark.parametrize(("mode", "writes"), [("a", True), ("r", False)])
def test_file_has_a_writer_while_a_process_has_it_open_for_writing(
    tmp_path: Path, mode: str, writes: bool
) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    command = [sys.executable, "-c", OPEN, str(log), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        now = log.stat().st_mtime + open_files.FEW_S + 1e9  # it has grown since any snapshot
        handle = open_files.handle(log, now)
        assert (handle is not None) is writes
        assert open_files.has_writer(log, now) is writes
        if handle is not None:
            assert handle.parts[2] == str(process.pid)
            assert open_files.holds(handle, log)
        process.stdin.close()
    assert not open_files.has_writer(log, now)
    if handle is not None:
        assert not open_files.holds(handle, log)


def test_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "latest.log").symlink_to("train.log")
    with (tmp_path / "train.log").open("w"):
        assert open_files.has_writer(tmp_path / "latest.log", 1e12)
