"""The courier: whatever happens on the way, what arrives is the run folder."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import courier, file_kinds, masked_output
from gputel.telemetry.remote.local_copy import local_copy
from gputel.telemetry.remote.storage import Storage

Files = Callable[[Path], dict[str, bytes]]


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@contextmanager
def recording(segment: Path) -> Iterator[None]:
    """As if a recorder were at work."""
    handle = recorder_lock.hold(segment)
    try:
        yield
    finally:
        os.close(handle)


def test_all_files_of_all_segments_arrive(sample_run: Path, address: str, files: Files) -> None:
    courier.send(sample_run, Storage(address, create=True))
    copy = local_copy(address)
    seals = {file_kinds.SEAL, f"segments/2/{file_kinds.SEAL}"}
    assert {file: content for file, content in files(copy.path).items() if file not in seals} == files(
        sample_run
    )
    assert not copy.unsealed


def test_what_is_there_is_not_sent_again(sample_run: Path, address: str) -> None:
    assert courier.send(sample_run, Storage(address, create=True)).objects > 0
    assert courier.send(sample_run, Storage(address, create=True)) == courier.Sent()


def test_growth_alone_is_sent_and_the_seal_waits_for_the_end(
    live_run: Path, address: str, files: Files
) -> None:
    with recording(live_run):
        first = courier.send(live_run, Storage(address, create=True))
        assert first.unsealed
        assert list(local_copy(address).unsealed) == [""]
        append(live_run / "output.log", b"step 3\n")
        append(live_run / "output.idx", bytes(16))
        courier.send(live_run, Storage(address, create=True))
    assert files(local_copy(address).path) == files(live_run)
    courier.send(live_run, Storage(address, create=True))
    copy = local_copy(address)
    assert not copy.unsealed
    assert (copy.path / "output.log").read_bytes() == b"step 1\nstep 2\nstep 3\n"


def test_journal_that_was_compacted_since_is_replaced(live_run: Path, address: str) -> None:
    journal = live_run / "gpu" / "fast-000001.gtb"
    journal.write_bytes(b"ticks")
    with recording(live_run):
        courier.send(live_run, Storage(address, create=True))
    assert (local_copy(address).path / "gpu" / "fast-000001.gtb").read_bytes() == b"ticks"
    journal.rename(journal.with_suffix(".parquet"))
    courier.send(live_run, Storage(address, create=True))
    gpu = local_copy(address).path / "gpu"
    assert [path.name for path in gpu.iterdir()] == ["fast-000001.parquet"]


class LosingStorage(Storage):
    """Loses requests, and answers to requests that were done."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, create=True)
        self._random = random.Random(seed)

    def _lose(self) -> None:
        if self._random.random() < 0.25:
            raise GputelError(self.address, "lost")

    def put(self, name: str, content: bytes, kind: str | None = None) -> None:
        self._lose()
        super().put(name, content, kind)
        self._lose()

    def put_new(self, name: str, content: bytes) -> bool:
        self._lose()
        is_new = super().put_new(name, content)
        self._lose()
        return is_new


@pytest.mark.parametrize("seed", range(8))
def test_run_arrives_whole_through_lost_requests_and_lost_answers(
    seed: int, live_run: Path, address: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "PIECE_BYTES", 10)
    storage, chosen = LosingStorage(address, seed), random.Random(seed)
    lines = 0
    for _ in range(2000):
        if lines < 30 and chosen.random() < 0.5:
            lines += 1
            append(live_run / "output.log", b"step %d\n" % lines * chosen.randrange(1, 4))
        try:
            courier.send(live_run, storage)
        except GputelError:
            continue
        if lines == 30:
            break
    copy = local_copy(address)
    assert not copy.unsealed
    assert {file: content for file, content in files(copy.path).items() if file != file_kinds.SEAL} == files(
        live_run
    )


