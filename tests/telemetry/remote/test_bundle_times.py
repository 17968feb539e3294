"""What a local copy keeps of when bundles were sent and stored."""

from datetime import datetime, timezone
from pathlib import Path

from gputel.telemetry.clock import Stamp, boot_name
from gputel.telemetry.remote import bundle_times, bundles
from gputel.telemetry.remote.bundle_times import Sighting
from gputel.telemetry.remote.storage import StoredObject

BOOT = f"{boot_name()}"


def append(segment: Path, number: int, sent: int, acked_before: int | None, stored_s: int) -> None:
    acked = None if acked_before is None else Stamp(0, 0, acked_before)
    bundle = bundles.encode([], {}, Stamp(0, 0, sent), acked)
    stored = datetime.fromtimestamp(stored_s, timezone.utc)
    bundle_times.append(
        segment / bundle_times.NAME, StoredObject(f"fresh/{number:08d}", 1, stored, ""), bundle
    )


def test_each_bundle_is_acknowledged_by_the_next(tmp_path: Path) -> None:
    append(tmp_path, 1, 10, None, 1)
    append(tmp_path, 2, 30, 20, 2)
    assert bundle_times.read(tmp_path, BOOT) == [Sighting(10, 10**9, 20), Sighting(30, 2 * 10**9, None)]


def test_bundle_that_another_machine_sent_is_left_out(tmp_path: Path) -> None:
    append(tmp_path, 1, 10, None, 1)
    assert bundle_times.read(tmp_path, "of another machine") == []


def test_bundle_whose_storage_tells_no_time_is_left_out(tmp_path: Path) -> None:
    append(tmp_path, 1, 10, None, 0)
    assert bundle_times.read(tmp_path, BOOT) == []


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    append(tmp_path, 1, 10, None, 1)
    with (tmp_path / bundle_times.NAME).open("ab") as file:
        file.write(b'[1]\n{"number": "2"}\n\xff\n{"numb')
    assert len(bundle_times.read(tmp_path, BOOT)) == 1
    assert bundle_times.read(tmp_path / "none", BOOT) == []
