"""Storage: faults are one line that names the address, without secrets."""

import pytest

from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import storage
from gputel.telemetry.remote.storage import Storage, is_address, is_writable


@pytest.mark.parametrize("word", ["s3://bucket/runs", "gs://b/x", "az://account/b/x", "file:///mnt/runs"])
def test_addresses_to_which_runs_are_sent(word: str) -> None:
    assert is_address(word)
    assert is_writable(word)


@pytest.mark.parametrize(
    "word", ["runs/tiny", "latest", "-", "s3:", "ssh://node/log", "C://x", "runs/s3://x"]
)
def test_words_that_are_no_addresses(word: str) -> None:
    assert not is_address(word)


def test_web_server_is_only_read() -> None:
    assert is_address("https://example.com/runs/d16")
    assert not is_writable("https://example.com/runs/d16")


def test_without_obstore_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "find_spec", lambda name: None)
    with pytest.raises(GputelError, match=r"needs obstore; pip install 'gputel\[s3\]'") as caught:
        Storage("s3://bucket/runs")
    assert caught.value.exit_code == 2


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.mark.usefixtures("keys")
def test_plain_http_beyond_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1:9000")
    with pytest.raises(GputelError, match="plain http; GPUTEL_S3_ALLOW_HTTP=1 allows it"):
        Storage("s3://bucket/runs").objects()


def test_secret_in_an_address_is_not_shown() -> None:
    with pytest.raises(GputelError) as caught:
        Storage("s3://user:hunter2secret@bucket/runs").objects()
    assert "hunter2secret" not in str(caught.value)
