"""Local copies: fetched once, poured together, never led out of their folder by what storage holds."""

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gputel.telemetry.clock import Stamp
from gputel.telemetry.errors import DamagedFile, GputelError
from gputel.telemetry.remote import bundles, courier, file_kinds, local_copy
from gputel.telemetry.remote.bundles import GrownPiece
from gputel.telemetry.remote.storage import Storage
from tests.telemetry.remote import test_courier

Files = Callable[[Path], dict[str, bytes]]


def test_second_look_fetches_nothing(sample_run: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    courier.send(sample_run, Storage(address, create=True))
    first = local_copy.local_copy(address)
    monkeypatch.setattr(Storage, "get", None)
    assert local_copy.local_copy(address) == first


def test_no_more_is_fetched_than_a_few_objects_ahead_of_the_disk(
    live_run: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Storage(address, create=True)
    with test_courier.recording(live_run):
        for number in range(60):
            test_courier.append(live_run / "output.log", b"step %d\n" % number)
            courier.send(live_run, there)
    get, pour = Storage.get, bundles.decode
    counts = {"fetched": 0, "poured": 0, "ahead": 0}

    def fetched(storage: Storage, name: str) -> bytes:
        counts["fetched"] += 1
        return get(storage, name)

    def poured(content: bytes) -> Iterator[GrownPiece]:
        counts["poured"] += 1
        counts["ahead"] = max(counts["ahead"], counts["fetched"] - counts["poured"])
        return pour(content)

    monkeypatch.setattr(Storage, "get", fetched)
    monkeypatch.setattr(bundles, "decode", poured)
    whole = (local_copy.local_copy(address).path / "output.log").read_bytes()
    assert whole == (live_run / "output.log").read_bytes()
    assert counts["poured"] == 60
    assert counts["ahead"] <= local_copy.MOST_AHEAD + 1


def test_runs_below_an_address_are_copied_together(sample_run: Path, live_run: Path, tmp_path: Path) -> None:
    for run in (sample_run, live_run):
        courier.send(run, Storage(f"file://{tmp_path}/bucket/{run.name}", create=True))
    (tmp_path / "bucket" / "notes.txt").write_text("not of a run")
    copy = local_copy.local_copy(f"file://{tmp_path}/bucket").path
    assert sorted(path.name for path in copy.iterdir()) == ["h100", "live"]


def test_copy_is_shown_as_its_address(sample_run: Path, tmp_path: Path) -> None:
    bucket = f"file://{tmp_path}/bucket"
    courier.send(sample_run, Storage(f"{bucket}/d16", create=True))
    (tmp_path / "bucket" / "train.log").write_text("step 1 | loss: 3.0\n")
    runs, run, log = (local_copy.local_copy(f"{bucket}{below}").path for below in ("/", "/d16", "/train.log"))
    assert local_copy.shown(runs / "d16") == local_copy.shown(run) == f"{bucket}/d16"
    assert local_copy.shown(log) == f"{bucket}/train.log"
    assert local_copy.shown(sample_run) == str(sample_run)
    (circle := tmp_path / "events.jsonl").symlink_to(circle)
    assert local_copy.shown(circle) == str(circle)


def test_log_is_copied_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "train.log").write_text("step 1 | loss 2.5\n")
    path = local_copy.local_copy(f"file://{tmp_path}/bucket/train.log").path
    assert (path.name, path.read_text()) == ("train.log", "step 1 | loss 2.5\n")


def test_address_of_nothing_is_an_error(address: str) -> None:
    with pytest.raises(GputelError, match="nothing is here"):
        local_copy.local_copy(address)


def test_damaged_bundle_costs_itself(live_run: Path, address: str) -> None:
    courier.send(live_run, Storage(address, create=True))
    Storage(address, create=True).put(file_kinds.bundle(2), b"\0\0\0\0damaged")
    with pytest.warns(DamagedFile, match="fresh/00000002: .*damaged"):
        copy = local_copy.local_copy(address)
    assert (copy.path / "output.log").read_bytes() == b"step 1\nstep 2\n"


def test_bundle_writes_no_file_that_does_not_grow(live_run: Path, address: str, tmp_path: Path) -> None:
    courier.send(live_run, Storage(address, create=True))
    hostile = [
        GrownPiece("../../../outside", 0, b"x"),
        GrownPiece("run.json", 0, b"x"),
        GrownPiece(f"{tmp_path}/outside", 0, b"x"),
    ]
    Storage(address, create=True).put(file_kinds.bundle(2), bundles.encode(hostile, {}, Stamp(0, 0, 0)))
    copy = local_copy.local_copy(address).path
    assert (copy / "run.json").read_bytes() == (live_run / "run.json").read_bytes()
    assert not list(tmp_path.rglob("outside"))


def test_file_that_differs_from_its_seal_is_named(live_run: Path, address: str) -> None:
    courier.send(live_run, Storage(address, create=True))
    Storage(address, create=True).put("run.json", (live_run / "run.json").read_bytes() + b"\n")
    with pytest.warns(DamagedFile, match=r"run\.json: is incomplete or changed"):
        local_copy.local_copy(address)


def test_damaged_seal_costs_itself(live_run: Path, address: str) -> None:
    courier.send(live_run, Storage(address, create=True))
    Storage(address, create=True).put(
        file_kinds.SEAL, b'{"files": {"output.log": 3, "../x": {}}, "bundles": "many"}'
    )
    assert (local_copy.local_copy(address).path / "run.json").is_file()


def test_copies_that_were_not_asked_for_the_longest_make_room(
    sample_run: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "MOST_BYTES", 400_000)
    copies = []
    for number in range(4):
        address = f"file://{tmp_path}/bucket/{number}"
        courier.send(sample_run, Storage(address, create=True))
        copies.append(local_copy.local_copy(address).path)
        os.utime(copies[-1].parent, (number, number))
    assert [copy.exists() for copy in copies] == [False, False, True, True]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A plain web server, which lists nothing."""
    folder = tmp_path / "bucket"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def test_sealed_run_is_read_from_a_server_that_lists_nothing(
    server: str, sample_run: Path, tmp_path: Path, files: Files
) -> None:
    courier.send(sample_run, Storage(f"file://{tmp_path}/bucket/d12", create=True))
    copy = local_copy.local_copy(f"{server}/d12").path
    assert files(copy).items() >= files(sample_run).items()
