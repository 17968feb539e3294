"""`gputel share`: the page alone goes, masked once more, to a real server of S3's protocol."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.command import gputel as in_process

LOG = "".join(f"step {n} | loss {9 - n}.0\n" for n in range(5))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d16.log").write_text(LOG)
    return tmp_path / "d16.log"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket of a server of this test's own."""
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    server = pytest.importorskip("moto.server", reason="there is no server of S3's protocol here")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    address = f"http://127.0.0.1:{port}"
    known = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "mine", "AWS_REGION": "us-east-1"}
    for name, value in {**known, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    with urlopen(Request(f"{address}/pages", method="PUT")):
        pass
    yield "s3://pages"
    running.stop()


def share(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = in_process("share", *words)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("to", "key"), [("", "d16.html"), ("/all/", "all/d16.html"), ("/all/best.html", "all/best.html")]
)
def test_page_of_a_run_is_sent_with_a_link_to_it(log: Path, bucket: str, to: str, key: str) -> None:
    done = share(str(log), "--to", bucket + to, "--expires", "1h")
    assert f"sent to s3://pages/{key}; the link is good for 1 h" in done.stderr
    with urlopen(done.stdout.strip()) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"d16" in answer.read()
    assert "X-Amz-Expires=3600" in done.stdout


@pytest.mark.filterwarnings("ignore")
def test_bucket_that_is_not_there_is_named(log: Path, bucket: str) -> None:
    error = share(str(log), "--to", "s3://elsewhere/x/", code=1).stderr
    assert "s3://elsewhere/x: there is no such bucket; make it first" in error


def test_list_of_what_goes_is_shown_and_nothing_is_sent_without_a_place(log: Path) -> None:
    notes = share(str(log)).stderr
    assert "goes: d16.html" in notes
    assert "source/" in notes.split("stays:")[1]
    assert "scp" in notes
    assert "would send it to s3://b/x/d16.html" in share(str(log), "--to", "s3://b/x/", "--dry-run").stderr


@pytest.mark.parametrize("to", ["http://x/y", "s3://", "bucket/x", "file:///tmp/x"])
def test_other_places_are_wrong_usage(log: Path, to: str) -> None:
    assert "s3://bucket/folder/" in share(str(log), "--to", to, code=2).stderr


def test_page_of_another_program_is_refused(log: Path) -> None:
    (log.parent / "own.html").write_text("<html>mine</html>")
    assert "is not a page of gputel" in share("own.html", code=1).stderr
