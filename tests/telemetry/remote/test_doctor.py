"""Storage that is unfit, or that differs from what one expects, is named with what to do."""

import time
from pathlib import Path

import pytest

from gputel.telemetry.doctor import Check
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import doctor
from gputel.telemetry.remote.storage import Storage


def checks(address: str, ahead_s: float = 0.0) -> dict[str, Check]:
    return {each.check: each for each in doctor.examine(address, lambda: time.time() + ahead_s)}


def test_fit_storage_is_good_throughout_and_nothing_stays(address: str, tmp_path: Path) -> None:
    found = checks(address)
    assert {each.state for each in found.values()} == {"good"}
    assert not list((tmp_path / "bucket" / "d12").iterdir())


@pytest.mark.parametrize(
    ("ahead_s", "text"), [(300, "300 s ahead of the storage"), (-60, "60 s behind the storage")]
)
def test_clock_that_differs_is_poor(ahead_s: float, text: str, address: str) -> None:
    found = checks(address, ahead_s)["storage's clock"]
    assert (found.state, found.found[:16]) == ("poor", "this machine is ")
    assert abs(int(found.found.split()[3]) - abs(ahead_s)) <= 1
    assert found.found.endswith(text.partition(" s ")[2])


def test_storage_that_replaces_objects_is_poor(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(storage: Storage, name: str, content: bytes) -> bool:
        storage.put(name, content)
        return True

    monkeypatch.setattr(Storage, "put_new", replace)
    assert checks(address)["conditional puts"].state == "poor"


def test_key_that_may_not_delete_leaves_two_objects_and_says_which(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_storage: Storage, _name: str) -> None:
        raise GputelError("file:", "the key has no right to do this")

    monkeypatch.setattr(Storage, "delete", refuse)
    found = checks(address)["delete"]
    assert found.state == "good"
    assert all(path.name in found.found for path in (tmp_path / "bucket" / "d12").iterdir())


def test_storage_that_cannot_be_reached_is_bad_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("ENDPOINT_URL", "http://127.0.0.1:1"),
        ("ACCESS_KEY_ID", "A"),
        ("SECRET_ACCESS_KEY", "B"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert checks("s3://bucket/runs") == {
        "storage": Check(
            "storage", "bad", "its endpoint cannot be reached", "check its address and the network"
        )
    }
