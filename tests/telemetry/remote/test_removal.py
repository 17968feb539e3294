"""What is removed from a machine is in storage, byte for byte; otherwise nothing is removed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import courier, removal
from gputel.telemetry.remote.local_copy import local_copy
from gputel.telemetry.remote.storage import Storage
from tests.command import gputel
from tests.telemetry.remote.test_courier import recording

Files = Callable[[Path], dict[str, bytes]]


def send(run: Path, address: str) -> tuple[Storage, dict[Path, str]]:
    storage = Storage(address, create=True)
    return storage, courier.send(run, storage).homes


def test_run_is_gone_here_and_whole_in_storage(sample_run: Path, address: str, files: Files) -> None:
    before = files(sample_run)
    storage, homes = send(sample_run, address)
    removed = removal.remove(sample_run, storage, homes)
    assert not sample_run.exists()
    assert (removed.files, removed.bytes, removed.left) == (len(before), sum(map(len, before.values())), ())
    there = files(local_copy(address).path)
    assert {file: there.get(file) for file in before} == before


def test_what_is_never_sent_stays(sample_run: Path, address: str, files: Files) -> None:
    for path in (sample_run / "source" / "train.py", sample_run / "notes.txt", sample_run / "gpu" / ".mine"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (sample_run / "gpu" / run_folder.COMPACT_LOCK).touch()
    storage, homes = send(sample_run, address)
    left = removal.remove(sample_run, storage, homes).left
    assert [f"{path.relative_to(sample_run)}" for path in left] == [
        "gpu/.mine",
        "notes.txt",
        "source/train.py",
    ]
    assert set(files(sample_run)) == {"notes.txt", "source/train.py"}


@pytest.mark.parametrize(
    "file", ["run.json", "output.log", "segments/2/output.idx", "segments/2/gpu/fast-000001.parquet"]
)
def test_byte_that_differs_in_storage_keeps_all_files(
    file: str, sample_run: Path, address: str, files: Files
) -> None:
    storage, homes = send(sample_run, address)
    content = bytearray((sample_run / file).read_bytes())
    content[len(content) // 2] ^= 1
    (sample_run / file).write_bytes(content)
    before = files(sample_run)
    with pytest.raises(
        GputelError, match=rf"does not hold .*/{file} as on this machine; nothing was removed"
    ):
        removal.remove(sample_run, storage, homes)
    assert files(sample_run) == before


def test_run_whose_secrets_storage_has_as_stars_stays(live_run: Path, address: str) -> None:
    run_folder.update(live_run, **{courier.MASKS_OUTPUT: True})
    (live_run / "output.log").write_bytes(b"export API_KEY=sk-abcdefghijklmnopqrstuvwx0123456789\n")
    storage, homes = send(live_run, address)
    with pytest.raises(
        GputelError, match=r"does not hold .*/output\.log as on this machine; nothing was removed"
    ):
        removal.remove(live_run, storage, homes)


def test_bundle_that_storage_has_lost_keeps_all_files(
    live_run: Path, address: str, tmp_path: Path, files: Files
) -> None:
    storage, _ = send(live_run, address)
    with (live_run / "output.log").open("ab") as log:
        log.write(b"step 3\n")
    _, homes = send(live_run, address)
    (tmp_path / "bucket" / "d12" / "fresh" / "00000001").unlink()
    with pytest.raises(GputelError, match=r"does not hold .*/output\.idx, .*/output\.log as on this machine"):
        removal.remove(live_run, storage, homes)
    assert (live_run / run_folder.DESCRIPTION).exists()


def test_rest_of_an_interrupted_removal_is_no_run_that_could_be_sealed_again(
    sample_run: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, homes = send(sample_run, address)
    whole, count = Path.unlink, iter(range(5))

    def interrupted(path: Path) -> None:
        if next(count) == 4:
            raise KeyboardInterrupt
        whole(path)

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt):
        removal.remove(sample_run, storage, homes)
    assert not run_folder.is_run(sample_run)
    assert not run_folder.is_run(sample_run / "segments" / "2")


def test_recording_that_would_go_on_with_the_run_is_refused_meanwhile(
    sample_run: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, homes = send(sample_run, address)
    find, refused = Storage.find, list[str]()

    def going_on(storage: Storage, name: str) -> bytes | None:
        with pytest.raises(GputelError) as error:
            run_folder.add_segment(sample_run, {"run": "h100"})
        refused.append(error.value.fault)
        return find(storage, name)

    monkeypatch.setattr(Storage, "find", going_on)
    removal.remove(sample_run, storage, homes)
    me = f"process {os.getpid()} on {socket.gethostname()}"
    assert set(refused) == {f"is still in use by {me}, which removes it"}
    assert not sample_run.exists()


def test_segment_that_was_recorded_since_keeps_all_files(
    sample_run: Path, address: str, files: Files
) -> None:
    storage, homes = send(sample_run, address)
    run_folder.add_segment(sample_run, {"run": "h100"})
    before = files(sample_run)
    with pytest.raises(
        GputelError, match=r"does not hold .*/segments/3 as on this machine; nothing was removed"
    ):
        removal.remove(sample_run, storage, homes)
    assert files(sample_run) == before


@pytest.mark.parametrize(("facts", "stays"), [('{"facts_version": 1}', False), ('{"mine": 1}', True)])
def test_row_of_a_run_of_nodes_goes_with_its_nodes(
    facts: str, stays: bool, tmp_path: Path, address: str
) -> None:
    run = tmp_path / "d20"
    for node in ("0", "1"):
        run_folder.create(run, {"run": "d20"}, node=node)
    (run / "facts.json").write_text(facts)
    storage, homes = send(run, address)
    removed = removal.remove(run, storage, homes)
    assert (run.exists(), removed.left) == (stays, (run / "facts.json",) if stays else ())


def test_sync_says_what_it_removed(sample_run: Path, address: str) -> None:
    (sample_run / "notes.txt").touch()
    count = sum(path.is_file() for path in sample_run.rglob("*")) - 1
    said = gputel("sync", sample_run, address, "--remove")
    assert said.returncode == 0
    assert f"removed {count} files, " in said.stdout
    assert f"not removed, as it is never sent: 1 file, such as {sample_run}/notes.txt" in said.stderr


def test_run_that_is_still_recorded_is_not_removed(live_run: Path, address: str) -> None:
    with recording(live_run):
        said = gputel("sync", live_run, address, "--remove")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1] == f"error: {live_run}: is still being recorded; nothing was removed"
    assert (live_run / "output.log").exists()
