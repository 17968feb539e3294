"""What the sampling process writes into the run folder, on a disk that is full."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.sampling.folder_writer import FolderWriter


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A segment on a disk that has no room left but what was reserved."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "small", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a small disk")
    try:
        segment = run_folder.create(place / "run", {"run": "made"}).path
        run_folder.reserve(segment).take()
        with contextlib.suppress(OSError), (place / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        yield segment
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_event_that_waited_for_room_to_the_end_is_written_into_what_was_reserved(full_disk: Path) -> None:
    writer = FolderWriter(full_disk, SystemClock())
    writer.event("no_telemetry", "the driver does not answer")
    writer.close()
    assert [event["text"] for event in events.read(full_disk)] == ["the driver does not answer"]
    run_folder.update_end(full_disk, {"exit_code": 3})
    assert run_folder.describe(full_disk)["exit_code"] == 3


def test_facts_of_the_end_and_events_both_find_room(full_disk: Path) -> None:
    writer = FolderWriter(full_disk, SystemClock())
    writer.event("gpu_lost", "GPU 0 does not answer", gpu="0")
    writer.describe_end(host_sampling={"cpu_share": 0.004})
    writer.event("no_telemetry", "the driver does not answer")
    writer.close()
    assert [event["kind"] for event in events.read(full_disk)] == ["gpu_lost", "no_telemetry"]
    assert run_folder.describe(full_disk)["host_sampling"] == {"cpu_share": 0.004}
