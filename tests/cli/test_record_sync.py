"""`gputel record --sync`: the run arrives, and the command never notices."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gputel.cli import sync
from gputel.telemetry import events, run_folder
from gputel.telemetry.remote.local_copy import local_copy
from tests.command import gputel
from tests.recordings import until

pytest.importorskip("obstore", reason="the extra s3 is not installed")

TRAINING = "for step in range(3): print('step', step, '| loss', 3 - step)\nraise SystemExit(7)"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")


def record(
    tmp_path: Path, address: str, *command: str, options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "gputel",
        "record",
        "--simulate",
        "1xH100",
        "--out",
        f"{tmp_path}/runs/d16",
    ]
    return subprocess.Popen(
        [*words, "--sync", address, *options, "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def contents(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    unsent = {name for name in files if name.startswith((".", "source/")) or name == "sealed.json"}
    return {name: path.read_bytes() for name, path in files.items() if name not in unsent}


def test_recording_is_whole_in_storage_when_the_command_ends(tmp_path: Path) -> None:
    recorder = record(tmp_path, f"file://{tmp_path}/bucket/", sys.executable, "-c", TRAINING)
    _, err = recorder.communicate()
    assert recorder.returncode == 7
    assert f"sent      file://{tmp_path}/bucket/d16" in err.decode()
    copy = local_copy(f"file://{tmp_path}/bucket/d16")
    assert not copy.unsealed
    assert contents(copy.path) == contents(tmp_path / "runs" / "d16")


SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def test_masked_output_has_stars_in_storage_alone(tmp_path: Path) -> None:
    recorder = record(
        tmp_path, f"file://{tmp_path}/bucket/", "echo", SECRET, options=["--sync-masked-output"]
    )
    out, err = recorder.communicate()
    assert out.decode() == f"{SECRET}\n"
    assert "the output of the command is sent with stars for its secrets" in err.decode()
    assert (tmp_path / "runs" / "d16" / "output.log").read_text() == f"{SECRET}\n"
    there = local_copy(f"file://{tmp_path}/bucket/d16").path / "output.log"
    assert there.read_text() == f"{'*' * len(SECRET)}\n"


@pytest.mark.parametrize("option", [["--sync-rate", "1MB"], ["--sync-masked-output"]])
def test_options_of_sending_need_an_address(option: list[str], tmp_path: Path) -> None:
    done = gputel("record", "--simulate", "1xH100", "--out", tmp_path / "d16", *option, "--", "true")
    assert done.returncode == 2
    assert "--sync-rate and --sync-masked-output need --sync" in done.stderr
    assert not list(tmp_path.iterdir())


def test_rate_of_sending_is_in_the_order_for_the_courier(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "d16", {"run": "d16"})
    asked = {
        "sync": f"file://{tmp_path}/bucket/",
        "sync_rate": 5e5,
        "sync_masked_output": False,
        "push": None,
    }
    order = sync.sending(asked, tmp_path / "d16", segment.path)
    assert order is not None
    assert order.sync is not None
    assert (order.sync.address, order.sync.bytes_per_s) == (f"file://{tmp_path}/bucket/d16", 5e5)


def test_dead_network_costs_the_command_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    }.items():
        monkeypatch.setenv(name, value)
    recorder = record(tmp_path, "s3://bucket/d16", sys.executable, "-c", TRAINING)
    out, err = recorder.communicate()
    assert (recorder.returncode, out.count(b"step")) == (7, 3)
    assert "not sent: s3://bucket/d16: its endpoint cannot be reached" in err.decode()
    assert f"gputel sync {tmp_path}/runs/d16 s3://bucket/d16" in err.decode()


class WrongSecret(BaseHTTPRequestHandler):
    """Object storage that refuses the key of each request."""

    def refuse(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        content = b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        self.send_response(403)
        self.send_header("Content-Length", f"{len(content)}")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = refuse  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.mark.long
def test_wrong_secret_is_said_while_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), WrongSecret) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        waits = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
        recorder = record(tmp_path, "s3://bucket/d16", "sh", "-c", waits)
        err = recorder.stderr
        assert err is not None
        fault = "s3://bucket/d16: the key or the token is not accepted; is the secret of this key right?"
        assert f"gputel: sending is held up: {fault}\n" in iter(lambda: err.readline().decode(), "")
        (tmp_path / "go").touch()
        rest = recorder.communicate()[1].decode()
        server.shutdown()
    assert recorder.returncode == 0
    assert "held up" not in rest
    assert f"not sent: {fault}; send it by hand" in rest
    assert [event["kind"] for event in events.read(tmp_path / "runs" / "d16")].count(events.SYNC) == 1


@pytest.mark.parametrize("address", ["s3:/bucket/d16", "https://example.com/d16", "bucket/d16"])
def test_address_that_cannot_be_sent_to_starts_nothing(address: str, tmp_path: Path) -> None:
    recorder = record(tmp_path, address, "touch", f"{tmp_path}/started")
    _, err = recorder.communicate()
    assert recorder.returncode == 2
    assert err.decode() == f"error: {address}: is no address to send to; such as s3://bucket/runs/\n"
    assert not list(tmp_path.iterdir())


def test_several_nodes_need_a_name_that_they_agree_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NODEID", "1")
    monkeypatch.setenv("SLURM_NNODES", "2")
    recorder = record(tmp_path, "s3://bucket/runs/", "touch", f"{tmp_path}/started")
    _, err = recorder.communicate()
    assert "several nodes need one name; name the run: s3://bucket/runs/NAME" in err.decode()
    assert not list(tmp_path.iterdir())


def test_node_that_does_not_know_its_rank_starts_nothing(tmp_path: Path) -> None:
    recorder = record(tmp_path, "s3://bucket/runs/d16", "sh", "-c", "exit 3", "torchrun", "--nnodes=16")
    _, err = recorder.communicate()
    assert recorder.returncode == 2
    assert err.decode() == (
        "error: --sync: the command is one of 16 nodes, and which of them is not known; "
        "set NODE_RANK, from 0 to 15, on each\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_run_whose_viewer_was_killed_is_sent_whole(tmp_path: Path) -> None:
    waits = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo the end"
    recorder = record(tmp_path, f"file://{tmp_path}/bucket/d16", "sh", "-c", waits)
    there = tmp_path / "bucket" / "d16"
    until((there / "run.json").exists, "run.json in the bucket")
    recorder.kill()
    recorder.communicate()
    (tmp_path / "go").write_text("")
    until((there / "sealed.json").exists, "the end of the sending")
    copy = local_copy(f"file://{there}")
    assert (copy.path / "output.log").read_bytes() == b"the end\n"
    assert (copy.path / "run.json").read_bytes() == (tmp_path / "runs" / "d16" / "run.json").read_bytes()