def test_two_couriers_that_take_turns_send_nothing_twice(
    live_run: Path, address: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each believes that the number after its last bundle is free."""
    storage = Storage(address, create=True)
    couriers = [courier.Courier(live_run, storage, "", [], courier.Sent()) for _ in range(2)]
    for turn in range(6):
        append(live_run / "output.log", b"step %d\n" % turn)
        couriers[turn % 2].send(over=False)
    copy = local_copy(address).path
    assert (copy / "output.log").read_bytes() == (live_run / "output.log").read_bytes()
    bundles = [each for each in storage.objects() if file_kinds.kind_of(each.name) == "bundle"]
    assert len(bundles) == 6


def test_place_of_another_run_is_refused(live_run: Path, sample_run: Path, address: str) -> None:
    courier.send(live_run, Storage(address, create=True))
    with pytest.raises(GputelError, match="already holds another run"):
        courier.send(sample_run, Storage(address, create=True))


def pod(folder: Path, started: int, **facts: object) -> Path:
    """What a node with a disk of its own records."""
    described = {"run": "d16", "node_rank": 3, "argv": ["train"], "started": {"wall_ns": started}} | facts
    segment = run_folder.create(folder / "nodes" / "3", described)
    segment.output.write_text(f"step {started}\n")
    return folder


def test_pod_that_replaces_another_becomes_the_next_segment_of_its_node(tmp_path: Path, address: str) -> None:
    storage = Storage(address, create=True)
    for started in (1, 2, 3):
        # the first node was replaced, too
        argv = [
            "torchrun",
            "--master_addr",
            f"10.0.0.{started}",
            "train.py",
        ]
        courier.send(pod(tmp_path / f"{started}", started, argv=argv), storage)
    courier.send(tmp_path / "2", storage)
    copy = local_copy(address).path
    assert {
        each.path.relative_to(copy).as_posix(): each.output.read_text()
        for each in run_folder.open_folder(copy).segments
    } == {"nodes/3": "step 1\n", "nodes/3/segments/2": "step 2\n", "nodes/3/segments/3": "step 3\n"}


def test_pod_that_trains_something_else_is_refused(tmp_path: Path, address: str) -> None:
    storage = Storage(address, create=True)
    courier.send(pod(tmp_path / "1", 1), storage)
    with pytest.raises(GputelError, match="already holds another run"):
        courier.send(pod(tmp_path / "2", 2, argv=["evaluate"]), storage)


def test_segment_that_was_added_since_is_sent(live_run: Path, address: str) -> None:
    courier.send(live_run, Storage(address, create=True))
    segment = run_folder.add_segment(live_run, {"started": {"wall_ns": 9}})
    segment.output.write_bytes(b"step 3\n")
    courier.send(live_run, Storage(address, create=True))
    copy = local_copy(address).path
    assert [each.number for each in run_folder.open_folder(copy).segments] == [1, 2]
    assert (copy / "segments" / "2" / "output.log").read_bytes() == b"step 3\n"


KEY = b"ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def test_masked_output_is_sent_with_stars_and_the_local_file_stays(live_run: Path, address: str) -> None:
    run_folder.update(live_run, **{courier.MASKS_OUTPUT: True})
    pieces = [
        b"step 3 " + KEY[:10],
        KEY[10:] + b" | loss 2\nstep 4",
        b" | loss 1\n",
        b"password=hunter2isnotgood",
    ]
    with recording(live_run):
        for piece in pieces:
            append(live_run / "output.log", piece)
            courier.send(live_run, Storage(address, create=True))
            assert b"ghp_" not in (local_copy(address).path / "output.log").read_bytes()
    courier.send(live_run, Storage(address, create=True))
    copy = local_copy(address)
    there, here = (copy.path / "output.log").read_bytes(), (live_run / "output.log").read_bytes()
    assert not copy.unsealed
    assert here.endswith(b"".join(pieces))
    assert there == here.replace(KEY, b"*" * len(KEY)).replace(b"hunter2isnotgood", b"*" * 16)


@pytest.mark.parametrize("seed", range(5))
def test_output_is_masked_alike_however_it_is_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    words = [
        b"step 3",
        b" token=",
        KEY,
        b"\n",
        b"\r",
        b" caf\xc3\xa9 ",
        b"\xff",
        b"password: pwD8s7f6d5",
        b" 7.5 ",
    ]
    content = b" ".join(chance.choices(words, k=300))
    (tmp_path / "output.log").write_bytes(content)
    monkeypatch.setattr(masked_output, "CHUNK_BYTES", 37)
    whole = masked_output.masked(content)
    assert b"".join(masked_output.chunks(tmp_path / "output.log")) == whole
    assert len(whole) == len(content)
    assert KEY not in whole


def test_puts_keep_to_a_rate_and_the_first_one_goes_at_once() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    rate = courier.SendingRate(1000, lambda: now[0], sleep)
    for size in (5000, 100, 100):
        rate.wait(size)
    assert slept == [5.0, pytest.approx(0.1)]
    now[0] += 60
    rate.wait(100)
    assert len(slept) == 2


def test_sending_waits_for_its_turn(live_run: Path, address: str) -> None:
    sizes: list[int] = []

    class Counting(courier.SendingRate):
        def wait(self, size: int) -> None:
            sizes.append(size)

    sent, storage = courier.Sent(), Storage(address, create=True)
    courier.Courier(live_run, storage, "", [], sent, rate=Counting()).send(over=True)
    assert sum(sizes) == sent.bytes - len((live_run / "run.json").read_bytes())  # which claims the place
