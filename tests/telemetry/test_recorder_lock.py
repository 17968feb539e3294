"""Who records a segment now."""

import os
import socket
from pathlib import Path

import pytest

from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.errors import GputelError

FACTS = {"run": "d12"}


def test_recorder_of_a_segment_is_known_while_it_holds_the_lock(tmp_path: Path) -> None:
    folder = run_folder.create(tmp_path / "a", FACTS).path
    assert recorder_lock.recorder_of(folder) is None
    lock = recorder_lock.hold(folder)
    assert recorder_lock.recorder_of(folder) == f"process {os.getpid()} on {socket.gethostname()}"
    with pytest.raises(GputelError, match="is still in use by process"):
        run_folder.add_segment(tmp_path / "a", FACTS)
    assert run_folder.add_segment(tmp_path / "a", FACTS, node="1").node == "1"
    os.close(lock)
    assert recorder_lock.recorder_of(folder) is None
